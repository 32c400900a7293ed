"""The whole test suite: what a change must pass."""

import subprocess
import sys
from typing import Annotated

import typer

from emu.project import PROJECT

CHECKS = {
    "ruff format": ("ruff", "format", "--check"),
    "ruff": ("ruff", "check", "--quiet"),
    "mypy": ("mypy", "--no-error-summary"),
}
PYTEST_INTERRUPTED, PYTEST_USAGE = 2, 4  # its exit codes
FAULT, USAGE = 1, 2  # ours
PATIENCE_S = 20.0


def test(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[PYTEST ARGUMENTS]…", help="Run only pytest, with these.")
    ] = None,
) -> None:
    """Run ruff, mypy and pytest, as CI does; with arguments only pytest, with those.

    The tests on a real network need root; without it they are left out, and the last lines say so.
    """
    failed = [] if arguments else [name for name, command in CHECKS.items() if not passes(name, command)]
    code = run_in_root("pytest", *(arguments or ()))
    if code == PYTEST_INTERRUPTED:
        raise KeyboardInterrupt
    if failed:
        print(f"gradwire: failed: {', '.join(failed)} (see above)", file=sys.stderr)
    if failed or code:
        raise typer.Exit(USAGE if code == PYTEST_USAGE else FAULT)


def passes(name: str, command: tuple[str, ...]) -> bool:
    print(f"{name} …", flush=True)
    return run_in_root(*command) == 0


def run_in_root(module: str, *arguments: str) -> int:
    """The exit code of a Python tool run in the project's folder."""
    with subprocess.Popen([sys.executable, "-P", "-m", module, *arguments], cwd=PROJECT) as tool:
        try:
            return tool.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the tool as well; let it take down the networks of its tests.
            try:
                tool.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                tool.terminate()
            raise
