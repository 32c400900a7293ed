"""The iterations of a run are drawn at their times."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from gradwire.results.row import Row
from gradwire.tools.drawing.bars import ABOVE, HEIGHT, iterations_svg
from gradwire.traces.iterationtimes import IterationTime
from tests.made_runs import made_repeat

ROW = Row("star:hosts=2", "ring", "linear", "ecmp", ranks=2, bytes=1, verdict="valid")
ROW = replace(ROW, iteration_s=IterationTime(median=2.0, low=1.5, high=3.0, n=8), exposed_s=1.0)
REPEAT = replace(made_repeat(2, 6.0), iteration_s=(2.0, 4.0), exposed_s=(1.0, 3.0))


def parts(style: str) -> list[dict[str, str]]:
    return [
        part.attrib
        for part in ET.fromstring(iterations_svg(ROW, REPEAT)).iter()
        if part.get("class") == style
    ]


def test_each_bar_is_as_high_as_its_iteration_and_the_exposed_part_is_below() -> None:
    second = HEIGHT / (ABOVE * 4.0)  # of the axis
    exposed, computing = parts("over"), parts("ideal")
    assert [float(one["height"]) for one in exposed] == pytest.approx([second, 3 * second], abs=0.01)
    assert [float(one["height"]) for one in computing] == pytest.approx([second, second], abs=0.01)
    assert [float(one["y"]) for one in computing] == pytest.approx(
        [HEIGHT - 2 * second, HEIGHT - 4 * second], abs=0.01
    )
    assert [one["x"] for one in exposed] == ["0.00%", "50.00%"]


def test_median_and_spread_lie_over_all() -> None:
    second = HEIGHT / (ABOVE * 4.0)
    (line,), (band,) = parts("bound"), parts("spread")
    assert float(line["y1"]) == float(line["y2"]) == pytest.approx(HEIGHT - 2 * second, abs=0.01)
    assert float(band["height"]) == pytest.approx(1.5 * second, abs=0.02)


def test_a_run_without_iterations_has_no_chart() -> None:
    assert iterations_svg(ROW, made_repeat(2, 1.0)) == ""
    assert iterations_svg(replace(ROW, iteration_s=None), REPEAT) == ""
