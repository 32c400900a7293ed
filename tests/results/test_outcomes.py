"""What becomes of expectations: the arithmetic is worked out by hand, on cells that are made up."""

import re
from dataclasses import replace

import pytest

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.expectations import parse_expectation, selection_of
from gradwire.results.limits import HOSTS_LINKS, Limit
from gradwire.results.outcomes import Subject, check, judged
from gradwire.results.row import REFUSED, Row, Spread

STAR = "star:hosts=4,rate=50M"
ROW = Row(
    fabric=STAR,
    algorithm="ring",
    placement="linear",
    routes="ecmp",
    ranks=4,
    bytes=4000,
    verdict="valid",
    time_s=Spread(0.3, 0.2, 0.4),
    busbw_Bps=5e6,
    bound_s=0.25,
    ratio=1.2,
    wrong=0,
    limit=HOSTS_LINKS,
)


def subject(row: Row, *names: str, nbytes: int | None = None) -> Subject:
    return Subject(
        (row.fabric, *names),
        row.algorithm,
        row.placement,
        row.routes,
        nbytes,
        refused=row.verdict == REFUSED,
        result=row,
    )


RING = subject(ROW)
HALVING = subject(
    replace(
        ROW,
        algorithm="halving-doubling",
        time_s=Spread(0.1, 0.1, 0.1),
        ratio=1.05,
        limit=Limit("link", "leaf0→spine1", 2),
    )
)
SENSELESS = subject(replace(ROW, algorithm="ina", verdict=REFUSED, time_s=None, ratio=None))
CELLS = [RING, HALVING, SENSELESS]


@pytest.mark.parametrize(
    ("text", "found", "verdict"),
    [
        ("ratio <= 1.2", (1.2, 1.05), "holds"),
        ("ratio <= 1.1", (1.2, 1.05), "fails"),
        ("ratio < 1.2", (1.2, 1.05), "fails"),
        ("wrong == 0", (0, 0), "holds"),
        ("wrong != 0", (0, 0), "fails"),
        ("time <= 300ms", (0.3, 0.1), "holds"),
        ("busbw >= 40Mb/s", (5e6, 5e6), "holds"),
        ("busbw >= 5.1MB/s", (5e6, 5e6), "fails"),
        ("time of {algorithm: ring} / time of {algorithm: halving-doubling} >= 2.9", (3.0,), "holds"),
        ("time of {algorithm: ring} / time of {algorithm: halving-doubling} >= 3.1", (3.0,), "fails"),
        ("time of {algorithm: ring} >= 2 * time of {algorithm: halving-doubling}", (0.3,), "holds"),
        ("time / time of {algorithm: halving-doubling} <= 2", (3.0, 1.0), "fails"),
        ("time * busbw / time >= 5MB/s", (5e6, 5e6), "holds"),
        ("bounded_by of {algorithm: halving-doubling} == leaf*->spine1", ("leaf0->spine1",), "holds"),
        ("bounded_by of {algorithm: halving-doubling} == leaf1->spine1", ("leaf0->spine1",), "fails"),
        ("bounded_by of {algorithm: ring} == hosts' links", ("hosts' links",), "holds"),
        ("bounded_by of {algorithm: ring} != leaf0->spine1", ("hosts' links",), "holds"),
        ("verdict of {algorithm: ina} == refused", ("refused",), "holds"),
        ("verdict == valid", ("valid", "valid", "refused"), "fails"),
    ],
)
def test_an_expectation_holds_or_fails_by_its_figures(
    text: str, found: tuple[float | str, ...], verdict: str
) -> None:
    outcome = judged(parse_expectation(text), CELLS)
    assert outcome.found == tuple(one if isinstance(one, str) else pytest.approx(one) for one in found)
    assert outcome.verdict == verdict


def test_a_failed_one_names_the_cells_and_their_figures() -> None:
    outcome = judged(parse_expectation("ratio <= 1.1"), CELLS)
    assert outcome.why == (f"1.2 for ring, linear, ecmp on {STAR}",)


def test_a_time_of_a_row_that_is_not_valid_says_nothing_but_a_wrong_sum_does() -> None:
    busy = [replace(RING, result=replace(ROW, verdict="not valid", wrong=3)), HALVING]
    assert judged(parse_expectation("ratio <= 1.1"), busy).verdict == "not valid"
    assert judged(parse_expectation("ratio of {algorithm: halving-doubling} <= 1.1"), busy).verdict == "holds"
    assert judged(parse_expectation("wrong == 0"), busy).verdict == "fails"


