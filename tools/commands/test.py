"""`gradwire test`: all checks and tests that a change must pass."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from gradwire import COMMAND
from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from gradwire.tools import thismachine

CHECKS = {
    "ruff format": ("ruff", "format", "--check"),
    "ruff": ("ruff", "check", "--quiet"),
    "mypy": ("mypy", "--no-error-summary"),
}
TOGETHER = ("--dist", "loadscope", "-m")  # each file by one process, those of many tests first
BY_NAME = ("--no-loadscope-reorder",)  # the longest, in tests/real, come first
EVERY, QUICK = "not real or untimed", "(not real or untimed) and not long"
# What they measure, another test beside them would change; all are in one folder, so no other is collected.
ALONE = ("tests/real", "-m", "real and not untimed")
LEFT_OUT = (
    f"tests that take long were left out: {COMMAND} test -n auto -m long runs them, sudo {COMMAND} test all"
)
PYTEST_INTERRUPTED, PYTEST_USAGE = 2, 4  # its exit codes
FAULT, USAGE = 1, 2  # ours
PATIENCE_S = 20.0


def test(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PYTEST-ARGUMENT", help="Run only pytest, with these arguments."),
    ] = None,
) -> None:
    """Run ruff, mypy and pytest, as CI does; with arguments, run only pytest with them.

    The tests on a real network need root. Without root they are skipped, and
    so are those that take long (marked long). The last lines say so.

    sudo gradwire test
    gradwire test tests/traces -k gloo
    """
    failed = [] if arguments else [name for name, command in CHECKS.items() if not passes(name, command)]
    code = pytest(*arguments) if arguments else all_tests()
    if failed:
        print(f"gradwire: failed: {', '.join(failed)} (see above)", file=sys.stderr)
    if failed or code:
        raise typer.Exit(USAGE if code == PYTEST_USAGE else FAULT)


def all_tests() -> int:
    """What may share the machine, then what needs it alone; the first exit code that is not 0."""
    if thismachine.is_root():
        # Tests on real networks wait for links half of their time, so one more than there are processors.
        processes = str(len(os.sched_getaffinity(0)) + 1)
        together = pytest("-n", processes, *BY_NAME, *TOGETHER, EVERY)
        return pytest(*ALONE) or together
    code = pytest("-n", "auto", *TOGETHER, QUICK)
    print(LEFT_OUT)
    return code


def pytest(*arguments: str) -> int:
    """Its exit code; KeyboardInterrupt if it was interrupted."""
    code = run_in_root("pytest", *arguments)
    if code == PYTEST_INTERRUPTED:
        raise KeyboardInterrupt
    return code


def passes(name: str, command: tuple[str, ...]) -> bool:
    print(f"{name} …", flush=True)
    return run_in_root(*command) == 0


def run_in_root(module: str, *arguments: str) -> int:
    """The exit code of a Python tool run in the project's folder."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}  # for Python that the tests start themselves
    with subprocess.Popen(python(module, *arguments), cwd=PROJECT, env=environment) as tool:
        try:
            return tool.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the tool as well; let it take down the networks of its tests.
            try:
                tool.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                tool.terminate()
            raise
