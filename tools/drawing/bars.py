"""Charts of runs: the times of cells as bars, and the iterations of a run.

The SVG's sizes are percentages of its width, so that it fits any screen.

A cell's bar is the median time: up to its bound in one colour, what is above it in another.  Over it lie the
bound (a dashed line), the least and the largest time (a whisker), the predicted time (a triangle below) and a
line at each instant at which a cable failed before the end, with a band for as long as it was down.

An iteration's bar has below what no computing hid, and computing above.  Over the bars lie the median (a
line) and the 10th to the 90th percentile (a band) of all repeats that count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from gradwire.emu.records import Repeat
from gradwire.results.row import FailedCable, Row
from gradwire.traces.units import show_s

SLACK = 1.04  # the axis is so much longer than the longest time
MOST_TICKS = 5
GROUP_HEIGHT = 30
ROW_HEIGHT = 46
AXIS_HEIGHT = 24
BAR_TOP, BAR_HEIGHT = 20, 14  # within a row, below its label
OVERHANG = 4  # of the bound's line over the bar
HEIGHT = 96
MOST_BARS = 400  # nobody can distinguish more
ABOVE = 1.15  # the axis is so much longer than the longest iteration
FILLED = 0.7  # of a bar's place


def bars_svg(
    numbered: Sequence[tuple[int, Row]],
    short: Mapping[str, str] | None = None,
    runs: Mapping[int, str] | None = None,
) -> str:
    """The chart of the measured ones of these rows, grouped by fabric; empty if there are none.

    Each row links to `#cell-NUMBER`. `short` has a name of each fabric for narrow screens, `runs` by their
    numbers which results rows are from, where there are several.
    """
    measured = [(number, row) for number, row in numbered if row.time_s]
    if not measured:
        return ""
    full_s = axis_s([row for _, row in measured])
    parts: list[str] = []
    y = 0
    for spec in dict.fromkeys(row.fabric for _, row in measured):
        names = {"group wide-screen": spec, "group narrow-screen": short[spec]} if short else {"group": spec}
        parts += [
            f'<text class="{style}" x="0" y="{y + 18}">{escape(name)}</text>' for style, name in names.items()
        ]
        y += GROUP_HEIGHT
        for number, row in measured:
            if row.fabric == spec:
                parts += _bar(number, row, (runs or {}).get(number, ""), y, full_s)
                y += ROW_HEIGHT
    grid = list(axis(y, full_s))
    size = f'width="100%" height="{y + AXIS_HEIGHT}"'
    head = f'<svg class="bars" role="img" aria-label="Time of each cell" {size}>'
    return "\n".join([head, *grid, *parts, "</svg>"])


def axis_s(rows: Sequence[Row]) -> float:
    """The time at the right end of the chart."""
    return SLACK * max(
        seconds
        for row in rows
        for seconds in (row.time_s and row.time_s.max, row.bound_s, _predicted_s(row))
        if seconds
    )


def ticks_s(full_s: float) -> list[float]:
    """Round times from 0, at most MOST_TICKS of them besides 0."""
    step = next(
        size * 10.0**power
        for power in range(-9, 9)
        for size in (1, 2, 5)
        if full_s / (size * 10.0**power) <= MOST_TICKS
    )
    return [step * number for number in range(int(full_s / step) + 1)]


def percent(seconds: float, full_s: float) -> str:
    return f"{100 * seconds / full_s:.2f}%"


def axis(y: int, full_s: float, show: Callable[[float], str] = show_s) -> Iterator[str]:
    """The grid down to `y`, and its times below, or other figures as `show` writes them."""
    for seconds in ticks_s(full_s):
        x = percent(seconds, full_s)
        anchor = "middle" if seconds else "start"
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{GROUP_HEIGHT}" y2="{y}"/>'
        label = show(seconds) if seconds else "0"
        yield f'<text class="tick" x="{x}" y="{y + 16}" text-anchor="{anchor}">{label}</text>'


def _bar(number: int, row: Row, run: str, y: int, full_s: float) -> Iterator[str]:
    assert row.time_s
    time_s, bound_s = row.time_s, row.bound_s or 0.0
    name = " · ".join(filter(None, (row.algorithm, row.placement, row.routes, run)))
    figure = show_s(time_s.median) + (f", {row.ratio:.2f}×" if row.ratio else "")
    style = "bar" if row.valid else "bar invalid"
    top, middle, end = y + BAR_TOP, y + BAR_TOP + BAR_HEIGHT / 2, y + BAR_TOP + BAR_HEIGHT
    yield f'<g class="{style}"><title>{escape(_bar_words(row))}</title>'
    yield f'<a href="#cell-{number}"><text class="name" x="0" y="{y + 14}">{escape(name)}</text></a>'
    note = "" if row.valid else f'<tspan class="wide-screen">{escape(row.verdict)}, </tspan>'
    yield f'<text class="figure" x="100%" y="{y + 14}" text-anchor="end">{note}{figure}</text>'
    ideal = percent(min(bound_s, time_s.median), full_s)
    over = percent(max(0.0, time_s.median - bound_s), full_s)
    yield f'<rect class="ideal" x="0" y="{top}" width="{ideal}" height="{BAR_HEIGHT}"/>'
    yield f'<rect class="over" x="{ideal}" y="{top}" width="{over}" height="{BAR_HEIGHT}"/>'
    low, high = percent(time_s.min, full_s), percent(time_s.max, full_s)
    yield f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    for x in (low, high):
        yield f'<line class="whisker" x1="{x}" x2="{x}" y1="{middle - 4}" y2="{middle + 4}"/>'
    if row.bound_s:
        x = percent(bound_s, full_s)
        yield f'<line class="bound" x1="{x}" x2="{x}" y1="{top - OVERHANG}" y2="{end + OVERHANG}"/>'
    if predicted_s := _predicted_s(row):
        x = percent(predicted_s, full_s)
        yield f'<svg class="predicted" x="{x}" y="{end + 1}"><path d="M0 0 4.5 7H-4.5Z"/></svg>'
    for failure in row.failures:
        if not row.is_late(failure):
            yield from _failure(failure, time_s.median, full_s, top - OVERHANG, end + OVERHANG)
    yield "</g>"


def _failure(failure: FailedCable, end_s: float, full_s: float, top: float, bottom: float) -> Iterator[str]:
    """A line where the cable went down, and a band until it was up again or the run over."""
    down_s = min(failure.down_s, full_s)
    up_s = max(down_s, min(end_s, end_s if failure.up_s is None else failure.up_s))
    x, width = percent(down_s, full_s), percent(up_s - down_s, full_s)
    yield f'<g class="failure"><title>{escape(str(failure))}</title>'
    yield f'<rect x="{x}" width="{width}" y="{top}" height="{bottom - top}"/>'
    yield f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/></g>'


def _bar_words(row: Row) -> str:
    assert row.time_s
    text = f"median {show_s(row.time_s.median)}, {show_s(row.time_s.min)} to {show_s(row.time_s.max)}"
    if row.bound_s:
        text += f"; bound {show_s(row.bound_s)}"
    if predicted_s := _predicted_s(row):
        text += f"; predicted {show_s(predicted_s)}"
    return text + ("" if row.valid else f"; {row.verdict}")


def _predicted_s(row: Row) -> float | None:
    """None for flows that may have left the paths that it is of."""
    return None if row.flows_may_move else row.predicted_s


def iterations_svg(row: Row, repeat: Repeat) -> str:
    """Empty if no iteration has a time."""
    pairs = list(zip(repeat.iteration_s, repeat.exposed_s, strict=True))[:MOST_BARS]
    if not pairs or row.iteration_s is None:
        return ""
    usual = row.iteration_s
    full_s = ABOVE * max(usual.high, *(time_s for time_s, _ in pairs), 1e-9)
    parts = [f'<rect class="spread" x="0" width="100%" {_from_to(usual.low, usual.high, full_s)}/>']
    parts += _bars(pairs, full_s)
    y = _y(usual.median, full_s)
    parts.append(f'<line class="bound" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    label = f"Time of each iteration, median {show_s(usual.median)}"
    head = f'<svg class="bars iterations" role="img" aria-label="{label}" width="100%" height="{HEIGHT}">'
    return "\n".join([head, *parts, "</svg>"])


def _bars(pairs: list[tuple[float, float]], full_s: float) -> Iterator[str]:
    for number, (time_s, exposed_s) in enumerate(pairs):
        x, width = percent(number, len(pairs)), percent(FILLED, len(pairs))
        place = f'x="{x}" width="{width}"'
        title = f"iteration {number + 1}: {show_s(time_s)}, {show_s(exposed_s)} that no computing hides"
        yield f'<g class="bar"><title>{title}</title>'
        yield f'<rect class="over" {place} {_from_to(0, exposed_s, full_s)}/>'
        yield f'<rect class="ideal" {place} {_from_to(exposed_s, time_s, full_s)}/></g>'


def _y(seconds: float, full_s: float) -> str:
    return f"{HEIGHT * (1 - seconds / full_s):.2f}"


def _from_to(low_s: float, high_s: float, full_s: float) -> str:
    return f'y="{_y(high_s, full_s)}" height="{HEIGHT * max(0.0, high_s - low_s) / full_s:.2f}"'
