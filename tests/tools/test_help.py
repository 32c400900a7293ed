"""`--help` of every command: what a page names and explains, and that names mean one thing."""

import re
from pathlib import Path

import pytest
import typer

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.placement import PLACEMENTS
from gradwire.planning.routing.policies import BUILT_IN
from gradwire.tools import cli
from gradwire.tools.console import PIPE_COLUMNS
from gradwire.tools.options.common import MEANINGS
from gradwire.traces.schedules.names import CHOICES
from tests.commandlines import options_of

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "commandline.md").read_text()
COMMANDS = [command.name for command in cli.TABLE if command.exists]
# Another captured job in plan and replay, one to train in capture and trust; a cluster, and to install Ray.
TWO_KINDS = {"--beside", "--ray"}


def page(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_fits_its_columns_and_names_every_option(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = page(name, capsys)
    assert max(map(len, shown.splitlines())) <= PIPE_COLUMNS
    group = typer.main.get_command(cli.application(name))
    assert isinstance(group, typer.core.TyperGroup)
    begun = {line.split("  ")[1] for line in shown.splitlines() if line.startswith("  ")}
    for parameter in group.commands[name].params:
        if parameter.opts[0].startswith("-"):
            spelled = ", ".join(sorted(parameter.opts, key=len))
            assert any(f"{first} ".startswith(f"{spelled} ") for first in begun), spelled


def test_every_choice_is_explained_and_nothing_else() -> None:
    assert set(MEANINGS) == {*CHOICES, *PLACEMENTS, *BUILT_IN}


def test_a_page_says_a_line_for_each_choice(capsys: pytest.CaptureFixture[str]) -> None:
    shown = page("replay", capsys)
    for name in MEANINGS:
        assert f" {name}: " in shown


def test_bounds_and_default_come_with_the_first_line_of_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    shown = page("controller", capsys)
    assert "TCP port to listen on for OpenFlow. [1 to 65535; default: 6653]" in shown
    assert "How flows are routed. [default: ecmp]\n" in shown


@pytest.mark.parametrize("name", ["audit", "bench", "capture", "demo", "inject", "replay", "trust"])
def test_a_command_that_leaves_with_3_says_when(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Exit code 3: " in page(name, capsys)


def test_an_option_takes_the_same_kind_of_value_in_every_command() -> None:
    kinds: dict[str, set[str]] = {}
    for name in COMMANDS:
        group = typer.main.get_command(cli.application(name))
        assert isinstance(group, typer.core.TyperGroup)
        for parameter in group.commands[name].params:
            for spelling in parameter.opts:
                kinds.setdefault(spelling, set()).add(str(parameter.metavar))
    several = {spelling for spelling, metavars in kinds.items() if len(metavars) > 1}
    assert {spelling for spelling in several if spelling.startswith("--")} == TWO_KINDS


def test_an_option_that_does_not_do_the_same_everywhere_is_explained_in_the_docs() -> None:
    does: dict[str, set[str]] = {}
    for name in COMMANDS:
        group = typer.main.get_command(cli.application(name))
        assert isinstance(group, typer.core.TyperGroup)
        for parameter in group.commands[name].params:
            text = (getattr(parameter, "help", "") or "").split("\n")[0].removesuffix(" Repeatable.")
            for spelling in parameter.opts:
                does.setdefault(spelling, set()).add(text)
    several = {spelling for spelling, texts in does.items() if len(texts) > 1 and spelling.startswith("--")}
    table = DOCS.split("## Options of several commands\n")[1]
    cells = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    assert {option for cell in cells for option in re.findall(r"`(--[\w-]+)`", cell)} == several


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_ends_with_command_lines_that_the_command_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each on one line; the fabrics that they name can be built, and the files of the project are there."""
    _, heading, examples = page(name, capsys).rpartition("\nExamples\n")
    assert bool(heading) == (name != "part")  # which nobody types
    for line in map(str.strip, examples.splitlines() if heading else ()):
        named, options = options_of(line)
        assert named == name or (name, named) == ("runs", "report")
        fabrics = options.get("fabric") or options.get("specs") or options.get("spec") or []
        for spec in [fabrics] if isinstance(fabrics, str) else fabrics:
            assert parse_fabric(spec).hosts
        for path in re.findall(r"\b(?:traces|labs|tests|docs)/\S+", line):
            assert (ROOT / path).exists(), line


@pytest.mark.parametrize("name", ["inspect", "plan", "replay", "inject", "extract"])
def test_where_it_is_installed_examples_name_samples_from_any_folder(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gradwire.tools.help.COMMAND", "gradwire")
    monkeypatch.chdir(tmp_path)
    paths = re.findall(r"\S*traces/samples/\w+", "".join(page(name, capsys).split("\n")))
    assert paths
    assert all(Path(path).is_dir() for path in paths)


@pytest.mark.parametrize("columns", [50, 80, 160])
def test_texts_of_a_page_have_two_thirds_of_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in page("replay", capsys).splitlines()]
    assert max(map(len, lines)) <= columns
    begins = {len(line) - len(line.lstrip()) for line in lines if line.startswith("          ")}
    assert len(begins) == 1
    assert min(begins) <= columns // 3 + 4
