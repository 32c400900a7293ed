"""The cells of a study that are done, a file each in the study's folder, by their keys."""

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import Row
from gradwire.results.studyresults import CellResult
from gradwire.tools.sweep.study import StudyCell
from gradwire.traces.files import write_whole

CELLS = "cells"
SCHEMA = "gradwire.cell/1"
MAX_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _File:
    cell: PlannedCell
    row: Row | None = None


@cache
def _adapter() -> TypeAdapter[_File]:
    return TypeAdapter(_File)  # made when it is needed: it takes a moment


def save_cell(folder: Path, each: StudyCell, result: CellResult) -> None:
    """As docs/schemas.md, "Cells of a study", says.  Raise OSError.

    A cell that failed is not kept: it is not the study that decided that.
    """
    if result.failed is not None:
        return
    row = result.row and result.row.to_json()
    value = {"schema": SCHEMA, "key": each.key, "seed": each.seed, "cell": asdict(result.cell), "row": row}
    write_whole(_path(folder, each), json.dumps(value, indent=1) + "\n")


def load_cell(folder: Path, each: StudyCell, *, retry: bool = False) -> CellResult | None:
    """None for a cell that is not there, is not as this version writes it, or, to `retry` it, has a row that
    is not valid: it is done again.
    """
    path = _path(folder, each)
    if not path.is_file() or path.stat().st_size > MAX_NBYTES:
        return None
    try:
        value = json.loads(path.read_text())
        if value["schema"] != SCHEMA or value["key"] != each.key:
            return None
        found = _adapter().validate_python({"cell": value["cell"], "row": value["row"]})
    except (ValueError, KeyError, TypeError, ValidationError):
        return None
    if each.run and found.row is None and found.cell.refused is None:
        return None
    if retry and found.row and not found.row.valid:
        return None
    return CellResult(each.job, each.seed, found.cell, found.row)


def n_kept(folder: Path) -> int:
    """How many cells there are, of whatever study."""
    return len(list((folder / CELLS).glob("*.json")))


def _path(folder: Path, each: StudyCell) -> Path:
    return folder / CELLS / f"{each.key}.json"
