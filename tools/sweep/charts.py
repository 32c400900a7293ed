"""The charts that a study asks for: curves over sizes or ranks, drawn by dygraphs, and bars by choice.

The chart of a study: of each combination the times over its seeds, as a bar to the mean with a whisker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup

from gradwire.results.outcomes import show_figure
from gradwire.results.quantities import Unit
from gradwire.results.studyplots import MOST_SERIES, NUMBERS, Plot, Point, Series, series_of
from gradwire.results.studyresults import CellResult, SeedSummary, summaries
from gradwire.tools.drawing.bars import (
    AXIS_HEIGHT,
    BAR_HEIGHT,
    BAR_TOP,
    GROUP_HEIGHT,
    OVERHANG,
    ROW_HEIGHT,
    SLACK,
    axis,
    percent,
)
from gradwire.tools.report.charts import COLOURS, N_HUES
from gradwire.tools.sweep.study import Study
from gradwire.traces.units import show_nbytes, show_s

MOST_BARS = 200  # nobody reads more
EMPTY = Markup("")


@dataclass(frozen=True, slots=True)
class StudyChart:
    """`data` is what a page's scripts draw as curves, None of a chart of `bars`; `series` is its legend."""

    title: str
    series: tuple[dict[str, Any], ...] = ()
    data: dict[str, Any] | None = None
    bars: Markup = EMPTY
    left_out: int = 0


def study_charts(study: Study, results: Sequence[CellResult]) -> list[StudyChart]:
    """One for each plot of the study of which there is anything to draw."""
    summed = summaries(results)
    choices = study.choices([each.first.cell.bytes for each in summed])
    charts = []
    for plot, named_by in study.plots():
        found = series_of(plot, named_by, list(zip(choices, summed, strict=True)))
        if found:
            charts.append((_curves if plot.x in NUMBERS else _bars)(plot, found))
    return charts


def charts_json(charts: Sequence[StudyChart]) -> dict[str, Any] | None:
    """What the page's scripts draw; None without curves."""
    plots = [chart.data for chart in charts]
    return {"colours": COLOURS, "plots": plots} if any(plots) else None


def _curves(plot: Plot, found: Sequence[Series]) -> StudyChart:
    drawn = found[:MOST_SERIES]
    series = tuple(
        {"name": one.name, "hue": one.hue, "dashed": one.is_ideal or one.hue >= N_HUES} for one in drawn
    )
    points = [[_point(point, plot.unit) for point in one.points] for one in drawn]
    data = {
        "sizes": sorted({point.x for one in drawn for point in one.points}),
        "series": [{**about, "points": some} for about, some in zip(series, points, strict=True)],
        "x": "bytes" if plot.x == "size" else plot.x,
        "y": plot.unit,
        "log": plot.log and all(point.least > 0 for one in drawn for point in one.points),
    }
    return StudyChart(plot.shown_title, series, data, left_out=len(found) - len(drawn))


def _point(point: Point, unit: Unit) -> tuple[int | str, float, float, float, str, bool]:
    return point.x, point.least, point.mean, point.most, point.words(unit), not point.is_valid


def _bars(plot: Plot, found: Sequence[Series]) -> StudyChart:
    """Grouped by x, a bar for each series."""
    bars = [(point.x, one, point) for one in found for point in one.points]
    drawn = bars[:MOST_BARS]
    full = SLACK * max(point.most for _, _, point in drawn) or 1.0
    parts: list[str] = []
    y = 0
    for x in dict.fromkeys(x for x, _, _ in drawn):
        parts.append(f'<text class="group" x="0" y="{y + 18}">{escape(str(x))}</text>')
        y += GROUP_HEIGHT
        for _, one, point in (bar for bar in drawn if bar[0] == x):
            parts += _bar(one, point, plot.unit, y, full)
            y += ROW_HEIGHT
    title = plot.shown_title
    head = (
        f'<svg class="bars" role="img" aria-label="{escape(title)}" width="100%" height="{y + AXIS_HEIGHT}">'
    )
    grid = axis(y, full, lambda figure: show_figure(figure, plot.unit))
    svg = Markup("\n".join([head, *grid, *parts, "</svg>"]))
    return StudyChart(title, bars=svg, left_out=len(bars) - len(drawn))


