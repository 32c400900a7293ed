"""Cells of a study that differ in their seed alone, summed up."""

import re
from pathlib import Path

from gradwire.results.plannedcells import PlannedCell
from gradwire.results.studyresults import CellResult, summaries
from gradwire.results.verdict import Verdict
from gradwire.tools.sweep.charts import seed_charts
from gradwire.tools.sweep.tables import answers_of_study, not_valid, refused, study_table
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run


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
    assert answers_of_study(SEEDED) == [
        "ring, linear, a on star:hosts=4: 3 s, mean of 2 seeds, which take 2 s to 4 s."
    ]
    assert refused(SEEDED) == {"no": ["ring, linear, b on star:hosts=4, seed 1"]}


def test_a_bar_ends_at_the_mean_and_its_whisker_at_the_least_and_the_longest() -> None:
    """The axis ends at 1.04 × 4 s."""
    ((_, chart, _),) = seed_charts(summaries(SEEDED))
    bar = chart.split('<g class="bar">')[1]
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)%"', bar)]
    assert abs(sum(widths) - 100 * 3 / 4.16) < 0.02
    (whisker,) = re.findall(r'whisker" x1="([\d.]+)%" x2="([\d.]+)%"', bar)[:1]
    assert [round(float(x), 1) for x in whisker] == [48.1, 96.2]


def test_nothing_planned_has_no_chart() -> None:
    assert list(seed_charts(summaries([CellResult("", 0, cell("a", None))]))) == []


def test_of_combinations_that_were_measured_only_valid_ones_are_best_and_the_others_are_marked(
    tmp_path: Path,
) -> None:
    plan = allreduce_plan("star:hosts=4,rate=50M", "ring", nbytes=MIB)
    fast, slow = cell("fast", 1.0), cell("slow", 2.0)
    busy = Verdict(False, ("the processors were busy",))
    results = [
        CellResult("", 0, fast, made_run(tmp_path / "0", plan, (1.0,))),
        CellResult("", 0, slow, made_run(tmp_path / "1", plan, (2.0,))),
        CellResult("", 1, fast, made_run(tmp_path / "2", plan, (1.0,), busy)),
        CellResult("", 1, slow, made_run(tmp_path / "3", plan, (3.0,))),
    ]
    assert [(each.times_s, each.n_counted, each.is_valid) for each in summaries(results)] == [
        ((1.0, 1.0), 1, False),
        ((2.0, 3.0), 2, True),
    ]
    assert answers_of_study(results) == [
        "ring, linear, slow on star:hosts=4: 2.5 s, mean of 2 seeds, which take 2 s to 3 s."
    ]
    assert not_valid(results) == {"the processors were busy": ["ring, linear, fast on star:hosts=4, seed 1"]}
    ((_, chart, _),) = seed_charts(summaries(results))
    assert chart.count('class="bar invalid"') == 1
    cells = [[one.text for one in row] for row in study_table(results).rows]
    assert [row[3] for row in cells] == ["1 of 2", "2 of 2"]


def test_a_cell_that_failed_has_no_time_though_it_was_planned() -> None:
    failed = CellResult("", 0, cell("a", 2.0), failed="no room on the disk")
    (one,) = summaries([failed])
    assert (one.times_s, one.bound_s, one.n_counted) == ((), None, 0)
    assert refused([failed]) == {"no room on the disk": ["ring, linear, a on star:hosts=4, seed 0"]}
    assert answers_of_study([failed]) == []
