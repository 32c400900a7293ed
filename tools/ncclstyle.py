"""A sweep of sizes as nccl-tests prints it (NVIDIA/nccl-tests, src/common.cu and src/util.cu).

The columns, their widths and the footer are those of its out-of-place half; there is no in-place one here.
GB/s have four digits after the point instead of two: emulated links are a thousand times slower.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from emu.result import REFUSED, Row
from traces.schedules.collectives import ELEMENT_NBYTES

_NO_ROOT = -1
_HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
)


def nccl_lines(rows: Sequence[Row], reduces: bool) -> Iterator[str]:
    """The lines of one configuration's sizes, in their order; `reduces`: the collective adds up.

    A refused size is a line with its reason.
    """
    yield from _HEAD
    for row in rows:
        yield _line(row, reduces)
    done = [row for row in rows if row.time_s]
    wrong = sum(row.wrong or 0 for row in done)
    yield f"# Out of bounds values : {wrong} {'OK' if not wrong else 'FAILED'}"
    if done:
        yield f"# Avg bus bandwidth    : {fmean((row.busbw_Bps or 0.0) / 1e9 for row in done):.6g}"


def _line(row: Row, reduces: bool) -> str:
    if row.time_s is None:
        return f"# {REFUSED}: {'; '.join(row.reasons)}"
    count = row.bytes // ELEMENT_NBYTES
    redop = "sum" if reduces else "none"
    algbw, busbw = ((each or 0.0) / 1e9 for each in (row.algbw_Bps, row.busbw_Bps))
    figures = f"{row.time_s.median * 1e6:8.1f} {algbw:7.4f} {busbw:7.4f}"
    doubt = "" if row.valid else f"  # {row.verdict}"
    return (
        f"{row.bytes:12d} {count:13d} {'float':>9} {redop:>7} {_NO_ROOT:7d} {figures} {row.wrong:6d}{doubt}"
    )
