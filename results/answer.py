"""The answer of a matrix in one sentence: which cell is best, by how much, and what holds it up now."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.results.findings import name
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import Row
from gradwire.traces.units import show_nbytes, show_s

LEAST_MARGIN = 0.01  # a smaller difference between two cells is none, nor one within the repeats' spread


@dataclass(frozen=True, slots=True)
class Contender:
    """A cell with a time; `spread` is how far its repeats differ, as a share of it."""

    name: str
    nbytes: int
    time_s: float
    limit: str | None
    spread: float = 0.0


def answer_of_rows(rows: Sequence[Row]) -> str:
    """Of the valid rows; empty if there are none."""
    return answer(
        [
            Contender(
                name(row),
                row.bytes,
                row.time_s.median,
                row.limit,
                (row.time_s.max - row.time_s.min) / row.time_s.median,
            )
            for row in rows
            if row.valid and row.time_s
        ]
    )


def answer_of_plans(cells: Sequence[PlannedCell]) -> str:
    """Of the cells that were not refused; empty if there are none."""
    return answer(
        [
            Contender(cell.name, cell.bytes, cell.fluid_s, cell.limit)
            for cell in cells
            if cell.fluid_s is not None
        ]
    )


def answer(contenders: Sequence[Contender]) -> str:
    """Of several sizes that of the largest, for the cells of one size compare."""
    if not contenders:
        return ""
    largest = max(each.nbytes for each in contenders)
    some = [each for each in contenders if each.nbytes == largest]
    best = min(some, key=lambda each: float(f"{each.time_s:.6g}"))  # of those that round alike the first
    size = f" with {show_nbytes(largest)}" if len(some) < len(contenders) else ""
    limit = f"; {best.limit} {_hold(best.limit)} it up now" if best.limit else ""
    if len(some) == 1:
        return f"{best.name}{size} takes {show_s(best.time_s)}{limit}."
    return f"Best{size}: {best.name}: {show_s(best.time_s)}, {_lead(best, some)}{limit}."


def _hold(limit: str) -> str:
    return "hold" if limit.endswith("links") else "holds"


def _lead(best: Contender, some: Sequence[Contender]) -> str:
    """By how much it beats the next, and the first of all if that is another one."""
    others = [each for each in some if each is not best]
    following = min(others, key=lambda each: each.time_s)
    margin = max(LEAST_MARGIN, best.spread)
    alike = [each for each in others if each.time_s <= best.time_s * (1 + margin)]
    if len(alike) == 1:
        lead = f"no more than {margin:.1%} faster than the next, {following.name}"
    elif alike:
        lead = f"no more than {margin:.1%} faster than {len(alike)} other cells"
    else:
        lead = f"{following.time_s / best.time_s:.2f} × as fast as the next, {following.name}"
    first = some[0]
    if first in (best, following, *alike):
        return lead
    return f"{lead}, and {first.time_s / best.time_s:.2f} × as fast as the first, {first.name}"
