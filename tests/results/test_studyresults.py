"""Cells of a study that differ in their seed alone, summed up."""

import re

from gradwire.results.plannedcells import PlannedCell
from gradwire.results.studyresults import CellResult, summaries
from gradwire.tools.seedchart import seed_chart
from gradwire.tools.studytables import answers_of_study, refused


def cell(routes: str, time_s: float | None) -> PlannedCell:
    why = None if time_s else "no"
    return PlannedCell(
        "star:hosts=4", "ring", "linear", routes, 4, 8 if time_s else 0, time_s, 1.0, refused=why
    )


SEEDED = [
    CellResult("", 0, cell("a", 2.0)),
    CellResult("", 0, cell("b", 1.0)),
    CellResult("", 1, cell("a", 4.0)),
    CellResult("", 1, cell("b", None)),
]  # a refused cell has no size


def test_the_mean_is_over_the_seeds_that_were_planned() -> None:
    one, other = summaries(SEEDED)
    assert (one.mean_s, one.times_s, one.n_seeds) == (3.0, (2.0, 4.0), 2)
    assert (other.mean_s, other.times_s, other.n_seeds) == (1.0, (1.0,), 2)


def test_a_combination_that_is_refused_with_one_seed_is_not_the_best() -> None:
    assert answers_of_study(SEEDED) == ["Best: ring, linear, a on star:hosts=4: 3 s, mean of 2 seeds."]
    assert refused(SEEDED) == {"no": ["ring, linear, b on star:hosts=4, seed 1"]}


def test_a_bar_ends_at_the_mean_and_its_whisker_at_the_least_and_the_longest() -> None:
    """The axis ends at 1.04 × 4 s."""
    bar = seed_chart(summaries(SEEDED)).split('<g class="bar">')[1]
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)%"', bar)]
    assert abs(sum(widths) - 100 * 3 / 4.16) < 0.02
    (whisker,) = re.findall(r'whisker" x1="([\d.]+)%" x2="([\d.]+)%"', bar)[:1]
    assert [round(float(x), 1) for x in whisker] == [48.1, 96.2]


def test_nothing_planned_has_no_chart() -> None:
    assert seed_chart(summaries([CellResult("", 0, cell("a", None))])) == ""
