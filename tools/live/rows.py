"""The finished cells as the live view lists them: the few figures that one looks for first."""

from collections.abc import Sequence

from gradwire.results.row import Row
from gradwire.results.studyresults import CellResult
from gradwire.tools.table import Table, columns, or_nothing, table_of
from gradwire.traces.units import show_nbytes, show_s

_HEADS = columns(
    *("fabric", "algorithm", "placement", "routes", "#size", "#time", "#ratio", "##wrong", "verdict")
)


def rows_table(rows: Sequence[Row]) -> Table:
    """One line a cell; with the first reason for a verdict that is not `valid`."""

    def cells(row: Row) -> tuple[str, ...]:
        return (
            *(row.fabric, row.algorithm, row.placement, row.routes),
            show_nbytes(row.bytes) if row.bytes else "",
            or_nothing(row.time_s, lambda time_s: show_s(time_s.median)),
            or_nothing(row.ratio, "{:.3f}".format),
            or_nothing(row.wrong, str),
            ": ".join([row.verdict, *row.reasons[:1]]),
        )

    return table_of(_HEADS, rows, cells)


_OF_STUDY = columns(
    *("cell", "#size", "#seed", "#time", "#ratio", "verdict"),
)


def results_table(results: Sequence[CellResult]) -> Table:
    """One line a cell of a study."""

    def cells(each: CellResult) -> tuple[str, ...]:
        planned = "planned" if each.refused is None else f"refused: {each.refused}"
        verdict = planned if each.row is None else ": ".join([each.row.verdict, *each.row.reasons[:1]])
        ratio = each.time_s / each.bound_s if each.time_s and each.bound_s else None
        return (
            each.name,
            show_nbytes(each.cell.bytes) if each.cell.bytes else "",
            str(each.seed),
            or_nothing(each.time_s, show_s),
            or_nothing(ratio, "{:.3f}".format),
            verdict,
        )

    return table_of(_OF_STUDY, results, cells)
