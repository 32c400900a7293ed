"""The command line's frame: what is listed, what is imported, and how a command line ends."""

import json
import subprocess
import sys
from collections import Counter

import pytest
import typer
import typer.core

import gradwire
from gradwire.tools import cli

HEAVY = {"mininet", "numba", "numpy", "os_ken", "pandas", "pyarrow", "scapy"}


def ends(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


def modules_after(*arguments: str) -> set[str]:
    """The modules that are imported when a command line has been carried out."""
    code = (
        "import json, sys\n"
        "from gradwire.tools.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: print(json.dumps(list(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_lists_every_command_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in cli.TABLE:
        if command.exists:
            assert command.name in shown
            assert command.panel in shown


def test_a_command_without_a_module_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "TABLE", (*cli.TABLE, cli.Command("teleport", cli.RUNS, "Not there.")))
    assert ends(["--help"]) == 0
    assert "teleport" not in capsys.readouterr().out
    assert ends(["teleport"]) == 2


def test_every_command_module_is_in_the_table() -> None:
    modules = {path.stem for path in cli.FOLDER.glob("*.py")} - {"__init__"}
    assert modules <= {command.name for command in cli.TABLE}


@pytest.mark.parametrize("name", [command.name for command in cli.TABLE if command.exists])
def test_every_command_says_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: gradwire {name}" in shown
    sentence = (cli.load(name).__doc__ or "").split("\n")[0]
    assert sentence
    assert sentence.split()[0] in shown


@pytest.mark.parametrize("name", [command.name for command in cli.TABLE if command.exists])
def test_no_two_options_of_a_command_have_the_same_spelling(name: str) -> None:
    group = typer.main.get_command(cli.application(name))
    assert isinstance(group, typer.core.TyperGroup)
    options = [option for parameter in group.commands[name].params for option in parameter.opts]
    assert [option for option, times in Counter(options).items() if times > 1] == []


def test_help_imports_no_command_and_no_heavy_library() -> None:
    modules = modules_after("--help")
    assert not {name for name in modules if name.startswith("gradwire.tools.commands.")}
    assert not modules & HEAVY


def test_a_command_imports_no_other() -> None:
    modules = modules_after("doctor", "--help")
    assert {name for name in modules if name.startswith("gradwire.tools.commands.")} == {
        "gradwire.tools.commands.doctor"
    }
    assert not modules & HEAVY


def test_no_help_page_waits_for_what_only_the_work_needs() -> None:
    """As docs/design.md, section 4, has it: an option's text and limits come first, the work later."""
    code = (
        "import json, sys\n"
        "from gradwire.tools import cli\n"
        "added = {}\n"
        "for each in cli.TABLE:\n"
        "    before = set(sys.modules)\n"
        "    cli.load(each.name)\n"
        "    added[each.name] = sorted(set(sys.modules) - before)\n"
        "print(json.dumps(added))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {*HEAVY, "jinja2", "yaml", "gradwire.results", "gradwire.tools.work", "gradwire.planning.plan"}
    added: dict[str, list[str]] = json.loads(done.stdout)
    waits = {
        name: [module for module in modules if any(f"{module}.".startswith(f"{one}.") for one in heavy)]
        for name, modules in added.items()
    }
    assert {name: modules for name, modules in waits.items() if modules} == {}


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"gradwire {gradwire.__version__}, Python 3.")


def test_a_command_that_fails_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(["fabric", "fat-tree:k=5"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gradwire: fabric 'fat-tree:k=5'")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["doctor", "--nonsense"], ["doctor", "too", "much"]])
def test_a_wrong_command_line_is_usage(arguments: list[str]) -> None:
    assert ends(arguments) == 2
