"""A sweep as nccl-tests prints it: its columns, in its order, and nothing wider than a terminal."""

from dataclasses import replace

import pytest

from gradwire.emu.options import RunOptions
from gradwire.results.matrixfile import About
from gradwire.results.row import REFUSED, JobTime, Row, Spread
from gradwire.tools.console import PIPE_COLUMNS
from gradwire.tools.report.ncclstyle import nccl_json, nccl_lines
from gradwire.traces.schedules.dtypes import DType
from gradwire.traces.schedules.kinds import CollectiveKind
from tests.tools.report.test_rowtables import measured, printed

COLUMNS = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]  # of nccl-tests


def of_p_ranks(nbytes: int, time_s: float, n_ranks: int) -> Row:
    """An allreduce's row by NCCL's own definitions: algbw = S / t, busbw = algbw 2(p-1)/p."""
    algbw = nbytes / time_s
    return replace(
        measured("ring", nbytes),
        ranks=n_ranks,
        time_s=Spread(time_s, time_s, time_s),
        algbw_Bps=algbw,
        busbw_Bps=algbw * 2 * (n_ranks - 1) / n_ranks,
    )


def test_the_columns_are_those_of_nccl_tests_and_then_ours() -> None:
    head = list(nccl_lines([measured()]))[1].split()
    assert head == ["#", *COLUMNS, "ratio", "pred.", "verdict"]


def test_a_line_holds_what_its_columns_say() -> None:
    """8 MiB in 1.6 s among 8 ranks: 5.24 MB/s, times 7/4 is 9.18 MB/s."""
    line = list(nccl_lines([of_p_ranks(8 << 20, 1.6, 8)]))[3].split()
    expected = ["8388608", "2097152", "float", "sum", "-1", "1600000.0", "0.0052", "0.0092", "0"]
    assert line[: len(COLUMNS)] == expected


def test_the_type_and_the_count_are_those_of_what_was_sent() -> None:
    types: dict[DType, str] = {"float16": "half", "bfloat16": "bfloat16"}
    for dtype, name in types.items():
        row = replace(of_p_ranks(8 << 20, 1.6, 8), dtype=dtype)
        assert list(nccl_lines([row]))[3].split()[:3] == ["8388608", "4194304", name]


@pytest.mark.parametrize(
    ("collective", "count", "dtype", "redop", "root"),
    [  # as nccl-tests has them (all_gather.cu and so on: getCollByteCount), but for types of what is copied
        ("allreduce", 2 << 20, "float", "sum", -1),
        ("reducescatter", 2 << 17, "float", "sum", -1),
        ("allgather", 2 << 17, "none", "none", -1),
        ("alltoall", 2 << 17, "none", "none", -1),
        ("broadcast", 2 << 20, "none", "none", 0),
        ("reduce", 2 << 20, "float", "sum", 0),
        (None, 2 << 20, "none", "none", -1),
    ],
)
def test_what_is_counted_added_up_and_the_root_are_the_collectives(
    collective: CollectiveKind | None, count: int, dtype: str, redop: str, root: int
) -> None:
    row = replace(of_p_ranks(8 << 20, 1.6, 8), collective=collective)
    assert list(nccl_lines([row]))[3].split()[1:5] == [str(count), dtype, redop, str(root)]


def test_of_several_jobs_the_count_is_of_the_ranks_of_one() -> None:
    row = replace(
        of_p_ranks(16 << 20, 1.6, 8), collective="alltoall", jobs=(JobTime((0,), 1.0), JobTime((1,), 1.0))
    )
    assert list(nccl_lines([row]))[3].split()[1] == str((16 << 20) // 4 // 4)


def test_the_footer_has_the_mean_of_busbw_and_what_is_wrong() -> None:
    rows = [of_p_ranks(10**6, 1.0, 2), of_p_ranks(10**6, 0.5, 2)]
    lines = list(nccl_lines(rows))
    assert "# Out of bounds values : 0 OK" in lines
    assert lines[-1] == "# Avg bus bandwidth    : 0.0015"
    bad = list(nccl_lines([replace(rows[0], wrong=3), replace(rows[1], wrong=1)]))
    assert "# Out of bounds values : 4 FAILED" in bad


@pytest.mark.parametrize("time_s", [1e-6, 0.00123456, 0.5, 12.34, 9999.0])
def test_all_lines_are_as_long_as_the_head_says_at_any_time(time_s: float) -> None:
    head, line = list(nccl_lines([of_p_ranks(1 << 32, time_s, 16)]))[1::2][:2]
    end = head.index("time") + len("time")
    if time_s < 1000:  # more has no room
        assert line[end] == " "
        assert float(line[end - 9 : end]) == pytest.approx(time_s * 1e6, rel=0.01)
    text = printed(*(replace(measured(nbytes=size), verdict="not valid") for size in (4, 1 << 32)))
    assert max(map(len, text.splitlines())) <= PIPE_COLUMNS


def test_the_json_is_what_nccl_tests_writes_for_what_is_measured_in_place_alone() -> None:
    """Keys and their order by src/util.cu of nccl-tests 2.19.6, whose replay of traces has no other half."""
    rows = [of_p_ranks(8 << 20, 1.6, 8), Row("star:hosts=4", "ina", "linear", "ecmp", 4, 0, REFUSED)]
    about = About(("bench", "allreduce"), "2026-07-04T10:15:00Z")
    made = nccl_json(rows, about, RunOptions(5, warmups=1), {"step_factor": 2})
    assert list(made)[:3] == ["version", "start_time", "args"]
    assert made["config"] == {
        "minimum_bytes": 8 << 20,
        "maximum_bytes": 8 << 20,
        "step_factor": 2,
        "warmup_iters": 1,
        "iterations": 5,
        "validation": 1,
    }
    (result,) = made["results"]
    assert list(result) == [
        *("size", "count", "type", "redop", "root"),
        *("out_of_place", "in_place", "actual_iterations", "experiment_name"),
    ]
    assert (result["count"], result["type"], result["root"]) == (2 << 20, "float", "-1")
    assert result["out_of_place"] is None
    algbw = (8 << 20) / 1.6 / 1e9
    assert result["in_place"] == pytest.approx(
        {"time": 1.6e6, "alg_bw": algbw, "bus_bw": algbw * 7 / 4, "nwrong": 0}
    )
    assert made["out_of_bounds"] == {"count": 0, "okay": True}
    assert made["average_bus_bandwidth"]["bandwidth"] == pytest.approx(algbw * 7 / 4)


def test_a_refused_size_is_a_comment() -> None:
    refused = Row("star:hosts=4", "ina", "linear", "ecmp", 4, 0, REFUSED)
    assert list(nccl_lines([refused]))[3] == "# refused"
