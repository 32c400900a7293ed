"""Compares two matrices of runs, cell by cell: what changed by more than the noise of the repeats.

A cell's value is the median of its repeats.  Of two cells' repeats RESAMPLES pairs of samples are drawn with
replacement, each as large as the original; the interval that holds 95 % of the differences of their medians
(Efron's percentile bootstrap) is the difference's uncertainty.  A cell has changed if 0 is outside of it.
With fewer than MIN_REPEATS on either side nothing is claimed: so few values hold too little of the noise.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from gradwire.emu.records import load_repeats
from gradwire.planning.runfiles import BadRun, check_finished, one_run, read_json
from gradwire.results.row import Row
from gradwire.results.rowchoices import show_choices
from gradwire.results.verdict import counted
from gradwire.traces.files import write_whole

RESULT = "result.json"
SCHEMA: Literal["gradwire.matrix/1"] = "gradwire.matrix/1"
COMPARISON_SCHEMA = "gradwire.comparison/1"
MIN_REPEATS = 5
RESAMPLES = 10_000
CONFIDENCE = 0.95
SEED = 0
MAX_REPEATS, MAX_CELLS = 100_000, 100_000

Change = Literal[
    "slower", "faster", "no change seen", "too few repeats", "only in the first", "only in the second"
]


@checked(frozen=True, config=ConfigDict(extra="ignore"))
class MatrixCell:
    """One cell of a matrix: `times_s` are its counted repeats, none of a cell that was refused."""

    cell: str
    verdict: str
    times_s: tuple[float, ...] = ()


@checked(frozen=True, config=ConfigDict(extra="ignore"))
class _File:
    """What is read of `result.json`, of either schema."""

    schema: Literal["gradwire.matrix/1", "gradwire.trust/1"]
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """`difference` and its interval `low` to `high` are shares of the first median, `before_s`; None where
    nothing can be claimed.
    """

    cell: str
    change: Change
    before: str | None
    after: str | None
    before_s: float | None = None
    after_s: float | None = None
    before_repeats: int = 0
    after_repeats: int = 0
    difference: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def has_changed(self) -> bool:
        return self.change not in ("no change seen", "too few repeats") or self.before != self.after


def save_matrix(rows: Sequence[Row], folder: Path) -> None:
    """`result.json` of the whole matrix of a `replay` or a `bench`, beside the folders of its runs.

    Raise BadRun, or OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RESULT, json.dumps(matrix_json(rows), indent=1) + "\n")


def matrix_json(rows: Sequence[Row]) -> dict[str, Any]:
    """What `result.json` of a matrix holds; every measured row names the folder of its run.

    Raise BadRun, or OSError.
    """
    cells = []
    for row in rows:
        repeats = counted(load_repeats(Path(row.folder))) if row.folder else []
        times_s = [repeat.time_s for repeat in repeats]
        cells.append(
            {
                "cell": ", ".join(_names(row)),
                "verdict": row.verdict,
                "times_s": times_s,
            }
        )
    return {"schema": SCHEMA, "cells": cells, "rows": [row.to_json() for row in rows]}


def _names(row: Row) -> Iterator[str]:
    """What a cell is the same by in two matrices."""
    yield from (row.fabric, row.algorithm, row.placement, row.routes, f"{row.ranks} ranks")
    if row.bytes:
        yield f"{row.bytes} bytes"
    yield from show_choices(row.choices)


def load_cells(folder: Path) -> dict[str, MatrixCell]:
    """The cells of a matrix by name, in its order.  Raise BadRun for a folder without a whole one, or
    OSError.
    """
    check_finished(folder)
    path = folder / RESULT
    if not path.exists():
        raise BadRun(path, "this folder holds no complete matrix: the command was interrupted")
    value = read_json(path, TypeAdapter(dict[str, Any]))
    if "schema" not in value:
        raise BadRun(path, "this is a single run", "give the folder of the whole matrix, one above it")
    with one_run(path):
        file = _FILE.validate_python(value)
    if len(file.cells) > MAX_CELLS:
        raise BadRun(path, f"{len(file.cells)} cells are too many; the limit is {MAX_CELLS}")
    for cell in file.cells:
        if len(cell.times_s) > MAX_REPEATS or not all(0 < time_s < math.inf for time_s in cell.times_s):
            raise BadRun(path, f"{cell.cell}: not all of its times are above 0, or there are too many")
    names = Counter[str]()
    cells = {}
    for cell in file.cells:
        names[cell.cell] += 1
        again = f" ({names[cell.cell]})" if names[cell.cell] > 1 else ""
        cells[cell.cell + again] = cell
    return cells


_FILE = TypeAdapter(_File)


def compared(before: Mapping[str, MatrixCell], after: Mapping[str, MatrixCell]) -> list[ComparedCell]:
    """Every cell of either, in the first one's order."""
    names = [*before, *(name for name in after if name not in before)]
    return [_compared(name, before.get(name), after.get(name)) for name in names]


def _compared(name: str, before: MatrixCell | None, after: MatrixCell | None) -> ComparedCell:
    if before is None or after is None:
        which: Change = "only in the first" if after is None else "only in the second"
        there = before or after
        assert there
        return ComparedCell(name, which, before.verdict if before else None, after.verdict if after else None)
    first, second = before.times_s, after.times_s
    difference = low = high = None
    change: Change = "too few repeats"
    if first and second:
        difference = median(second) / median(first) - 1
    if min(len(first), len(second)) >= MIN_REPEATS:
        low, high = interval(first, second)
        change = "slower" if low > 0 else "faster" if high < 0 else "no change seen"
    return ComparedCell(
        cell=name,
        change=change,
        before=before.verdict,
        after=after.verdict,
        before_s=median(first) if first else None,
        after_s=median(second) if second else None,
        before_repeats=len(first),
        after_repeats=len(second),
        difference=difference,
        low=low,
        high=high,
    )


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The interval of median(after) - median(before), as shares of median(before): Efron's percentile
    bootstrap.

    The same values give the same interval.
    """
    random = np.random.default_rng(SEED)
    drawn = [
        np.median(random.choice(np.asarray(values), (RESAMPLES, len(values))), axis=1)
        for values in (before, after)
    ]
    edges = np.quantile(drawn[1] - drawn[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(edges[0]) / median(before), float(edges[1]) / median(before)
