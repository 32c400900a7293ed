"""Reads and checks the files of a run's folder: a whole file, or one line that says what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from gradwire.traces.complaints import complaint

INCOMPLETE = ".incomplete"  # ends the name of the folder of a run that is under way, or was never finished
Value = TypeVar("Value")


class BadRun(ValueError):
    """What a run's folder holds cannot be used; the text is one line that begins with the path."""

    def __init__(self, path: Path, what: str, advice: str = "run it again") -> None:
        super().__init__(f"{path}: {what}; {advice}")


def check_folder(folder: Path, advice: str) -> None:
    """Raise BadRun for what is not a folder."""
    if not folder.is_dir():
        raise BadRun(folder, "this is a file" if folder.exists() else "there is no such folder", advice)


def check_finished(folder: Path) -> None:
    """Raise BadRun for the folder of a run that never finished."""
    if folder.name.endswith(INCOMPLETE):
        advice = "look at its plan.json alone, or run it again"
        raise BadRun(folder, "this run never finished, or still runs", advice)


@contextmanager
def one_run(folder: Path) -> Iterator[None]:
    """In the block what the files say is put together; raise BadRun where they contradict each other."""
    try:
        yield
    except BadRun:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        said = complaint(error) if isinstance(error, ValidationError) else str(error)
        reason = (said.splitlines() or [type(error).__name__])[0]
        raise BadRun(folder, f"its files do not belong together: {reason}") from error


def read_json(path: Path, kind: TypeAdapter[Value]) -> Value:
    """The file's one value.  Raise BadRun, or OSError."""
    return _value(path, path.read_bytes(), kind, "")


def read_lines(path: Path, kind: TypeAdapter[Value], holding: bytes = b"") -> Iterator[tuple[int, Value]]:
    """The value of each line, or of those that hold some text, and the line's number from 1.

    Raise BadRun, or OSError.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if holding in line:
                yield number, _value(path, line, kind, f"line {number}: ")


def _value(path: Path, octets: bytes, kind: TypeAdapter[Value], where: str) -> Value:
    if not octets.strip():
        raise BadRun(path, f"{where}it is empty")
    try:
        return kind.validate_json(octets)
    except ValidationError as error:
        said = complaint(error)
        raise BadRun(path, where + (said.replace("line 1, column", "column") if where else said)) from error