def test_where_leaves_the_other_cells_out() -> None:
    where = selection_of({"algorithm": ["halving*"]})
    assert judged(parse_expectation("ratio <= 1.1", where), CELLS).verdict == "holds"


def test_a_fabric_is_named_by_its_spec_or_as_it_was_written() -> None:
    for name in (STAR, "star:hosts=4,rate=50000k", "star*"):
        where = selection_of({"fabric": [name]})
        assert judged(
            parse_expectation("wrong == 0", where), [subject(ROW, "star:hosts=4,rate=50000k")]
        ).found == (0,)


def test_sizes_of_a_bench_are_told_apart() -> None:
    small, large = subject(ROW, nbytes=1 << 20), subject(replace(ROW, busbw_Bps=1e7), nbytes=1 << 23)
    text = "busbw of {size: 8MiB} / busbw of {size: 1MiB} >= 2"
    assert judged(parse_expectation(text), [small, large]).found == (2.0,)


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("ratio <= 1", {"algorithm": ["rign"]}, "no cell has algorithm: rign"),
        (
            "ratio <= 1",
            {"algorithm": ["ina"]},
            "ina, linear, ecmp on star:hosts=4,rate=50M is refused, so it has no",
        ),
        ("time of {algorithm: ina} <= 1s", {}, "no cell that runs has algorithm: ina"),
        ("time of {placement: linear} <= 1s", {}, "2 cells have placement: linear: ring, linear, ecmp on"),
        ("time of {size: 1MiB} <= 1s", {}, "no cell that runs has size: 1MiB"),
    ],
)
def test_what_no_cell_will_have_is_refused_before_the_run(
    text: str, where: dict[str, list[str]], reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        check(parse_expectation(text, selection_of(where)), CELLS, is_run=True)


def test_a_lab_that_is_only_planned_has_nothing_measured() -> None:
    with pytest.raises(ValueError, match="wrong is only known after a run, and this lab has mode: plan"):
        check(parse_expectation("wrong == 0"), CELLS, is_run=False)
    check(parse_expectation("time <= 1s"), CELLS, is_run=False)


def test_a_figure_that_a_row_lacks_after_all_does_not_hold() -> None:
    outcome = judged(parse_expectation("iteration <= 1s"), CELLS)
    assert outcome.verdict == "fails"
    assert outcome.why[0] == f"ring, linear, ecmp on {STAR} has no iteration"


def test_a_quotient_by_a_figure_that_is_0_does_not_hold() -> None:
    outcome = judged(parse_expectation("wrong / wrong <= 1"), CELLS)
    assert (outcome.verdict, outcome.why[0]) == ("fails", "wrong is 0, so nothing can be divided by it")


@pytest.mark.parametrize(
    ("text", "is_run", "reason"),
    [
        (
            "bounded_by != hosts links",
            True,
            "there is no bounded_by 'hosts links' (did you mean hosts' links?)",
        ),
        ("bounded_by != h0->h1", True, "there is no bounded_by 'h0->h1'"),
        ("worst_link != h4->switch0", False, "there is no worst_link 'h4->switch0' (did you mean "),
        ("worst_link == messages", True, "there is no worst_link 'messages'"),
        (
            "verdict != vald",
            True,
            "there is no verdict 'vald' (did you mean valid?); it can be valid, not valid, ",
        ),
        ("verdict == valid", False, "there is no verdict 'valid'; it can be planned, refused"),
    ],
)
def test_a_name_that_no_cell_can_have_is_refused(text: str, is_run: bool, reason: str) -> None:
    cell = replace(RING, result=None, fabric=parse_fabric(STAR))
    with pytest.raises(ValueError, match=re.escape(reason)):
        check(parse_expectation(text), [cell], is_run=is_run)


@pytest.mark.parametrize(
    "text", ["bounded_by == hosts' links", "bounded_by != h*->switch0", "worst_link == switch0→h3"]
)
def test_links_of_the_fabric_and_kinds_of_limits_can_be_named(text: str) -> None:
    check(parse_expectation(text), [replace(RING, result=None, fabric=parse_fabric(STAR))], is_run=False)
