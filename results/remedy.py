"""What would help most where no row of a matrix is valid."""

from collections import Counter
from collections.abc import Sequence

from gradwire.results.row import REFUSED, Row
from gradwire.results.verdict import MAX_MACHINE_SHARE, TOO_FAST
from gradwire.traces.units import show_count

AUDIT = "to find out with `gradwire audit` where the results become wrong"
LARGER_SIZES = "larger sizes"
LESS_LOAD = "a lower rate, fewer hosts, or nothing else on this machine"
OTHER_CAPTURE = "a capture that leaves no doubts"
REPEATS = "the same again with nothing else on this machine"


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
