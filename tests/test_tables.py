"""Result tables: they fit, they name every cell, and say why one has no figures."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from emu.result import REFUSED, Row, Spread
from tools.console import MAX_COLUMNS
from tools.tables import print_rows


def measured(algorithm: str = "halving-doubling", nbytes: int = 16_777_216, verdict: str = "valid") -> Row:
    return Row(
        fabric="fat-tree:k=16,rate=50M",
        hosts=1024,
        rates_bps=(50_000_000,),
        algorithm=algorithm,
        placement="random",
        routes="direct",
        ranks=512,
        bytes=nbytes,
        verdict=verdict,
        time_s=Spread(12.34, 12.1, 12.9),
        algbw_Bps=1_360_000.0,
        busbw_Bps=2_380_000.0,
        wrong=0,
        bound_s=4.91,
        ratio=2.513,
        predicted_s=12.0,
        ratio_predicted=1.028,
        worst_link="agg127→edge127",
        worst_link_flows=16,
        reasons=("CPU idle only 3%: use a lower rate or fewer hosts",) if verdict != "valid" else (),
    )


def refused() -> Row:
    return Row(
        fabric="fat-tree:k=16,rate=50M",
        hosts=1024,
        rates_bps=(50_000_000,),
        algorithm="halving-doubling",
        placement="hdrm",
        routes="direct",
        ranks=512,
        bytes=0,
        verdict=REFUSED,
        reasons=("placement hdrm is a map of a BiGraph, not of a fat-tree",),
    )


def printed(*rows: Row) -> str:
    out = StringIO()
    print_rows(Console(file=out, width=MAX_COLUMNS, highlight=False), rows)
    return out.getvalue()


@pytest.mark.parametrize("verdict", ["valid", "not valid"])
def test_no_line_is_wider_than_a_hundred_columns_and_nothing_is_cut_off(verdict: str) -> None:
    text = printed(measured(verdict=verdict), refused(), measured("as-captured", verdict=verdict))
    assert max(map(len, text.splitlines())) <= MAX_COLUMNS
    assert "…" not in text
    for part in (
        "halving-doubling",
        "as-captured",
        "random, direct",
        "12.3 s",
        "2.513",
        "1.028",
        "agg127",
        "×16",
    ):
        assert part in text


def test_a_refused_cell_is_a_row_with_its_reason_below() -> None:
    text = printed(measured(), refused())
    assert "hdrm, direct" in text
    assert "refused: fat-tree, halving-doubling, hdrm, direct: placement hdrm is a map" in text


def test_a_run_that_is_not_valid_says_why() -> None:
    assert "not valid: fat-tree, ring, random, direct: CPU idle only 3%" in printed(
        measured("ring", verdict="not valid")
    )


def test_a_sweep_has_a_table_per_cell_and_a_line_per_size() -> None:
    text = printed(
        *(measured(nbytes=size) for size in (65_536, 131_072)),
        *(measured("ring", size) for size in (65_536, 131_072)),
    )
    assert text.count("65,536") == 2
    assert text.count("· halving-doubling · random · direct ·") == 1


def test_why_a_cell_is_slow_stands_below_the_table() -> None:
    why = "a→b carries 2 flows where a host link carries 1"
    shown = " ".join(printed(replace(measured(), why=why), measured("ring")).split())
    assert shown.count(f"why: fat-tree, halving-doubling, random, direct: {why}") == 1
    assert shown.count("why: ") == 1
