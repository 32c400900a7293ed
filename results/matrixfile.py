"""A matrix of runs as `result.json` beside the folders of its runs: written cell by cell, and read again.

After every cell a new file takes the place of the one before: whoever is interrupted keeps what was done.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from gradwire.emu.records import load_repeats
from gradwire.planning.runfiles import BadRun, check_finished, check_folder, read_json
from gradwire.results.row import Row
from gradwire.results.rowchoices import show_choices
from gradwire.results.verdict import counted
from gradwire.traces.complaints import complaint, other_version
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_count

RESULT = "result.json"
SCHEMA: Literal["gradwire.matrix/1"] = "gradwire.matrix/1"
MAX_REPEATS, MAX_CELLS = 100_000, 100_000
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class About:
    """`command` has the words as they were typed, `began` the time in UTC, like 2026-07-04T10:15:00Z; both
    are empty in files from before they were noted.  `title` and `introduction` are what a report begins with.
    """

    command: tuple[str, ...] = ()
    began: str = ""
    version: str = ""
    title: str = ""
    introduction: tuple[str, ...] = ()


@checked(frozen=True, config=ConfigDict(extra="ignore"))
class MatrixCell:
    """One cell of a matrix: `times_s` are its counted repeats, none of a cell that was refused."""

    cell: str
    verdict: str
    times_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows of a matrix in its `folder`, and as `cells` what of them is compared; of `n_cells` in all."""

    folder: Path
    about: About
    rows: tuple[Row, ...]
    cells: tuple[MatrixCell, ...]
    n_cells: int

    @property
    def is_complete(self) -> bool:
        return len(self.rows) == self.n_cells

    def with_row(self, row: Row) -> "Matrix":
        """With one more.  Raise BadRun, or OSError."""
        return replace(self, rows=(*self.rows, row), cells=(*self.cells, cell_of(row)))


def begun_matrix(folder: Path, about: About, n_cells: int) -> Matrix:
    """One of which nothing is measured yet."""
    return Matrix(folder, about, (), (), n_cells)


def check_has_none(folder: Path) -> None:
    """Raise FileExistsError for a folder that has results already, which new ones would replace."""
    if (folder / RESULT).exists():
        raise FileExistsError(f"{folder} has results already; choose another folder")


def cell_of(row: Row) -> MatrixCell:
    """What is compared of a row, with the times of its run.  Raise BadRun, or OSError."""
    repeats = counted(load_repeats(Path(row.folder))) if row.folder else []
    return MatrixCell(", ".join(_names(row)), row.verdict, tuple(repeat.time_s for repeat in repeats))


def _names(row: Row) -> Iterator[str]:
    """What a cell is the same by in two matrices."""
    yield from (row.fabric, row.algorithm, row.placement, row.routes, f"{row.ranks} ranks")
    if row.bytes:
        yield f"{row.bytes} bytes"
    yield from show_choices(row.choices)


def save_matrix(matrix: Matrix) -> None:
    """`result.json` in the matrix's folder.  Raise OSError."""
    matrix.folder.mkdir(parents=True, exist_ok=True)
    write_whole(matrix.folder / RESULT, json.dumps(matrix_json(matrix), indent=1) + "\n")


def matrix_json(matrix: Matrix) -> dict[str, Any]:
    """As docs/schemas.md, "result.json of a matrix", says."""
    return {
        "schema": SCHEMA,
        "about": asdict(matrix.about),
        "n_cells": matrix.n_cells,
        "cells": [asdict(cell) for cell in matrix.cells],
        "rows": [row.to_json() for row in matrix.rows],
    }


@dataclass(frozen=True, slots=True)
class _File:
    cells: tuple[MatrixCell, ...]
    rows: tuple[Row, ...]
    about: About = field(default_factory=About)
    n_cells: int | None = None


@cache
def _file() -> TypeAdapter[_File]:
    return TypeAdapter(_File)  # made when it is needed: it takes a moment


@cache
def _row() -> TypeAdapter[Row]:
    return TypeAdapter(Row)


_ANY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def read_result(folder: Path) -> dict[str, Any]:
    """What `result.json` of a folder holds, unchecked.

    Raise BadRun for what is no folder with results, or OSError.
    """
    check_folder(folder, "give a folder with results, such as a run's --out")
    check_finished(folder)
    path = folder / RESULT
    if not path.is_file():
        advice = "give the folder of a finished run; `gradwire runs` lists them"
        raise BadRun(folder, f"it has no {RESULT}, so no run in it is done", advice)
    value = read_json(path, _ANY)
    if _largest(value) >= 1 << 63:
        raise BadRun(path, "it holds a number that is too large for any count")
    return value


def _largest(value: Any) -> float:
    """Of all whole numbers in it, without their signs; 0 without one, infinity with NaN or an infinity."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return 0 if math.isfinite(value) else math.inf
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(_largest, inside), default=0)


def load_matrix(folder: Path) -> Matrix:
    """The matrix in a folder, complete or not; of a single run's folder a matrix of that run.

    Its rows name the runs where they are now.  Raise BadRun, or OSError.
    """
    return matrix_of(folder, read_result(folder))


def matrix_of(folder: Path, value: dict[str, Any]) -> Matrix:
    """The matrix that `value` of a folder's `result.json` is.  Raise BadRun, or OSError."""
    path = folder / RESULT
    if "schema" not in value:
        row = replace(checked_value(path, _row(), value), folder=str(folder))
        return begun_matrix(folder, About(title=row.name), 1).with_row(row)
    check_schema(path, value, SCHEMA)
    file = checked_value(path, _file(), value)
    if len(file.rows) != len(file.cells):
        raise BadRun(
            path, f"it has {show_count(len(file.rows), 'row')}, but {show_count(len(file.cells), 'cell')}"
        )
    check_cells(path, file.cells)
    n_cells = len(file.cells) if file.n_cells is None else file.n_cells
    rows = tuple(_placed(row, folder) for row in file.rows)
    return Matrix(folder, file.about, rows, file.cells, n_cells)


def checked_value(path: Path, kind: TypeAdapter[Value], value: Any) -> Value:
    """Raise BadRun for what is not as this version writes it."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        what = f"not results as this gradwire writes them: {complaint(error)}"
        raise BadRun(path, what, "run the command again, or use the gradwire that wrote them") from error


def _placed(row: Row, folder: Path) -> Row:
    """With the run's folder below the matrix's, wherever that was when it was written."""
    name = Path(row.folder or "").name
    return row if not name else replace(row, folder=str(folder / name))


def check_schema(path: Path, value: dict[str, Any], *known: str) -> None:
    """Raise BadRun for a file of another version, or of another kind."""
    found = value.get("schema")
    if found in known:
        return
    for wanted in known:
        what, _, advice = other_version(found, wanted, "run the command again").partition("; ")
        if what:
            raise BadRun(path, what, advice)
    raise BadRun(path, f"it holds {found!r}, not results of runs", "give a folder of replay, bench or trust")


def check_cells(path: Path, cells: Sequence[MatrixCell]) -> None:
    """Raise BadRun for more cells or times than there may be, and for times that cannot be."""
    if len(cells) > MAX_CELLS:
        raise BadRun(path, f"{len(cells)} cells are too many; the limit is {MAX_CELLS}")
    for cell in cells:
        if len(cell.times_s) > MAX_REPEATS or not all(0 < time_s < math.inf for time_s in cell.times_s):
            raise BadRun(path, f"{cell.cell}: a cell has up to {MAX_REPEATS:,} times, each above 0")
