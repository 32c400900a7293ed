"""A page of every error that the tests provoke, one example of each place that raises it.

    sudo .venv/bin/python -m tests.errors [PAGE]

For people who read them aloud: is it said what is wrong, where, and what to do?  The suite runs with this
module as a pytest plugin, which notes what `pytest.raises` catches and what commands print when they fail.
An error that another one was made of is not on the page, but it was raised.  What no test raises is listed at
the end, by its line.  PAGE is errors.txt unless given.
"""

import ast
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("traces", "planning", "emu", "controller", "results", "tools")
NOTES = "GRADWIRE_ERRORS"  # where the processes of a run leave what they noted
Place = tuple[str, int]

_noted: dict[Place, str] = {}
_inside: set[Place] = set()  # raised, and then the cause of another error


def pytest_configure() -> None:
    """Called by pytest in each of its processes."""
    from _pytest.raises import RaisesExc

    from gradwire.tools import exits

    leave, report = RaisesExc.__exit__, exits.report

    @wraps(leave)
    def left(
        self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            note(error)
        return leave(self, kind, error, trace)

    @wraps(report)
    def reported(error: BaseException) -> int:
        note(error)
        return report(error)

    RaisesExc.__exit__ = left  # type: ignore[method-assign]
    exits.report = reported


def pytest_sessionfinish() -> None:
    """Called by pytest in each of its processes."""
    lines = [[*place, text] for place, text in _noted.items()]
    notes = json.dumps({"shown": lines, "inside": sorted(_inside)})
    (Path(os.environ[NOTES]) / f"{os.getpid()}.json").write_text(notes)


def note(error: BaseException) -> None:
    """Keep the error's text by the line of ours that raised it, and the lines of what it was made of."""
    if place := _place(error):
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _noted.setdefault(place, _without_folders(text))
    _inside.update(filter(None, map(_place, causes(error))))


def causes(error: BaseException) -> Iterator[BaseException]:
    """What an error was raised from, or while it was handled, and so on; also where `from None` hides it."""
    waiting = [error]
    seen = {id(error)}
    while waiting:
        last = waiting.pop()
        for each in (last.__cause__, last.__context__):
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
                yield each


def _place(error: BaseException) -> Place | None:
    """The line of ours that raised it."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(ROOT) and (name := path.relative_to(ROOT).as_posix()).startswith(FOLDERS):
            return name, frame.lineno or 0
    return None


def _without_folders(text: str) -> str:
    """Temporary folders have other names in every run."""
    return re.sub(r"/tmp/\S*?/(?=[^/\s]+(?:[:\s]|$))", ".../", text)


def raised_in(name: str) -> Iterator[tuple[Place, int, str]]:
    """Each `raise` of a module with a text: its first and last line, and its source."""
    source = (ROOT / name).read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield (name, node.lineno), node.end_lineno or node.lineno, ast.unparse(node.exc)


def page(noted: dict[Place, str], inside: set[Place]) -> str:
    """All of it, by file and line."""
    lines, missing = [], []
    for name in sorted(
        path.relative_to(ROOT).as_posix() for one in FOLDERS for path in (ROOT / one).rglob("*.py")
    ):
        places = dict(sorted((place[1], text) for place, text in noted.items() if place[0] == name))
        if places:
            lines += ["", name, *(f"{line:5}  {text}" for line, text in places.items())]
        for (_, first), last, source in raised_in(name):
            raised = {*places, *(line for inner, line in inside if inner == name)}
            if not any(first <= line <= last for line in raised):
                missing.append(f"{name}:{first}  {source}")
    return "\n".join([*lines, "", f"Raised by no test ({len(missing)}):", *missing]).lstrip() + "\n"


def main() -> int:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "errors.txt")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[NOTES] = folder
        together = ("-n", "auto", "--dist", "loadscope", "--no-loadscope-reorder")
        code = pytest.main(["-q", "-p", "tests.errors", *together, "-m", "not real", str(ROOT / "tests")])
        noted: dict[Place, str] = {}
        inside: set[Place] = set()
        for part in sorted(Path(folder).glob("*.json")):
            notes = json.loads(part.read_text())
            noted |= {(name, line): text for name, line, text in notes["shown"]}
            inside |= {(name, line) for name, line in notes["inside"]}
    target.write_text(page(noted, inside))
    print(f"wrote {target}: {len(noted)} errors")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
