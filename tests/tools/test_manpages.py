"""Man pages: one for each command, with all that `--help` says, and no text is taken for a request."""

import re
from pathlib import Path

import pytest

from gradwire.tools import cli
from gradwire.tools.help import Page
from gradwire.tools.manpages import man_page

COMMANDS = [command.name for command in cli.TABLE if command.exists]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_every_command_has_a_page_that_names_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("help", "--man", str(tmp_path / "man1")) == 0
    written = capsys.readouterr().out.split()
    assert [Path(path).name for path in written] == [
        "gradwire.1",
        *(f"gradwire-{name}.1" for name in COMMANDS),
    ]
    for name in ("plan", "replay", "inject"):
        page = (tmp_path / "man1" / f"gradwire-{name}.1").read_text()
        assert run(name, "--help") == 0
        shown = capsys.readouterr().out
        last = shown.splitlines()[-1].strip().replace("-", "\\-")
        examples = page.partition("\n.SH EXAMPLES\n")[2].splitlines()
        assert last in [line.removeprefix("\\&") for line in examples]
        for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE):
            assert option.replace("-", "\\-") in page


def test_text_that_looks_like_a_request_is_text() -> None:
    page = Page(
        "gradwire odd", "gradwire odd [OPTIONS]", (".so /etc/passwd", r"a\b"), {"Options": (("-x", "'q"),)}
    )
    lines = man_page(page, ["gradwire"]).splitlines()
    assert "\\&.so /etc/passwd" in lines
    assert r"a\eb" in lines
    assert "\\&'q" in lines
    assert not any(line.startswith((".so", "'")) for line in lines)


def test_help_of_a_command_is_its_help_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("help", "doctor") == 0
    said = capsys.readouterr().out
    assert run("doctor", "--help") == 0
    assert said == capsys.readouterr().out
    assert run("help") == 0
    assert "Captures of training jobs" in capsys.readouterr().out
