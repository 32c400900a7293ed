"""The command line's frame: what is listed, what is imported, and how a command line ends."""

import json
import subprocess
import sys
from collections import Counter

import pytest
import typer
import typer.core

import gradwire
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import parse_failures
from gradwire.planning.placement import place
from gradwire.planning.routing.policies import policy
from gradwire.tools import cli
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.units import did_you_mean

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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["plna"], "there is no command 'plna' (did you mean plan?); see ./gradwire help"),
        (["help", "replya"], "there is no command 'replya' (did you mean replay?); see ./gradwire help"),
        (["zzzz"], "there is no command 'zzzz'; see ./gradwire help"),
        (
            ["plan", "x", "--fabrc", "s"],
            "plan has no option --fabrc (did you mean --fabric?); see ./gradwire help plan",
        ),
        (["plan", "x", "--output", "p.json"], "--output is now called --out; see ./gradwire help plan"),
        (["extract", "x", "--output=j.json"], "--output is now called --out; see ./gradwire help extract"),
        (["doctor", "--output", "x"], "doctor has no option --output; see ./gradwire help doctor"),
        (["fabric"], "missing argument 'SPEC' (or --radix N); see ./gradwire help fabric"),
        (["doctor", "now"], "got unexpected extra argument(s) (now); see ./gradwire help doctor"),
        (["--versio"], "gradwire has no option --versio (did you mean --version?); see ./gradwire help"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"gradwire: {line}\n"


def test_the_nearest_name_is_offered_and_only_one_that_is_near() -> None:
    assert did_you_mean("rign", ["ring", "tree"]) == " (did you mean ring?)"
    assert did_you_mean("RING", ["ring", "tree"]) == " (did you mean ring?)"
    assert did_you_mean("zzz", ["ring", "tree"]) == ""
    assert len(did_you_mean("r" * 10**7, ["ring"])) < 100


STAR = parse_fabric("star:hosts=4")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (lambda: parse_fabric("fattree:k=4"), "(did you mean fat-tree?); choose from bigraph, fat-tree"),
        (lambda: parse_fabric("fat-tree:4"), "'4' is not written as key=value: write fat-tree:k=4"),
        (lambda: parse_fabric("bigraph:8,2"), "write bigraph:n=8,m=2"),
        (lambda: parse_fabric("star:hosts=4,rtae=1G"), "star has no key 'rtae' (did you mean rate?)"),
        (lambda: parse_fabric("star:hosts=4,rate=100"), "at least 1M, got 100 bit/s (did you mean 100M?)"),
        (lambda: algorithm("rign"), "(did you mean ring?)"),
        (lambda: policy("ecpm"), "(did you mean ecmp?)"),
        (lambda: place("lineer", STAR, 4, 0), "(did you mean linear?)"),
        (
            lambda: parse_failures("leaf0-spine1@1", parse_fabric("fat-tree:k=4")),
            "has no node 'leaf0'; its switches are edge0..7, agg0..7, core0..3",
        ),
        (lambda: parse_failures("cor0@1", parse_fabric("fat-tree:k=4")), "(did you mean core0?)"),
    ],
)
def test_a_name_that_is_not_there_brings_the_one_that_was_meant(wrong: object, meant: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError) as raised:
        wrong()
    assert meant in str(raised.value)
