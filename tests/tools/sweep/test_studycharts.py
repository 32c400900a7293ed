"""The charts that a study asks for: what is drawn of its cells; what cannot be is refused with its line."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.tools.labs.file import read_lab
from gradwire.tools.sweep.cellreplaying import plan_cell
from gradwire.tools.sweep.charts import StudyChart, study_charts
from gradwire.tools.sweep.study import Study, study_of

BYTES_PER_S = 50e6 / 8 * 1448 / 1514  # a link's payload
STUDY = """
mode: plan
jobs:
  sums: {bench: allreduce, begin: 64KiB, end: 1MiB, factor: 16, ranks: 4}
  gathered: {bench: allgather, begin: 64KiB, ranks: 4}
fabric: ["star:hosts=4,rate=50M", "leaf-spine:leaves=2,spines=1,hosts=2,rate=50M"]
algorithm: [ring, halving-doubling]
seeds: 0..1
"""


def study(tmp_path: Path, plots: str) -> Study:
    (tmp_path / "a.yaml").write_text(f"{STUDY}plot:\n{plots}")
    return study_of(read_lab(tmp_path / "a.yaml"))


def charts(made: Study) -> list[StudyChart]:
    return study_charts(made, [plan_cell(each) for each in made.cells])


def test_a_curve_has_the_closed_form_at_each_size(tmp_path: Path) -> None:
    """2 · 3/4 S β on a star, whatever the algorithm and the seed."""
    plot = "  - {y: [time, bound], x: size, where: {job: sums, fabric: star*}}\n"
    (chart,) = charts(study(tmp_path, plot))
    assert [each["name"] for each in chart.series] == [
        f"{algorithm}, {y}" for algorithm in ("ring", "halving-doubling") for y in ("time", "bound")
    ]
    assert [each["dashed"] for each in chart.series] == [False, True] * 2
    assert [each["hue"] for each in chart.series] == [0, 0, 1, 1]
    assert chart.data
    assert (chart.data["sizes"], chart.data["x"], chart.data["y"]) == ([1 << 16, 1 << 20], "bytes", "s")
    for one in chart.data["series"]:
        for size, least, mean, most, _, is_invalid in one["points"]:
            assert [least, mean, most] == pytest.approx([1.5 * size / BYTES_PER_S] * 3, rel=1e-6)
            assert not is_invalid


def test_bars_end_at_the_mean_over_the_seeds_and_whiskers_at_the_least_and_the_most(tmp_path: Path) -> None:
    made = study(tmp_path, "  - {y: time, x: algorithm, where: {job: gathered, fabric: star*}}\n")
    results = [plan_cell(each) for each in made.cells]
    stretched = [
        replace(each, cell=replace(each.cell, fluid_s=1.0 if each.seed else 3.0)) for each in results
    ]
    (chart,) = study_charts(made, stretched)
    widths = re.findall(r'<rect class="series hue0" x="0" y="\d+" width="([\d.]+)%"', chart.bars)
    assert [float(width) for width in widths] == pytest.approx([100 * 2 / 3.12] * 2, abs=0.01)
    (whisker, *_) = re.findall(r'whisker" x1="([\d.]+)%" x2="([\d.]+)%"', chart.bars)
    assert [float(x) for x in whisker] == pytest.approx([100 / 3.12, 300 / 3.12], abs=0.01)
    groups = re.findall(r'class="group"[^>]*>([^<]+)<', chart.bars)
    assert groups == ["ring", "halving-doubling"]


def test_series_are_named_by_the_choices_that_are_needed(tmp_path: Path) -> None:
    made = study(tmp_path, "  - {y: ratio, x: size}\n  - {y: ratio, x: ranks, where: {job: gathered}}\n")
    (_, by_size), (_, by_ranks) = made.plots()
    assert by_size == ("job", "family", "algorithm")
    assert by_ranks == ("family", "algorithm")


@pytest.mark.parametrize(
    ("plot", "why"),
    [
        ("{y: tme, x: size}", "line 10: there is no quantity 'tme' (did you mean time?)"),
        ("{y: worst_link, x: size}", "line 10: there is no quantity 'worst_link'"),
        ("{y: [time, ratio], x: size}", "line 10: time and ratio have different units"),
        ("{y: time, x: colour}", "line 10: there is no choice 'colour'"),
        ("{y: time, x: job, series: job}", "line 10: job is x already"),
        ("{y: time}", "line 10: plot.0.x is missing"),
        ("{y: time, x: size, serie: job}", "line 10: there is no key 'serie' (did you mean series?)"),
        ("{y: busbw, x: size}", "line 10: busbw is only known after a run, and this lab has mode: plan"),
        ("{y: time, x: size, where: {job: none}}", "line 10: no cell has job: none"),
        (
            "{y: time, x: size, series: [job, algorithm]}",
            "line 10: series job, algorithm has several cells at one size: add fabric to it",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_line(plot: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        study(tmp_path, f"  - {plot}\n")
