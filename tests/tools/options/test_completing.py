"""What Tab offers in a shell, asked for as bash, zsh and fish ask."""

from collections.abc import Callable

import pytest

from gradwire.planning.placement import PLACEMENTS
from gradwire.tools import cli
from gradwire.tools.options.completing import completing


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What a shell is given for a command line whose last word goes on."""

    def ask(line: str, shell: str) -> list[str]:
        words = line.split(" ")
        asked = {
            "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
            "zsh": {"_TYPER_COMPLETE_ARGS": line},
            "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        }[shell]
        for name, value in {**asked, cli.COMPLETING: f"complete_{shell}"}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            cli.main([])
        monkeypatch.delenv("COMP_WORDS", raising=False)
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.split("\n")[:-1]

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gradwire repl", ["replay"]),
        ("gradwire plan x --fabric fat", ["fat-tree:k=4"]),
        ("gradwire bench allreduce --algorithm halv", ["halving-doubling", "halving-doubling:far"]),
        ("gradwire plan x --routes dm", ["dmodk"]),
        ("gradwire plan x --scale-by", ["--scale-bytes"]),
        ("gradwire make goss", ["gossip"]),
        ("gradwire help insp", ["inspect"]),
    ],
)
def test_bash_is_offered_what_goes_on_from_a_word(
    line: str, expected: list[str], offered: Callable[..., list[str]]
) -> None:
    assert offered(line, "bash") == expected


def test_all_placements_are_offered_with_their_meanings_where_a_shell_shows_them(
    offered: Callable[..., list[str]],
) -> None:
    line = "gradwire plan x --placement "
    assert offered(line, "bash") == [*PLACEMENTS]
    assert "linear\trank r on host r" in offered(line, "fish")
    assert any("rank r on host r" in each for each in offered(line, "zsh"))


def test_of_a_name_with_a_value_the_value_is_left_to_type() -> None:
    assert completing(["ps:LAYOUT", "ring"])("p") == [("ps:", "")]
