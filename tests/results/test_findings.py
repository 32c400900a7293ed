"""The sentences follow from the rows: nothing in them is typed by hand."""

from dataclasses import replace

from gradwire.results.answer import answer_of_rows
from gradwire.results.findings import findings
from gradwire.results.row import REFUSED, FailedCable, Row, Spread


def row(algorithm: str, time_s: float, **more: object) -> Row:
    """A valid row with bound 1 s and a prediction of 2 s."""
    made = Row(
        fabric="star:hosts=8",
        algorithm=algorithm,
        placement="linear",
        routes="ecmp",
        ranks=8,
        bytes=1000,
        verdict="valid",
        time_s=Spread(time_s, time_s, time_s),
        wrong=0,
        bound_s=1.0,
        ratio=time_s,
        predicted_s=2.0,
        ratio_predicted=time_s / 2,
        worst_link="leaf0→spine1",
        worst_link_flows=3,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of any type


NONSENSE = replace(
    row("nonsense", 1.0), fabric="star:hosts=9", verdict=REFUSED, time_s=None, ratio=None, reasons=("why",)
)


def test_the_fastest_the_slowest_and_its_bounding_link_are_named() -> None:
    rows = [row("slow", 3.0), row("quick", 1.5), NONSENSE]
    counted, fastest, slowest, predicted = findings(rows, {(0, "leaf0→spine1"): 0.5})
    assert counted == (
        "2 cells measured on 1 fabric; every result right, every one valid; 1 cell refused, for the reasons"
        " in the table."
    )
    assert fastest == "Fastest: quick, linear, ecmp on star:hosts=8: 1.5 s, 1.50 × its bound."
    assert slowest == (
        "Slowest: slow, linear, ecmp on star:hosts=8: 3 s, 2.00 × the fastest and 3.00 × its bound; its worst"
        " link, leaf0→spine1, carried up to 3 flows at once and was busy 50% of the time."
    )
    assert predicted == "Measured times are 0.75 to 1.50 × what the model predicts for the same paths."


def test_the_slowest_cells_reason_follows_it() -> None:
    rows = [row("slow", 3.0, why="a carries 40 flows where a host link carries 31"), row("quick", 1.5)]
    text = findings(rows, {})
    assert text[2].startswith("Slowest: slow")
    assert text[3] == "Why: a carries 40 flows where a host link carries 31."


def test_a_cell_that_is_not_valid_is_counted_but_in_no_comparison() -> None:
    rows = [row("good", 2.0), row("lucky", 1.0, verdict="not valid")]
    text = " ".join(findings(rows, {}))
    assert "1 cell not valid" in text
    assert "every one valid" not in text
    assert "lucky" not in text


def test_cells_within_the_spread_of_the_fastest_are_not_called_slower() -> None:
    rows = [replace(row("one", 1.0), time_s=Spread(1.0, 0.98, 1.03)), row("other", 1.04)]
    assert findings(rows, {})[1:-1] == [
        "Fastest: one, linear, ecmp on star:hosts=8: 1 s, 1.00 × its bound; no cell is more than 5.0% slower."
    ]


def test_cells_as_fast_as_the_fastest_are_counted_beside_it() -> None:
    rows = [row("one", 1.0), row("other", 1.009), row("third", 1.02)]
    assert findings(rows, {})[1].endswith("; 1 cell within 1.0% of it.")


def test_cells_of_different_sizes_are_compared_by_their_distance_from_the_bound() -> None:
    rows = [row("ring", 1.1, bytes=1000), row("ring", 5.0, bytes=4000, ratio=1.02)]
    text = findings(rows, {})
    assert text[1] == "Closest to its bound: ring, linear, ecmp on star:hosts=8 with 4 kB: 1.02 × (5 s)."
    assert text[2].startswith("Farthest from its bound: ring, linear, ecmp on star:hosts=8 with 1 kB")


def test_wrong_sums_are_never_called_right() -> None:
    (text,) = findings([row("ring", 1.0, wrong=4, verdict="not valid")], {})
    assert text.startswith("1 cell measured on 1 fabric; 4 wrong elements; none valid")


def test_a_matrix_with_nothing_but_refusals_has_one_sentence() -> None:
    assert len(findings([NONSENSE], {})) == 1


def test_cables_that_failed_are_named_and_their_cells_not_compared_with_the_prediction() -> None:
    failed = (FailedCable("leaf0-spine1", 0.5, 1.5),)
    text = findings([row("one", 2.0), row("other", 6.0, failures=failed)], {})
    assert text[-2] == "Measured times are 1.00 × what the model predicts for the same paths."
    assert text[-1].startswith("In 1 cell by plan: leaf0-spine1 down from 0.5 s to 1.5 s;")
    assert not any("model predicts" in one for one in findings([row("other", 6.0, failures=failed)], {}))


def test_of_adaptive_routes_the_worst_link_is_named_as_planned_and_no_prediction_is() -> None:
    moving = replace(row("other", 6.0), routes="adaptive")
    text = findings([row("one", 2.0), moving], {})
    assert sum("as planned, its worst link" in one for one in text) == 1
    assert "Measured times are 1.00 × what the model predicts for the same paths." in text
    assert not any("model predicts" in one for one in findings([moving], {}))


def test_a_cable_that_would_have_failed_after_the_end_is_not_reported_as_failed() -> None:
    late = (FailedCable("leaf0-spine1", 50, 60),)
    assert findings([row("one", 2.0, failures=late)], {})[-1] == (
        "In 1 cell by plan: leaf0-spine1 down from 50 s to 60 s, after the run was over."
    )


def test_the_fastest_cell_is_the_best_of_the_answer_on_the_same_page() -> None:
    """Times that round alike, and repeats that differ: one rule for both sentences."""
    for rows in (
        [row("first", 1.0 + 1e-12), row("second", 1.0), row("third", 2.0)],
        [replace(row("first", 1.0), time_s=Spread(1.0, 0.98, 1.03)), row("second", 1.04), row("third", 1.06)],
    ):
        _, fastest, *_ = findings(rows, {})
        assert fastest.startswith("Fastest: first, linear")
        assert answer_of_rows(rows).startswith("Best: first, linear")
        assert "1 cell within" in fastest
        assert "faster than the next, second" in answer_of_rows(rows)
