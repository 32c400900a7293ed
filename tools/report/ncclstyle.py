"""A sweep of sizes as nccl-tests prints it, with our own figures in further columns.

The first nine columns and the footer are those of NVIDIA/nccl-tests (src/common.cu, src/util.cu; for each
collective its own file), of its in-place half: each rank has one buffer, and adds what it receives to that.
Out of place the same bytes would cross the network.  Emulated links are a
thousand times slower than those that it is made for: GB/s have four digits after the point where it has two,
and times have nine characters, not seven.  Where it would name a type of what is only copied, which is bytes
here, there is `none`.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from gradwire.emu.options import RunOptions
from gradwire.results.matrixfile import About
from gradwire.results.row import Row
from gradwire.traces.schedules.dtypes import element_nbytes, nccl_name
from gradwire.traces.schedules.kinds import CONTRACTS

JSON_VERSION = 3
UNACCOUNTED = "!"  # after a time over its prediction that is outside the prediction's error bar
_HEAD = (
    "#                                                     in-place",
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


def nccl_json(
    rows: Sequence[Row], about: About, options: RunOptions, steps: Mapping[str, int]
) -> dict[str, Any]:
    """What nccl-tests writes with -J (its version 3; src/util.cu), of the rows that have a time.

    `steps` has its `step_factor` or `step_bytes`.  There is no GPU, so no version of NCCL, `env` and devices.
    """
    wrong = sum(row.wrong or 0 for row in rows)
    busbw = [(row.busbw_Bps or 0.0) / 1e9 for row in rows if row.time_s]
    sizes = [row.bytes for row in rows if row.time_s]
    config = {
        "minimum_bytes": min(sizes, default=0),
        "maximum_bytes": max(sizes, default=0),
        **steps,
        "warmup_iters": options.warmups,
        "iterations": options.repeats,
        "validation": 1,
    }
    return {
        "version": JSON_VERSION,
        "start_time": about.began,
        "args": list(about.command),
        "config": config,
        "results": [_result(row) for row in rows if row.time_s],
        "out_of_bounds": {"count": wrong, "okay": not wrong},
        "average_bus_bandwidth": {"bandwidth": fmean(busbw) if busbw else 0.0, "okay": "unchecked"},
    }


def _result(row: Row) -> dict[str, Any]:
    assert row.time_s is not None
    count, dtype, redop, root = _what(row)
    return {
        "size": row.bytes,
        "count": count,
        "type": dtype,
        "redop": redop,
        "root": str(root),
        "out_of_place": None,
        "in_place": {
            "time": row.time_s.median * 1e6,
            "alg_bw": None if row.algbw_Bps is None else row.algbw_Bps / 1e9,
            "bus_bw": None if row.busbw_Bps is None else row.busbw_Bps / 1e9,
            "nwrong": row.wrong,
        },
        "actual_iterations": row.repeats,
        "experiment_name": f"{row.fabric} {row.algorithm} {row.placement} {row.routes}: {row.verdict}",
    }


def _line(row: Row) -> str:
    if row.time_s is None:
        return f"# {row.verdict}"
    count, dtype, redop, root = _what(row)
    what = f"{row.bytes:10d} {count:10d} {dtype:>8} {redop:>5} {root:4d}"
    time = _fitted(row.time_s.median * 1e6, 9)
    algbw, busbw = (_or_not_known(each, 1e-9) for each in (row.algbw_Bps, row.busbw_Bps))
    ratio = f"{row.ratio:6.3f}" if row.ratio else f"{'N/A':>6}"
    predicted = row.ratio_predicted if not row.flows_may_move else None
    pred = f"{predicted:6.3f}" if predicted else f"{'N/A':>6}"
    mark = UNACCOUNTED if row.is_unaccounted else " "
    return f"{what} {time} {algbw} {busbw} {row.wrong:6d} {ratio} {pred}{mark}{row.verdict}"


def _what(row: Row) -> tuple[int, str, str, int]:
    """Elements, their type, how they are reduced, and the root."""
    contract = CONTRACTS[row.collective or "compute"]  # of several kinds neither
    n_jobs = len(row.jobs) or 1
    n_parts = row.ranks // n_jobs if contract.in_parts else 1  # counts are of one part
    count = row.bytes // n_parts // element_nbytes(row.dtype)
    dtype, redop = (nccl_name(row.dtype), "sum") if contract.adds else ("none", "none")
    return count, dtype, redop, 0 if contract.is_rooted else -1


def _or_not_known(value: float | None, factor: float) -> str:
    return f"{'N/A':>7}" if value is None else f"{value * factor:7.4f}"


def _fitted(value: float, width: int) -> str:
    """With two digits after the point, or as many as there is room for (nccl-tests: getFloatStr)."""
    n_digits = len(str(int(value)))
    return f"{value:{width}.{max(0, min(2, width - n_digits - 1))}f}"
