"""Plans as pandas frames: their cells, and the links and flows of each."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from gradwire.results.plannedcells import Carried, PlannedCell, PlannedFlow, PlannedLink
from gradwire.traces.dataframes import frame

FIGURES = "figures_"  # in which the fields of PlannedCell.figures begin


def plan_tables(made: Sequence[tuple[PlannedCell, Carried | None]]) -> dict[str, pd.DataFrame]:
    """`rows`, a cell each, and `links` and `flows` with the number of their cell, from 1."""
    rows = frame(PlannedCell, [cell for cell, _ in made])
    rows.columns = pd.Index([name.removeprefix(FIGURES) for name in rows.columns])
    rows.insert(0, "cell", range(1, len(rows) + 1))
    return {
        "rows": rows,
        "links": _numbered(PlannedLink, [carried.links if carried else () for _, carried in made]),
        "flows": _numbered(PlannedFlow, [carried.flows if carried else () for _, carried in made]),
    }


def _numbered(kind: type[Any], of_cells: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """The records of all cells, each with the number of its cell first."""
    numbers = [number for number, records in enumerate(of_cells, start=1) for _ in records]
    table = frame(kind, [record for records in of_cells for record in records])
    table.insert(0, "cell", pd.Series(numbers, dtype="int64"))
    return table
