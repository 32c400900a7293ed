"""A sweep of sizes as nccl-tests prints it, with our own figures in further columns.

The first nine columns and the footer are those of the out-of-place half of NVIDIA/nccl-tests (src/common.cu,
src/util.cu; for each collective its own file); nothing is reduced in place here.  Emulated links are a
thousand times slower than those that it is made for: GB/s have four digits after the point where it has two,
and times have nine characters, not seven.  Where it would name a type of what is only copied, which is bytes
here, there is `none`.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from gradwire.results.row import Row
from gradwire.traces.schedules.dtypes import element_nbytes, nccl_name
from gradwire.traces.schedules.kinds import CONTRACTS

UNACCOUNTED = "!"  # after a time over its prediction that is outside the prediction's error bar
_HEAD = (
    "#                                                   out-of-place",
    "#     size      count     type redop root      time   algbw   busbw #wrong  ratio  pred. verdict",
    "#      (B) (elements)                          (us)  (GB/s)  (GB/s)",
)


def nccl_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of one configuration's sizes, in their order, 100 columns at most.

    A size without a time is a comment with its verdict.
    """
    yield from _HEAD
    for row in rows:
        yield _line(row)
    done = [row for row in rows if row.time_s]
    wrong = sum(row.wrong or 0 for row in done)
    yield f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"
    if done:
        links = dict.fromkeys(f"{row.worst_link} ×{row.worst_link_flows}" for row in done if row.worst_link)
        yield f"# Worst link           : {', '.join(links)}"
        yield f"# Avg bus bandwidth    : {fmean((row.busbw_Bps or 0.0) / 1e9 for row in done):.6g}"


def _line(row: Row) -> str:
    if row.time_s is None:
        return f"# {row.verdict}"
    what = f"{row.bytes:10d} {_what(row)}"
    time = _fitted(row.time_s.median * 1e6, 9)
    algbw, busbw = (_or_not_known(each, 1e-9) for each in (row.algbw_Bps, row.busbw_Bps))
    ratio = f"{row.ratio:6.3f}" if row.ratio else f"{'N/A':>6}"
    predicted = row.ratio_predicted if not row.flows_may_move else None
    pred = f"{predicted:6.3f}" if predicted else f"{'N/A':>6}"
    mark = UNACCOUNTED if row.is_unaccounted else " "
    return f"{what} {time} {algbw} {busbw} {row.wrong:6d} {ratio} {pred}{mark}{row.verdict}"


def _what(row: Row) -> str:
    """Elements, their type, how they are reduced, and the root."""
    contract = CONTRACTS[row.collective or "compute"]  # of several kinds neither
    n_jobs = len(row.jobs) or 1
    n_parts = row.ranks // n_jobs if contract.in_parts else 1  # counts are of one part
    count = row.bytes // n_parts // element_nbytes(row.dtype)
    dtype, redop = (nccl_name(row.dtype), "sum") if contract.adds else ("none", "none")
    return f"{count:10d} {dtype:>8} {redop:>5} {0 if contract.is_rooted else -1:4d}"


def _or_not_known(value: float | None, factor: float) -> str:
    return f"{'N/A':>7}" if value is None else f"{value * factor:7.4f}"


def _fitted(value: float, width: int) -> str:
    """With two digits after the point, or as many as there is room for (nccl-tests: getFloatStr)."""
    n_digits = len(str(int(value)))
    return f"{value:{width}.{max(0, min(2, width - n_digits - 1))}f}"
