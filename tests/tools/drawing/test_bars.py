"""The charts of runs: everything lies where its time belongs on the axis."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from gradwire.results.row import FailedCable, Row, Spread
from gradwire.tools.drawing.bars import SLACK, axis_s, bars_svg, ticks_s

ROW = Row(
    fabric="star:hosts=8",
    algorithm="ring",
    placement="linear",
    routes="ecmp",
    ranks=8,
    bytes=1000,
    verdict="valid",
    time_s=Spread(2.0, 1.8, 2.5),
    bound_s=1.0,
    ratio=2.0,
    predicted_s=1.5,
)


def at(svg: str, style: str, attribute: str) -> list[float]:
    """Where the parts of this class are, in seconds of an axis that ends at the largest time of ROW."""
    parts = [part for part in ET.fromstring(svg).iter() if part.get("class") == style]
    return [float(part.attrib[attribute].removesuffix("%")) / 100 * SLACK * 2.5 for part in parts]


def test_bound_prediction_whisker_and_bar_are_at_their_times() -> None:
    svg = bars_svg([(1, ROW)])
    assert at(svg, "bound", "x1") == at(svg, "bound", "x2") == pytest.approx([1.0], abs=1e-3)
    assert at(svg, "predicted", "x") == pytest.approx([1.5], abs=1e-3)
    assert at(svg, "whisker", "x1") == pytest.approx([1.8, 1.8, 2.5], abs=1e-3)
    assert at(svg, "whisker", "x2") == pytest.approx([2.5, 1.8, 2.5], abs=1e-3)
    assert at(svg, "ideal", "width") == pytest.approx([1.0], abs=1e-3)
    assert at(svg, "over", "width") == pytest.approx([1.0], abs=1e-3)


def test_the_bound_is_at_the_percentage_one_can_work_out() -> None:
    assert 'class="bound" x1="38.46%"' in bars_svg([(1, ROW)])  # 1 / (1.04 * 2.5)


def test_a_bar_that_beats_its_bound_has_nothing_above_it() -> None:
    quick = replace(ROW, time_s=Spread(0.9, 0.9, 2.5))
    assert at(bars_svg([(1, quick)]), "ideal", "width") == pytest.approx([0.9], abs=1e-3)
    assert at(bars_svg([(1, quick)]), "over", "width") == [0.0]


def test_rows_of_one_fabric_stand_under_its_name_once() -> None:
    other = replace(ROW, fabric="bigraph:n=4,m=2")
    rows = [(1, ROW), (2, other), (3, ROW)]
    texts = [t.text for t in ET.fromstring(bars_svg(rows)).iter("text")]
    assert texts.count("star:hosts=8") == texts.count("bigraph:n=4,m=2") == 1
    assert texts.index("star:hosts=8") < texts.index("bigraph:n=4,m=2")
    short = bars_svg(rows, {"star:hosts=8": "star", "bigraph:n=4,m=2": "bigraph"})
    narrow = [t.text for t in ET.fromstring(short).iter("text") if t.get("class") == "group narrow-screen"]
    assert narrow == ["star", "bigraph"]


def test_a_row_that_is_not_valid_says_so_and_looks_different() -> None:
    bad = replace(ROW, verdict="not valid")
    svg = bars_svg([(1, ROW), (2, bad)])
    assert [g.get("class") for g in ET.fromstring(svg).iter("g")] == ["bar", "bar invalid"]
    texts = ["".join(text.itertext()) for text in ET.fromstring(svg).iter("text")]
    assert "not valid, 2 s, 2.00×" in texts


def test_refused_rows_have_no_bar_and_alone_no_chart() -> None:
    assert bars_svg([(1, replace(ROW, time_s=None))]) == ""


def test_hostile_names_are_text() -> None:
    svg = bars_svg([(1, replace(ROW, fabric="<script>", algorithm="</svg><script>", verdict="<b>"))])
    assert "<script" not in svg
    ET.fromstring(svg)


@pytest.mark.parametrize("longest_s", [3e-6, 0.00999, 0.325, 1.0, 11.6, 59.0, 86_400.0])
def test_an_axis_has_a_few_round_times_that_all_lie_on_it(longest_s: float) -> None:
    full_s = axis_s(
        [replace(ROW, time_s=Spread(longest_s, longest_s, longest_s), bound_s=None, predicted_s=None)]
    )
    ticks = ticks_s(full_s)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 6
    assert ticks[-1] <= full_s
    assert re.fullmatch(r"[125]e[+-]\d+", f"{ticks[1]:.0e}")
    assert float(f"{ticks[1]:.0e}") == pytest.approx(ticks[1])


def test_an_instant_at_which_a_cable_failed_is_marked_with_what_failed() -> None:
    failed = replace(
        ROW, failures=(FailedCable("leaf0-spine1", 0.5, 1.5), FailedCable("leaf1-spine0", 1.2, None))
    )
    svg = bars_svg([(1, failed)])
    marks = [part for part in ET.fromstring(svg).iter() if part.get("class") == "failure"]
    assert [mark.findtext("title") for mark in marks] == [
        "leaf0-spine1 down from 0.5 s to 1.5 s",
        "leaf1-spine0 down from 1.2 s on",
    ]
    full_s = axis_s([ROW])
    bands = [
        [float(mark[1].attrib[key].removesuffix("%")) / 100 * full_s for key in ("x", "width")]
        for mark in marks
    ]
    assert ROW.time_s
    assert bands[0] == pytest.approx([0.5, 1.0], abs=1e-3)
    assert bands[1] == pytest.approx([1.2, ROW.time_s.median - 1.2], abs=1e-3)  # down until the run was over


def test_a_cable_that_would_have_failed_after_the_end_is_not_marked() -> None:
    assert ROW.time_s
    late = replace(ROW, failures=(FailedCable("leaf0-spine1", ROW.time_s.max, None),))
    assert 'class="failure"' not in bars_svg([(1, late)])


@pytest.mark.parametrize(
    "row", [replace(ROW, routes="adaptive"), replace(ROW, failures=(FailedCable("leaf0-spine1", 0.5, None),))]
)
def test_the_prediction_of_paths_that_flows_may_have_left_is_no_mark(row: Row) -> None:
    assert at(bars_svg([(1, ROW)]), "predicted", "x")
    svg = bars_svg([(1, row)])
    assert not at(svg, "predicted", "x")
    assert "predicted 1.5 s" not in svg
