"""`gradwire test`: what it runs, and what its exit code says."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import gradwire.tools.commands.test as command
from gradwire.emu.project import PROJECT

Ran = list[tuple[str, ...]]


@pytest.fixture
def tools_that_end(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Call it with exit codes by tool; others end with 0. Gives the list of what was run."""

    def prepare(**codes: int) -> Ran:
        ran: Ran = []

        def run(*words: str) -> int:
            ran.append(words)
            return codes.get(words[0], 0)

        monkeypatch.setattr(command, "run_in_root", run)
        return ran

    return prepare


def exit_code(arguments: list[str] | None = None) -> int:
    try:
        command.test(arguments)
    except typer.Exit as left:
        return left.exit_code
    return 0


@pytest.mark.parametrize(("is_root", "marked"), [(True, ["together", "alone"]), (False, ["together"])])
def test_everything_runs_and_pytest_comes_last(
    is_root: bool, marked: list[str], tools_that_end: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwire.tools.machine.is_root", lambda: is_root)
    ran = tools_that_end()
    assert exit_code() == 0
    assert [words[:2] for words in ran[:3]] == [("ruff", "format"), ("ruff", "check"), ("mypy", ran[2][1])]
    options = {"together": command.TOGETHER, "alone": command.ALONE}
    assert ran[3:] == [("pytest", *options[name]) for name in marked]


def test_each_test_is_either_of_those_that_run_together_or_of_those_that_run_alone() -> None:
    for is_real, is_untimed in ((False, False), (True, False), (True, True)):
        marks = {"real": is_real, "untimed": is_untimed}
        assert [eval(options[-1], marks) for options in (command.TOGETHER, command.ALONE)].count(True) == 1


def test_all_tests_on_a_real_network_are_where_those_that_run_alone_are_looked_for() -> None:
    folder = command.ALONE[0]
    marked = [
        path for path in (PROJECT / "tests").rglob("test_*.py") if "pytest.mark.real" in path.read_text()
    ]
    assert [path for path in marked if PROJECT / folder not in path.parents] == [Path(__file__)]


def test_arguments_go_to_pytest_alone(tools_that_end: Callable[..., Ran]) -> None:
    ran = tools_that_end()
    assert exit_code(["-k", "ring", "tests/traces/test_units.py"]) == 0
    assert ran == [("pytest", "-k", "ring", "tests/traces/test_units.py")]


def test_a_failed_check_fails_the_whole_although_pytest_still_runs(
    tools_that_end: Callable[..., Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tools_that_end(mypy=2)
    assert exit_code() == 1
    assert ran[-1][0] == "pytest"
    assert "gradwire: failed: mypy" in capsys.readouterr().err


@pytest.mark.parametrize(("pytests", "ours"), [(1, 1), (3, 1), (4, 2), (5, 1)])
def test_pytests_failure_is_the_commands(pytests: int, ours: int, tools_that_end: Callable[..., Ran]) -> None:
    tools_that_end(pytest=pytests)
    assert exit_code() == ours
    assert exit_code(["-x"]) == ours


def test_an_interrupted_pytest_is_an_interrupt(tools_that_end: Callable[..., Ran]) -> None:
    ran = tools_that_end(pytest=2)
    with pytest.raises(KeyboardInterrupt):
        command.test()
    assert [words[0] for words in ran].count("pytest") == 1


def test_a_tools_exit_code_is_seen() -> None:
    assert command.run_in_root("this") == 0
    assert command.run_in_root("gradwire_no_such_module") == 1