def _bar(one: Series, point: Point, unit: Unit, y: int, full: float) -> Iterator[str]:
    top, middle = y + BAR_TOP, y + BAR_TOP + BAR_HEIGHT / 2
    style = "bar" if point.is_valid else "bar invalid"
    yield f'<g class="{style}"><title>{escape(point.words(unit))}</title>'
    yield f'<text class="name" x="0" y="{y + 14}">{escape(one.name)}</text>'
    figure = show_figure(point.mean, unit)
    yield f'<text class="figure" x="100%" y="{y + 14}" text-anchor="end">{figure}</text>'
    width = percent(point.mean, full)
    hue = f"series hue{one.hue % N_HUES}"
    yield f'<rect class="{hue}" x="0" y="{top}" width="{width}" height="{BAR_HEIGHT}"/>'
    low, high = percent(point.least, full), percent(point.most, full)
    yield f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    for x in (low, high):
        yield f'<line class="whisker" x1="{x}" x2="{x}" y1="{middle - 4}" y2="{middle + 4}"/>'
    yield "</g>"


def seed_charts(some: Sequence[SeedSummary]) -> Iterator[tuple[str, str, int]]:
    """Of each job and size, which share no axis, what they are, SVG, and how many bars are not drawn."""
    panels: dict[tuple[str, int], list[SeedSummary]] = {}
    for each in some:
        if each.times_s:
            panels.setdefault((each.first.job, each.first.cell.bytes), []).append(each)
    for (job, nbytes), shown in panels.items():
        what = ", ".join(filter(None, (job, show_nbytes(nbytes) if nbytes else "")))
        yield what, _seed_chart(shown[:MOST_BARS]), max(0, len(shown) - MOST_BARS)


def _seed_chart(shown: Sequence[SeedSummary]) -> str:
    """SVG, grouped by fabric.  The dashed line is the bound."""
    full_s = SLACK * max(max(each.times_s) for each in shown)
    parts: list[str] = []
    y = 0
    for fabric in dict.fromkeys(each.first.cell.fabric for each in shown):
        parts.append(f'<text class="group" x="0" y="{y + 18}">{escape(fabric)}</text>')
        y += GROUP_HEIGHT
        for each in shown:
            if each.first.cell.fabric == fabric:
                parts += _seed_bar(each, y, full_s)
                y += ROW_HEIGHT
    size = f'width="100%" height="{y + AXIS_HEIGHT}"'
    head = f'<svg class="bars" role="img" aria-label="Times over the seeds" {size}>'
    return "\n".join([head, *axis(y, full_s), *parts, "</svg>"])


def _seed_bar(each: SeedSummary, y: int, full_s: float) -> Iterator[str]:
    cell = each.first.cell
    name = f"{cell.algorithm} · {cell.placement} · {cell.routes}"
    least_s, mean_s, longest_s = min(each.times_s), each.mean_s, max(each.times_s)
    bound_s = min(each.bound_s or 0.0, mean_s)
    top, middle, end = y + BAR_TOP, y + BAR_TOP + BAR_HEIGHT / 2, y + BAR_TOP + BAR_HEIGHT
    style = "bar" if each.is_valid else "bar invalid"
    words = f"mean {show_s(mean_s)}, {show_s(least_s)} to {show_s(longest_s)}"
    yield f'<g class="{style}"><title>{escape(words)}</title>'
    yield f'<text class="name" x="0" y="{y + 14}">{escape(name)}</text>'
    yield f'<text class="figure" x="100%" y="{y + 14}" text-anchor="end">{show_s(mean_s)}</text>'
    ideal, over = percent(bound_s, full_s), percent(mean_s - bound_s, full_s)
    yield f'<rect class="ideal" x="0" y="{top}" width="{ideal}" height="{BAR_HEIGHT}"/>'
    yield f'<rect class="over" x="{ideal}" y="{top}" width="{over}" height="{BAR_HEIGHT}"/>'
    low, high = percent(least_s, full_s), percent(longest_s, full_s)
    yield f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    for x in (low, high):
        yield f'<line class="whisker" x1="{x}" x2="{x}" y1="{middle - 4}" y2="{middle + 4}"/>'
    if each.bound_s:
        yield f'<line class="bound" x1="{ideal}" x2="{ideal}" y1="{top - OVERHANG}" y2="{end + OVERHANG}"/>'
    yield "</g>"
