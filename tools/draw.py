"""A fabric as an SVG drawing, its links coloured by load.

The drawing stands alone or inside an HTML page; it needs no script and follows the reader's light or
dark scheme.  Each cable is two lines, one per direction, and traffic keeps to the right of the way it
goes, as on a road.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import hypot

from emu.fabric import Egress, Fabric, link_name
from traces.units import show_bps

HOST_GAP = 54
LEAST_HOST_GAP = 16  # with more hosts than fit, they move together and lose their labels
WIDEST = 1200
MARGIN = 40
SWITCH_ROW_GAP = 112
HOST_ROW_GAP = 78
LEGEND_HEIGHT = 44
LANE = 2.4  # how far each direction's line is from the middle of the cable
SWITCH_SIZE = (58, 22)
HOST_RADIUS = 7

SHADES = ((0.0, "idle"), (0.25, "to 25 %"), (0.5, "to 50 %"), (0.75, "to 75 %"), (1.0, "to 100 %"))
# What the legend names, and how wide each line and name is; a letter takes about 6 pixels.
LEGEND = {name: 34 + 6 * len(name) for name in (*(name for _, name in SHADES), "above")}
LEAST_WIDTH = 2 * MARGIN + sum(LEGEND.values())

# Light: ColorBrewer's BuPu, then vermilion; dark: a cut of inferno, then sky blue.  In both, luminance
# alone tells the order, so the ramp reads the same with any kind of colour vision.
STYLE = """
.gw-fabric{color:#1d2129;font:11px system-ui,sans-serif;max-width:100%;height:auto}
.gw-fabric text{fill:currentColor;text-anchor:middle;dominant-baseline:central}
.gw-fabric text.note{text-anchor:start}
.gw-fabric .switch{fill:#eef1f6;stroke:currentColor;stroke-opacity:.55}
.gw-fabric .host{fill:#fff;stroke:currentColor;stroke-opacity:.7}
.gw-fabric .hit{stroke:#000;stroke-opacity:0;stroke-width:7}
.gw-fabric .lane{stroke-linecap:round}
.gw-fabric .plain{stroke:#8a93a3;stroke-width:1.2}
.gw-fabric .load0{stroke:#ccd3dd;stroke-width:1.2}
.gw-fabric .load1{stroke:#9ebcda;stroke-width:1.8}
.gw-fabric .load2{stroke:#8c96c6;stroke-width:2.4}
.gw-fabric .load3{stroke:#88419d;stroke-width:3}
.gw-fabric .load4{stroke:#4d004b;stroke-width:3.4}
.gw-fabric .load5{stroke:#d55e00;stroke-width:4}
.gw-fabric g:hover>.lane{stroke-width:5}
@media (prefers-color-scheme:dark){
.gw-fabric{color:#e4e7ec}
.gw-fabric .switch{fill:#262b35}
.gw-fabric .host{fill:#14171d}
.gw-fabric .load0{stroke:#414957}
.gw-fabric .load1{stroke:#7d2f6d}
.gw-fabric .load2{stroke:#c43c4e}
.gw-fabric .load3{stroke:#f37819}
.gw-fabric .load4{stroke:#fcc92b}
.gw-fabric .load5{stroke:#56b4e9}
}
"""


@dataclass(frozen=True, slots=True)
class _Spot:
    x: float
    y: float


def fabric_svg(
    fabric: Fabric,
    loads: Mapping[Egress, float] | None = None,
    labels: Mapping[str, str] | None = None,
    load_means: str = "load",
    titles: Mapping[Egress, str] | None = None,
) -> str:
    """The drawing as the text of an `<svg>` element.

    `loads` are shares, 1.0 being all that a link can carry; a link without one is idle.  `labels` are
    texts at nodes, e.g. the rank on a host.  `load_means` is said in the legend and on every link that
    has no text of its own in `titles`.
    """
    spots, width, height = _layout(fabric)
    labels = labels or {}
    legend = list(_legend(height, load_means)) if loads is not None else []
    height += LEGEND_HEIGHT if legend else 0
    title = f"{fabric.spec}: {len(fabric.hosts)} hosts, {len(fabric.switches)} switches"
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="gw-fabric" role="img" {size}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        *_links(fabric, spots, loads, _titles(fabric, loads, load_means) | dict(titles or {})),
        *_switches(fabric, spots, labels),
        *_hosts(fabric, spots, labels),
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rows(fabric: Fabric) -> list[tuple[str, ...]]:
    """The nodes of each row, from the top."""
    if fabric.family == "bigraph":
        half_hosts, half = len(fabric.hosts) // 2, len(fabric.switches) // 2
        upper, lower = fabric.switches[:half], fabric.switches[half:]
        return [fabric.hosts[:half_hosts], upper, lower, fabric.hosts[half_hosts:]]
    rows = [fabric.hosts]
    placed = set(fabric.hosts)
    while len(placed) < len(fabric.hosts) + len(fabric.switches):
        above = {peer for node in rows[0] for peer in fabric.neighbours[node].values()}
        if not above - placed:
            raise ValueError(f"{fabric.spec} has a switch that no cable joins to a host; it cannot be drawn")
        rows.insert(0, tuple(switch for switch in fabric.switches if switch in above - placed))
        placed |= above
    return rows


def _layout(fabric: Fabric) -> tuple[dict[str, _Spot], float, float]:
    """Where each node is, and the width and height of all of them."""
    rows = _rows(fabric)
    hosts = set(fabric.hosts)
    most_hosts = max(len(row) for row in rows if row[0] in hosts)
    gap = max(LEAST_HOST_GAP, min(HOST_GAP, WIDEST / most_hosts))
    width = max(LEAST_WIDTH, gap * most_hosts + 2 * MARGIN)
    spots: dict[str, _Spot] = {}
    y = float(MARGIN)
    for number, row in enumerate(rows):
        if number:
            y += HOST_ROW_GAP if row[0] in hosts or rows[number - 1][0] in hosts else SWITCH_ROW_GAP
        step = (width - 2 * MARGIN) / len(row)
        spots |= {node: _Spot(MARGIN + step * (i + 0.5), y) for i, node in enumerate(row)}
    return spots, width, y + MARGIN


def _titles(fabric: Fabric, loads: Mapping[Egress, float] | None, load_means: str) -> dict[Egress, str]:
    """What each link's tooltip says: its name, its rate and its load."""
    return {
        egress: f"{link_name(fabric, egress)}, {show_bps(rate_bps)}"
        + ("" if loads is None else f", {load_means} {loads.get(egress, 0.0):.2f}")
        for egress, rate_bps in fabric.rates.items()
    }


def _links(
    fabric: Fabric,
    spots: Mapping[str, _Spot],
    loads: Mapping[Egress, float] | None,
    titles: Mapping[Egress, str],
) -> Iterator[str]:
    shades = {egress: _shade(loads.get(egress, 0.0)) if loads is not None else -1 for egress in fabric.rates}
    for egress in sorted(fabric.rates, key=lambda egress: shades[egress]):  # the loaded ones on top
        a, b = spots[egress.node], spots[fabric.peers[egress].node]
        length = hypot(b.x - a.x, b.y - a.y)
        right_x, right_y = -(b.y - a.y) / length * LANE, (b.x - a.x) / length * LANE
        line = (
            f'x1="{a.x + right_x:.1f}" y1="{a.y + right_y:.1f}"'
            f' x2="{b.x + right_x:.1f}" y2="{b.y + right_y:.1f}"'
        )
        style = "plain" if loads is None else f"load{shades[egress]}"
        yield f"<g><title>{escape(titles[egress])}</title>"
        yield f'<line class="hit" {line}/><line class="lane {style}" {line}/></g>'


def _shade(load: float) -> int:
    """The number of the shade: 0 for idle, the last for more than a link can carry."""
    slack = 1e-9
    return next((i for i, (most, _) in enumerate(SHADES) if load <= most + slack), len(SHADES))


def _switches(fabric: Fabric, spots: Mapping[str, _Spot], labels: Mapping[str, str]) -> Iterator[str]:
    width, height = SWITCH_SIZE
    for switch in fabric.switches:
        spot = spots[switch]
        told = f"{switch}: {len(fabric.ports[switch])} ports"
        name = f"{switch} {labels[switch]}" if switch in labels else switch
        yield (
            f'<g><title>{escape(told)}</title><rect class="switch" x="{spot.x - width / 2:.1f}"'
            f' y="{spot.y - height / 2:.1f}" width="{width}" height="{height}" rx="4"/>'
            f'<text x="{spot.x:.1f}" y="{spot.y:.1f}">{escape(name)}</text></g>'
        )


def _hosts(fabric: Fabric, spots: Mapping[str, _Spot], labels: Mapping[str, str]) -> Iterator[str]:
    top = min(spot.y for spot in spots.values())
    apart = min((abs(spots[a].x - spots[b].x) for a, b in zip(fabric.hosts, fabric.hosts[1:], strict=False)))
    for host in fabric.hosts:
        spot = spots[host]
        away = -1 if spot.y == top and fabric.family == "bigraph" else 1
        told = f"{host}, {fabric.ip(host)}" + (f", {labels[host]}" if host in labels else "")
        yield (
            f"<g><title>{escape(told)}</title>"
            f'<circle class="host" cx="{spot.x:.1f}" cy="{spot.y:.1f}" r="{HOST_RADIUS}"/>'
        )
        if apart >= 2 * LEAST_HOST_GAP:
            yield f'<text x="{spot.x:.1f}" y="{spot.y + away * 16:.1f}">{escape(host)}</text>'
            if host in labels:
                yield f'<text x="{spot.x:.1f}" y="{spot.y + away * 28:.1f}">{escape(labels[host])}</text>'
        yield "</g>"


def _legend(y: float, load_means: str) -> Iterator[str]:
    """Two lines below the drawing: what the shades mean, and each of them."""
    x, y = float(MARGIN), y + 8
    yield f'<text class="note" x="{x:.0f}" y="{y:.0f}">{escape(load_means)}; traffic keeps right</text>'
    y += 18
    for number, (name, width) in enumerate(LEGEND.items()):
        yield f'<line class="lane load{number}" x1="{x:.0f}" y1="{y:.0f}" x2="{x + 18:.0f}" y2="{y:.0f}"/>'
        yield f'<text class="note" x="{x + 23:.0f}" y="{y:.0f}">{name}</text>'
        x += width
