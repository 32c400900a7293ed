"""The iterations of a run as a chart: how long each took, and how much of that no computing hid.

A bar for each iteration of one repeat: what no computing hid below, computing above it.  Over them lie the
median (a line) and the 10th to the 90th percentile (a band) of all repeats that count.
"""

from collections.abc import Iterator

from emu.records import Repeat
from results.row import Row
from tools.bars import percent
from traces.units import show_s

HEIGHT = 96
MOST_BARS = 400  # more are not told apart
ABOVE = 1.15  # the axis is so much longer than the longest iteration
FILLED = 0.7  # of a bar's place


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
        told = f"iteration {number + 1}: {show_s(time_s)}, {show_s(exposed_s)} that no computing hides"
        yield f'<g class="bar"><title>{told}</title>'
        yield f'<rect class="over" {place} {_from_to(0, exposed_s, full_s)}/>'
        yield f'<rect class="ideal" {place} {_from_to(exposed_s, time_s, full_s)}/></g>'


def _y(seconds: float, full_s: float) -> str:
    return f"{HEIGHT * (1 - seconds / full_s):.2f}"


def _from_to(low_s: float, high_s: float, full_s: float) -> str:
    return f'y="{_y(high_s, full_s)}" height="{HEIGHT * max(0.0, high_s - low_s) / full_s:.2f}"'
