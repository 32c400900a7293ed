"""A sweep as nccl-tests prints it: its columns, in its order, and nothing wider than a terminal."""

from dataclasses import replace

import pytest

from gradwire.results.row import REFUSED, Row, Spread
from gradwire.tools.console import MAX_COLUMNS
from gradwire.tools.tables import nccl_lines
from gradwire.traces.schedules.dtypes import DType
from tests.tools.test_tables import measured, printed

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
    head = list(nccl_lines([measured()], reduces=True))[1].split()
    assert head == ["#", *COLUMNS, "ratio", "pred.", "verdict"]


def test_a_line_holds_what_its_columns_say() -> None:
    """8 MiB in 1.6 s among 8 ranks: 5.24 MB/s, times 7/4 is 9.18 MB/s."""
    line = list(nccl_lines([of_p_ranks(8 << 20, 1.6, 8)], reduces=True))[3].split()
    expected = ["8388608", "2097152", "float", "sum", "-1", "1600000.0", "0.0052", "0.0092", "0"]
    assert line[: len(COLUMNS)] == expected


def test_the_type_and_the_count_are_those_of_what_was_sent() -> None:
    types: dict[DType, str] = {"float16": "half", "bfloat16": "bfloat16"}
    for dtype, name in types.items():
        row = replace(of_p_ranks(8 << 20, 1.6, 8), dtype=dtype)
        assert list(nccl_lines([row], reduces=True))[3].split()[:3] == ["8388608", "4194304", name]


def test_the_footer_has_the_mean_of_busbw_and_what_is_wrong() -> None:
    rows = [of_p_ranks(10**6, 1.0, 2), of_p_ranks(10**6, 0.5, 2)]
    lines = list(nccl_lines(rows, reduces=True))
    assert "# Out of bounds values : 0 OK" in lines
    assert lines[-1] == "# Avg bus bandwidth    : 0.0015"
    bad = list(nccl_lines([replace(rows[0], wrong=3), replace(rows[1], wrong=1)], reduces=True))
    assert "# Out of bounds values : 4 FAILED" in bad


@pytest.mark.parametrize("time_s", [1e-6, 0.00123456, 0.5, 12.34, 9999.0])
def test_all_lines_are_as_long_as_the_head_says_at_any_time(time_s: float) -> None:
    head, line = list(nccl_lines([of_p_ranks(1 << 32, time_s, 16)], reduces=False))[1::2][:2]
    end = head.index("time") + len("time")
    if time_s < 1000:  # more has no room
        assert line[end] == " "
        assert float(line[end - 9 : end]) == pytest.approx(time_s * 1e6, rel=0.01)
    text = printed(*(replace(measured(nbytes=size), verdict="not valid") for size in (4, 1 << 32)))
    assert max(map(len, text.splitlines())) <= MAX_COLUMNS


def test_a_refused_size_is_a_comment() -> None:
    refused = Row("star:hosts=4", "ina", "linear", "ecmp", 4, 0, REFUSED)
    assert list(nccl_lines([refused], reduces=True))[3] == "# refused"
