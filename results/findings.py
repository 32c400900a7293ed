"""The first sentences of a report, worked out from its rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.results.answer import Contender, alike, best, contender
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.traces.units import show_count, show_nbytes, show_s


@dataclass(frozen=True, slots=True)
class _Measured:
    """A valid row with its figures, none of them missing; `position` is its index among all rows."""

    position: int
    row: Row
    time_s: Spread
    ratio: float
    ratio_predicted: float
    contender: Contender

    def __str__(self) -> str:
        return self.row.name


def findings(rows: Sequence[Row], busy: Mapping[tuple[int, str], float]) -> list[str]:
    """What was fastest and slowest, why, and how far it all can be believed.

    `busy` is the share of the time that a link, by (position of the row, name), was busy.
    """
    valid = [measured for position, row in enumerate(rows) if (measured := _measured(position, row))]
    sentences = [_counted(rows)]
    if valid:
        sentences += _same_job(valid, busy) if _one_size(valid) else _sweep(valid)
        sentences += _predicted([measured for measured in valid if not measured.row.flows_may_move])
    return [*sentences, *_failed(rows)]


def _measured(position: int, row: Row) -> _Measured | None:
    one = contender(row)
    if one and row.time_s and row.ratio is not None and row.ratio_predicted is not None:
        return _Measured(position, row, row.time_s, row.ratio, row.ratio_predicted, one)
    return None


def _one_size(valid: Sequence[_Measured]) -> bool:
    return len({(measured.row.bytes, measured.row.ranks) for measured in valid}) == 1


def _counted(rows: Sequence[Row]) -> str:
    refused = sum(row.verdict == REFUSED for row in rows)
    measured = len(rows) - refused
    invalid = sum(not row.valid for row in rows) - refused
    wrong = sum(row.wrong or 0 for row in rows)
    fabrics = {row.fabric for row in rows if row.verdict != REFUSED}
    text = f"{_cells(measured)} measured on {show_count(len(fabrics), 'fabric')}"
    if measured:
        text += f"; {wrong} wrong elements" if wrong else "; every result right"
        text += ", every one valid" if not invalid else ""
    if invalid == measured > 0:
        text += "; none valid, for the reasons in the table, so nothing is compared here"
    elif invalid:
        text += f"; {_cells(invalid)} not valid, for the reasons in the table, and left out of what follows"
    if refused:
        text += f"; {_cells(refused)} refused, for the reasons in the table"
    return text + "."


def _same_job(valid: Sequence[_Measured], busy: Mapping[tuple[int, str], float]) -> list[str]:
    """All cells carry the same job, so times compare."""
    contenders = [measured.contender for measured in valid]
    first = best(contenders)
    fastest = next(measured for measured in valid if measured.contender is first)
    slowest = max(valid, key=lambda measured: measured.time_s.median)
    margin, like = first.margin, len(alike(first, contenders))
    text = f"Fastest: {fastest}: {show_s(fastest.time_s.median)}, {fastest.ratio:.2f} × its bound"
    if like == len(valid) - 1:
        return [f"{text}; no cell is more than {margin:.1%} slower." if like else f"{text}."]
    text += f"; {_cells(like)} within {margin:.1%} of it." if like else "."
    slower = slowest.time_s.median / fastest.time_s.median
    second = f"Slowest: {slowest}: {show_s(slowest.time_s.median)}, {slower:.2f} × the fastest"
    sentences = [text, f"{second} and {slowest.ratio:.2f} × its bound{_held_up(slowest, busy)}."]
    return [*sentences, f"Why: {slowest.row.why}."] if slowest.row.why else sentences


def _held_up(measured: _Measured, busy: Mapping[tuple[int, str], float]) -> str:
    link, flows = measured.row.worst_link, measured.row.worst_link_flows
    if link is None or flows is None:
        return ""
    if measured.row.flows_may_move:
        return f"; as planned, its worst link, {link}, would carry up to {show_count(flows, 'flow')} at once"
    text = f"; its worst link, {link}, carried up to {show_count(flows, 'flow')} at once"
    share = busy.get((measured.position, link))
    return text if share is None else f"{text} and was busy {share:.0%} of the time"


def _sweep(valid: Sequence[_Measured]) -> list[str]:
    """Sizes differ, so only the distance from the bound compares."""
    closest = min(valid, key=lambda measured: measured.ratio)
    farthest = max(valid, key=lambda measured: measured.ratio)
    return [
        f"{what} its bound: {measured} with {show_nbytes(measured.row.bytes)}: {measured.ratio:.2f} × "
        f"({show_s(measured.time_s.median)})."
        for what, measured in (("Closest to", closest), ("Farthest from", farthest))
    ]


def _predicted(valid: Sequence[_Measured]) -> list[str]:
    """Of cells whose flows kept their paths: the model knows no others."""
    if not valid:
        return []
    ratios = [measured.ratio_predicted for measured in valid]
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    band = low if low == high else f"{low} to {high}"
    return [f"Measured times are {band} × what the model predicts for the same paths."]


def _failed(rows: Sequence[Row]) -> list[str]:
    """One sentence for each set of cables that failed in some cells."""
    cells: Counter[tuple[tuple[str, ...], bool]] = Counter()
    for row in rows:
        if row.failures:
            cells[row.failure_lines(), all(map(row.is_late, row.failures))] += 1
    return [
        f"In {_cells(count)} by plan: {'; '.join(failures)}"
        f"{'' if is_late else '; the prediction does not know of it'}."
        for (failures, is_late), count in cells.items()
    ]


def _cells(count: int) -> str:
    return show_count(count, "cell")
