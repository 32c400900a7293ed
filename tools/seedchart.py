"""The chart of a study: of each combination the times over its seeds, as a bar to the mean with a whisker."""

from collections.abc import Iterator, Sequence
from html import escape

from gradwire.results.studyresults import SeedSummary
from gradwire.tools.bars import (
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
from gradwire.traces.units import show_nbytes, show_s

MOST_BARS = 200  # of one chart: nobody reads more


def seed_charts(some: Sequence[SeedSummary]) -> Iterator[tuple[str, str, int]]:
    """Of each job and size, which share no axis, what they are, SVG, and how many bars are not drawn."""
    panels: dict[tuple[str, int], list[SeedSummary]] = {}
    for each in some:
        if each.times_s:
            panels.setdefault((each.first.job, each.first.cell.bytes), []).append(each)
    for (job, nbytes), shown in panels.items():
        what = ", ".join(filter(None, (job, show_nbytes(nbytes) if nbytes else "")))
        yield what, _chart(shown[:MOST_BARS]), max(0, len(shown) - MOST_BARS)


def _chart(shown: Sequence[SeedSummary]) -> str:
    """SVG, grouped by fabric.  The dashed line is the bound."""
    full_s = SLACK * max(max(each.times_s) for each in shown)
    parts: list[str] = []
    y = 0
    for fabric in dict.fromkeys(each.first.cell.fabric for each in shown):
        parts.append(f'<text class="group" x="0" y="{y + 18}">{escape(fabric)}</text>')
        y += GROUP_HEIGHT
        for each in shown:
            if each.first.cell.fabric == fabric:
                parts += _bar(each, y, full_s)
                y += ROW_HEIGHT
    size = f'width="100%" height="{y + AXIS_HEIGHT}"'
    head = f'<svg class="bars" role="img" aria-label="Times over the seeds" {size}>'
    return "\n".join([head, *axis(y, full_s), *parts, "</svg>"])


def _bar(each: SeedSummary, y: int, full_s: float) -> Iterator[str]:
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
