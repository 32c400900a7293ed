"""Results of several runs beside each other: a row for each cell, a column for each run."""

from collections.abc import Iterator, Sequence
from statistics import median

from gradwire.results.comparison import named
from gradwire.results.matrixfile import Matrix, MatrixCell
from gradwire.tools.report.rowtables import VERDICT_STYLES
from gradwire.tools.table import NOTHING, Cell, Table, columns, table_of
from gradwire.traces.units import show_s


def side_by_side(several: Sequence[Matrix]) -> Table:
    """Median times; from the second run on with the difference from the first in percent.  What all cells
    have in common is said once, in the title.
    """
    runs = [named(matrix.cells) for matrix in several]
    names = list(dict.fromkeys(name for cells in runs for name in cells))
    shared, short = without_shared(names)

    def row(place: int) -> Iterator[Cell | str]:
        first, *others = (cells.get(names[place]) for cells in runs)
        yield short[place]
        yield _time(first, None)
        yield from (_time(other, first) for other in others)

    heads = (
        *columns("cell"),
        *(column for name in run_names(several) for column in columns(f"#{name}")),
    )
    return table_of(heads, range(len(names)), row, title=f"median times{shared}")


def run_names(several: Sequence[Matrix]) -> list[str]:
    """Of each the name of its folder; the path, where two are of one name."""
    names = [matrix.folder.name for matrix in several]
    return names if len(set(names)) == len(names) else [str(matrix.folder) for matrix in several]


def _time(cell: MatrixCell | None, first: MatrixCell | None) -> Cell | str:
    if cell is None or not cell.times_s:
        return NOTHING if cell is None else Cell(cell.verdict, style=VERDICT_STYLES.get(cell.verdict, ""))
    time_s = median(cell.times_s)
    text = show_s(time_s)
    if first is not None and first.times_s:
        text += f" ({time_s / median(first.times_s) - 1:+.1%})"
    if cell.verdict == "valid":
        return Cell(text, key=time_s)
    return Cell(f"{text}, {cell.verdict}", key=time_s, style=VERDICT_STYLES.get(cell.verdict, ""))


def without_shared(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all of several names of cells say, with a colon before it, and the names without that."""
    parts = [name.split(", ") for name in names]
    shared = [part for part in parts[0] if all(part in others for others in parts)] if len(parts) > 1 else []
    short = [", ".join(part for part in each if part not in shared) for each in parts]
    if not shared or not all(short):
        return "", list(names)
    return f": {', '.join(shared)}", short
