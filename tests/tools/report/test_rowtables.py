"""Result tables: they fit, they name every cell, and say why one has no figures."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from gradwire.planning.model.errorbar import Bar
from gradwire.results.row import REFUSED, FailedCable, Row, Spread
from gradwire.tools.console import PIPE_COLUMNS
from gradwire.tools.report.rowtables import print_rows
from gradwire.traces.iterationtimes import IterationTime


def measured(algorithm: str = "halving-doubling", nbytes: int = 16_777_216, verdict: str = "valid") -> Row:
    return Row(
        fabric="fat-tree:k=16,rate=50M",
        hosts=1024,
        host_rates_bps=(50_000_000,),
        algorithm=algorithm,
        placement="random",
        routes="direct",
        ranks=512,
        bytes=nbytes,
        verdict=verdict,
        collective="allreduce",
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
        host_rates_bps=(50_000_000,),
        algorithm="halving-doubling",
        placement="hdrm",
        routes="direct",
        ranks=512,
        bytes=0,
        verdict=REFUSED,
        reasons=("placement hdrm works only on a BiGraph, not on a fat-tree",),
    )


def printed(*rows: Row) -> str:
    out = StringIO()
    print_rows(Console(file=out, width=PIPE_COLUMNS, highlight=False), rows)
    return out.getvalue()


@pytest.mark.parametrize("verdict", ["valid", "not valid"])
def test_no_line_is_wider_than_a_hundred_columns_and_nothing_is_cut_off(verdict: str) -> None:
    text = printed(measured(verdict=verdict), refused(), measured("as-captured", verdict=verdict))
    assert max(map(len, text.splitlines())) <= PIPE_COLUMNS
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


@pytest.mark.parametrize("link", ["leaf0→spine1", "agg127→edge127", "switch_1234→switch_5678", "l→s"])
def test_a_worst_link_breaks_before_its_arrow_or_not_at_all(link: str) -> None:
    """In tables of everyday width and of the widest figures that there are."""
    for routes in ("ecmp", "adaptive"):
        row = replace(measured("as-captured"), worst_link=link, worst_link_flows=2, routes=routes)
        text = printed(row)
        near, far = link.split("→")
        lines = text.splitlines()
        words = text.split()
        assert link in words or (near in words and f"→{far}" in words)
        assert max(map(len, lines)) <= PIPE_COLUMNS
        assert "…" not in text


def test_where_there_is_room_a_worst_link_is_one_line() -> None:
    row = replace(measured("ring"), placement="linear", routes="ecmp", worst_link="leaf0→spine1")
    assert "leaf0→spine1 ×16" in printed(row)


HOSTS, INNER = (100_000_000,), (20_000_000, 1_000_000_000)


@pytest.mark.parametrize(
    ("hosts", "inner", "expected"),
    [
        (HOSTS, (), "100 Mb/s"),
        (HOSTS, HOSTS, "100 Mb/s"),
        (HOSTS, INNER, "100 Mb/s, switch links 20 Mb/s to 1 Gb/s"),
        (HOSTS, (10_000_000, 20_000_000), "100 Mb/s, switch links 10 to 20 Mb/s"),
        ((10_000_000, *HOSTS), (10_000_000, *HOSTS), "10 to 100 Mb/s"),
        ((10_000_000, 50_000_000, *HOSTS), HOSTS, "10 to 100 Mb/s, switch links 100 Mb/s"),
    ],
)
def test_a_heading_tells_the_hosts_rates_and_others_only_if_they_differ(
    hosts: tuple[int, ...], inner: tuple[int, ...], expected: str
) -> None:
    text = printed(replace(measured(), host_rates_bps=hosts, inner_rates_bps=inner))
    assert f"1024 hosts at {expected} · 512 ranks" in " ".join(text.split())


def test_a_refused_cell_is_a_row_with_its_reason_below() -> None:
    text = printed(measured(), refused())
    assert "hdrm, direct" in text
    assert "refused: fat-tree, halving-doubling, hdrm, direct: placement hdrm works only" in text


def test_a_run_that_is_not_valid_says_why() -> None:
    assert "not valid: fat-tree, ring, random, direct: CPU idle only 3%" in printed(
        measured("ring", verdict="not valid")
    )


def test_each_reason_names_the_part_of_the_verdict_that_it_is_about() -> None:
    row = replace(
        measured("ring", verdict="not valid"),
        reasons=("rank 2 was stopped for about 100 ms", "3 % of the bytes are unread"),
        machine=("rank 2 was stopped for about 100 ms",),
        capture=("3 % of the bytes are unread",),
    )
    text = " ".join(printed(row).split())
    assert "not valid (the machine): fat-tree, ring, random, direct: rank 2 was stopped" in text
    assert "not valid (the capture): fat-tree, ring, random, direct: 3 % of the bytes" in text


def test_a_sweep_has_a_table_per_cell_and_a_line_per_size() -> None:
    text = printed(
        *(measured(nbytes=size) for size in (65_536, 131_072)),
        *(measured("ring", size) for size in (65_536, 131_072)),
    )
    assert text.count(" 65536 ") == 2
    assert text.count("· halving-doubling · random · direct ·") == 1


def test_why_a_cell_is_slow_stands_below_the_table() -> None:
    why = "a→b carries 2 flows where a host link carries 1"
    shown = " ".join(printed(replace(measured(), why=why), measured("ring")).split())
    assert shown.count(f"why: fat-tree, halving-doubling, random, direct: {why}") == 1
    assert shown.count("why: ") == 1


def test_how_long_flows_went_on_moving_is_said_below_the_table() -> None:
    moving = replace(measured(), routes="adaptive", settled_s=Spread(0.5, 0.25, 0.75))
    shown = " ".join(printed(moving, replace(moving, placement="linear", settled_s=Spread(0, 0, 0))).split())
    assert "random, adaptive: flows moved until 500 ms after the start (at most 750 ms)" in shown
    assert "linear, adaptive: the controller moved no flow" in shown


@pytest.mark.parametrize(
    ("row", "unknown"),
    [
        (replace(measured(), routes="adaptive"), "what the controller moved"),
        (replace(measured(), failures=(FailedCable("leaf0-spine1", 0.5, None),)), "the failures"),
    ],
)
def test_a_prediction_of_paths_that_flows_may_have_left_is_not_shown_beside_their_time(
    row: Row, unknown: str
) -> None:
    assert "1.028" in printed(measured())
    text = printed(row)
    assert "1.028" not in text
    assert "prediction and worst link are of the paths as planned;" in " ".join(text.split())
    assert f"they do not know of {unknown}" in " ".join(text.split())
    assert "as planned" not in printed(measured())


@pytest.mark.parametrize("sizes", [(64 << 20,), (1 << 20, 64 << 20)])
def test_a_time_outside_its_predictions_error_bar_is_marked(sizes: tuple[int, ...]) -> None:
    rows = [replace(measured(nbytes=nbytes), predicted_low_s=11.0, predicted_high_s=13.0) for nbytes in sizes]
    assert "1.028!" not in printed(*rows)
    assert "1.028!" in printed(*(replace(row, predicted_high_s=12.3) for row in rows))
    assert "1.028!" in printed(*(replace(row, predicted_low_s=12.4) for row in rows))


def test_an_iteration_outside_its_error_bar_is_marked_and_shown_with_it() -> None:
    row = replace(
        measured(),
        iteration_s=IterationTime(median=2.0, low=1.9, high=2.2, n=8),
        exposed_s=0.5,
        predicted_iteration=Bar(2.1, 1.9, 2.3),
        predicted_exposed=Bar(0.45, 0.4, 0.55),
    )
    text = " ".join(printed(row).split())
    assert "1.028!" not in text
    assert "; predicted: 2.1 s (1.9 s to 2.3 s) and 450 ms (400 ms to 550 ms)" in text
    assert "1.028!" in printed(replace(row, predicted_iteration=Bar(2.3, 2.1, 2.5)))
    assert "1.028!" in printed(replace(row, exposed_s=0.6))
    assert "1.028!" not in printed(replace(row, predicted_iteration=Bar(9.0), predicted_exposed=Bar(9.0)))


def test_fidelity_is_a_column_only_where_a_row_has_one() -> None:
    plain = measured("as-captured")
    assert "fide" not in printed(plain)
    text = printed(replace(plain, fidelity=0.934), measured(), refused())
    assert max(map(len, text.splitlines())) <= PIPE_COLUMNS
    assert "…" not in text
    assert "fide-" in text
    (captured,) = (line for line in text.splitlines() if line.startswith("as-captured"))
    assert "0.93" in captured.split()
    (other,) = (
        line
        for line in text.splitlines()
        if line.startswith("halving-doubling  random"[:16]) and "12.3" in line
    )
    assert "0.93" not in other
