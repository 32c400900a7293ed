"""The answer of a matrix in one sentence: which cell is best, by how much, and what holds it up now.

What would help most where no row of a matrix is valid.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.results.limits import Limit, show_limit
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import REFUSED, Row
from gradwire.results.verdict import MAX_MACHINE_SHARE, TOO_FAST
from gradwire.traces.units import show_count, show_nbytes, show_s

LEAST_MARGIN = 0.01  # a smaller difference between two cells is none, nor one within the repeats' spread
AUDIT = "to find out with `gradwire audit` where the results become wrong"
LARGER_SIZES = "larger sizes"
LESS_LOAD = "a lower rate, fewer hosts, or nothing else on this machine"
OTHER_CAPTURE = "a capture that leaves no doubts"
REPEATS = "the same again with nothing else on this machine"


@dataclass(frozen=True, slots=True)
class Contender:
    """A cell with a time; `spread` is how far its repeats differ, as a share of it."""

    name: str
    nbytes: int
    time_s: float
    limit: Limit | None
    spread: float = 0.0

    @property
    def margin(self) -> float:
        """A cell that is no more than this share slower is as good."""
        return max(LEAST_MARGIN, self.spread)


def best(some: Sequence[Contender]) -> Contender:
    """Of those whose times round alike the first."""
    return min(some, key=lambda each: float(f"{each.time_s:.6g}"))


def alike(one: Contender, some: Sequence[Contender]) -> list[Contender]:
    """The others that are no slower than `one` by more than its margin."""
    return [each for each in some if each is not one and each.time_s <= one.time_s * (1 + one.margin)]


def contender(row: Row) -> Contender | None:
    """None of a row that is not valid."""
    if not row.valid or not row.time_s:
        return None
    spread = (row.time_s.max - row.time_s.min) / row.time_s.median
    return Contender(row.name, row.bytes, row.time_s.median, row.limit, spread)


def answer_of_rows(rows: Sequence[Row]) -> str:
    """Of the valid rows; what would help most if none is, and empty if none was run."""
    return answer([each for each in map(contender, rows) if each]) or without_valid_rows(rows)


def answer_of_plans(cells: Sequence[PlannedCell]) -> str:
    """Of the cells that were not refused; empty if there are none."""
    return answer(
        [
            Contender(cell.name, cell.bytes, cell.fluid_s, cell.figures["limit"])
            for cell in cells
            if cell.fluid_s is not None and cell.figures is not None
        ]
    )


def answer(contenders: Sequence[Contender]) -> str:
    """Of several sizes that of the largest, for the cells of one size compare."""
    if not contenders:
        return ""
    largest = max(each.nbytes for each in contenders)
    some = [each for each in contenders if each.nbytes == largest]
    one = best(some)
    size = f" with {show_nbytes(largest)}" if len(some) < len(contenders) else ""
    limit = f"; {show_limit(one.limit)} now" if one.limit else ""
    if len(some) == 1:
        return f"{one.name}{size} takes {show_s(one.time_s)}{limit}."
    return f"Best{size}: {one.name}: {show_s(one.time_s)}, {_lead(one, some)}{limit}."


def _lead(one: Contender, some: Sequence[Contender]) -> str:
    """By how much it beats the next, and the first of all if that is another one."""
    following = min((each for each in some if each is not one), key=lambda each: each.time_s)
    as_good = alike(one, some)
    if len(as_good) == 1:
        lead = f"no more than {one.margin:.1%} faster than the next, {following.name}"
    elif as_good:
        lead = f"no more than {one.margin:.1%} faster than {len(as_good)} other cells"
    else:
        lead = f"{following.time_s / one.time_s:.2f} × as fast as the next, {following.name}"
    first = some[0]
    if first in (one, following, *as_good):
        return lead
    return f"{lead}, and {first.time_s / one.time_s:.2f} × as fast as the first, {first.name}"


def remedy_of(row: Row) -> str:
    """For one row that is not valid: against the first of its reasons that could have caused the others."""
    if row.wrong:
        return AUDIT
    is_short = row.ratio is not None and row.ratio < TOO_FAST
    if is_short or (row.machine_share or 0.0) > MAX_MACHINE_SHARE:
        return LARGER_SIZES
    if row.machine:
        return LESS_LOAD
    return OTHER_CAPTURE if row.capture else REPEATS


def without_valid_rows(rows: Sequence[Row]) -> str:
    """A sentence; empty if a row is valid, or none was run."""
    measured = [row for row in rows if row.verdict != REFUSED]
    if not measured or any(row.valid for row in measured):
        return ""
    (remedy, count), *others = Counter(map(remedy_of, measured)).most_common()
    which = "The row is not valid" if len(measured) == 1 else f"None of the {len(measured)} rows is valid"
    share = f" (for {show_count(count, 'row')})" if others else ""
    return f"{which}; what would help most is {remedy}{share}."
