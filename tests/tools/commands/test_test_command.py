"""`gradwire test`: what it runs, and what its exit code says."""

import os
import re
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import typer

import gradwire.tools.commands.test as command
from gradwire.emu.interpreter import python
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


@pytest.mark.parametrize(("is_root", "marked"), [(True, ["every", "alone"]), (False, ["quick"])])
def test_everything_runs_and_pytest_comes_last(
    is_root: bool,
    marked: list[str],
    tools_that_end: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("gradwire.tools.thismachine.is_root", lambda: is_root)
    ran = tools_that_end()
    assert exit_code() == 0
    assert [words[:2] for words in ran[:3]] == [("ruff", "format"), ("ruff", "check"), ("mypy", ran[2][1])]
    options = {
        "every": (
            "-n",
            str(len(os.sched_getaffinity(0)) + 1),
            *command.BY_NAME,
            *command.TOGETHER,
            command.EVERY,
        ),
        "quick": ("-n", "auto", *command.TOGETHER, command.QUICK),
        "alone": command.ALONE,
    }
    assert ran[3:] == [("pytest", *options[name]) for name in marked]
    assert ("tests that take long were left out" in capsys.readouterr().out) == (not is_root)


def test_each_test_is_either_of_those_that_run_together_or_of_those_that_run_alone() -> None:
    for is_real, is_untimed, is_long in product((False, True), repeat=3):
        if is_untimed and not is_real:
            continue
        marks = {"real": is_real, "untimed": is_untimed, "long": is_long}
        assert [eval(marked, marks) for marked in (command.EVERY, command.ALONE[-1])].count(True) == 1
        assert eval(command.QUICK, marks) == (eval(command.EVERY, marks) and not is_long)


@pytest.mark.long
def test_of_broad_tests_one_case_of_n_is_not_long(tmp_path: Path) -> None:
    """Seven cases of broad(3): the first, fourth and seventh are in the quick part, the rest in -m long."""
    (tmp_path / "conftest.py").write_text((PROJECT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.broad(3)\n"
        "@pytest.mark.parametrize('case', range(7))\n"
        "def test_some(case): pass\n"
        "@pytest.mark.long\n"
        "def test_long(): pass\n"
    )

    def collected(marked: str) -> list[str]:
        words = ("pytest", "--collect-only", "-q", "--strict-markers", "-p", "no:cacheprovider")
        options = ("-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(tmp_path), "-m", marked)
        done = subprocess.run(
            python(*words, *options, str(tmp_path)), cwd=PROJECT, capture_output=True, text=True, check=True
        )
        return re.findall(r"::(\S+)", done.stdout)

    assert collected(command.QUICK) == ["test_some[0]", "test_some[3]", "test_some[6]"]
    others = [f"test_some[{case}]" for case in (1, 2, 4, 5)]
    assert collected(f"({command.EVERY}) and long") == [*others, "test_long"]


def test_all_tests_on_a_real_network_are_where_those_that_run_alone_are_looked_for() -> None:
    folder = command.ALONE[0]
    marked = [
        path for path in (PROJECT / "tests").rglob("test_*.py") if "pytest.mark.real" in path.read_text()
    ]
    there = set((PROJECT / folder).glob("test_*.py"))
    assert set(marked) == there | {Path(__file__)}


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
