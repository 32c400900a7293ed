"""A fabric as an SVG drawing, its links coloured by load.

The drawing is a file of its own or inside an HTML page; it needs no script and follows the reader's light or
dark scheme.  Each cable is two lines, one per direction, and traffic keeps to the right of the way it
goes, as on a road.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import hypot

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link, link_name
from gradwire.tools.drawing.layout import (
    LETTER,
    MARGIN,
    MAX_SWITCH_WIDTH,
    STYLE,
    SWITCH_HEIGHT,
    DrawingLayout,
    Spot,
    layout,
)
from gradwire.traces.units import show_bps, show_count

DENSE_CABLES = 100  # more are drawn with thin lines, so that the loaded ones show
LABELLED_HOST_GAP = 32  # hosts nearer to each other have a label for all of a switch
LEGEND_HEIGHT = 48
LANE, THIN_LANE = 2.4, 1.3  # how far each direction's line is from the middle of the cable
SIDE_BY_SIDE = 4.0  # lanes between cables that join the same two nodes
SMALL_LETTER = 6.2
AROUND_TOP, AROUND_LEFT = 0.28, 0.42  # how far a cable around a grid is from its switches, of their distance
MOST_WORST = 3  # if more links than these have the highest load, none stands out

SHADES = ((0.0, "idle"), (0.25, "to 25 %"), (0.5, "to 50 %"), (0.75, "to 75 %"), (1.0, "to 100 %"))
SHADE_NAMES = (*(name for _, name in SHADES), "above")
SLACK = 1e-9
ENTRY = {name: 34 + 6 * len(name) for name in (*SHADE_NAMES, "failed")}  # how wide each is in the legend
LEAST_WIDTH = 2 * MARGIN + sum(ENTRY.values())


@dataclass(frozen=True)
class _Drawing:
    """What is drawn.  `loads` None: without loads."""

    fabric: Fabric
    layout: DrawingLayout
    loads: Mapping[Egress, float] | None
    labels: Mapping[str, str]
    load_means: str
    failed: Collection[Link]
    told_worst: Egress | None

    @property
    def is_dense(self) -> bool:
        return len(self.fabric.links) > DENSE_CABLES

    @property
    def worst(self) -> list[Egress]:
        """What the caller says; else the links with the highest load, if they carry something and are few."""
        if self.told_worst is not None:
            return [self.told_worst]
        highest = max((self.loads or {}).values(), default=0.0)
        if highest <= SLACK:
            return []
        worst = [e for e in self.fabric.rates if (self.loads or {}).get(e, 0.0) >= highest - SLACK]
        return worst if len(worst) <= MOST_WORST else []


def fabric_svg(
    fabric: Fabric,
    loads: Mapping[Egress, float] | None = None,
    labels: Mapping[str, str] | None = None,
    load_means: str = "load",
    titles: Mapping[Egress, str] | None = None,
    *,
    failed: Collection[Link] = (),
    worst: Egress | None = None,
) -> str:
    """The drawing as the text of an `<svg>` element.

    `loads` are shares, 1.0 being all that a link can carry; a link without one is idle.  `labels` are
    texts at nodes, e.g. the rank on a host.  `load_means` is said in the legend and on every link that
    has no text of its own in `titles`.  `failed` cables are dashed.  `worst` is the link to
    point out; None: that with the highest load.  A script finds a link by its `data-link`, its number in
    `fabric.rates`.
    """
    drawing = _Drawing(fabric, layout(fabric, LEAST_WIDTH), loads, labels or {}, load_means, failed, worst)
    width, height = drawing.layout.width, drawing.layout.height
    legend = list(_legend(drawing, height))
    height += LEGEND_HEIGHT if legend else 0
    switches = show_count(len(fabric.switches), "switch", "switches")
    title = f"{fabric.spec}: {show_count(len(fabric.hosts), 'host')}, {switches}"
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = "gw-fabric dense" if drawing.is_dense else "gw-fabric"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{style}" role="img" {size}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',  # else a file is shown on white, also in the dark
        *_links(drawing, _titles(drawing) | dict(titles or {})),
        *_switches(drawing),
        *_blocks(drawing),
        *_worst_labels(drawing),
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _titles(drawing: _Drawing) -> dict[Egress, str]:
    """What each link's tooltip says: its name, its rate, its load, and whether it failed."""
    fabric, loads = drawing.fabric, drawing.loads
    return {
        egress: f"{link_name(fabric, egress)}, {show_bps(link.rate_bps)}"
        + ("" if loads is None else f", {drawing.load_means} {loads.get(egress, 0.0):.2f}")
        + (", failed" if link in drawing.failed else "")
        for egress, link in fabric.cables.items()
    }


def _links(drawing: _Drawing, titles: Mapping[Egress, str]) -> Iterator[str]:
    fabric, loads = drawing.fabric, drawing.loads
    numbers = {egress: number for number, egress in enumerate(fabric.rates)}
    shades = {egress: _shade(loads.get(egress, 0.0)) if loads is not None else -1 for egress in fabric.rates}
    sideways = _sideways(fabric)
    for egress in drawing.worst:  # beneath all lines
        element, shape = _lane(drawing, egress, sideways[fabric.cables[egress]])
        yield f'<{element} class="worst" {shape}/>'
    for egress in sorted(fabric.rates, key=lambda egress: shades[egress]):  # the loaded ones on top
        link = fabric.cables[egress]
        element, shape = _lane(drawing, egress, sideways[link])
        style = "plain" if loads is None else f"load{shades[egress]}"
        if link in drawing.failed:
            style = "failed"
        yield f'<g data-link="{numbers[egress]}"><title>{escape(titles[egress])}</title>'
        yield f'<{element} class="hit" {shape}/><{element} class="lane {style}" {shape}/></g>'


def _sideways(fabric: Fabric) -> dict[Link, float]:
    """How many lanes each cable is beside the middle: those that join the same two nodes lie side by side."""
    together = Counter(frozenset((link.a, link.b)) for link in fabric.links)
    seen: Counter[frozenset[str]] = Counter()
    sideways = {}
    for link in fabric.links:
        pair = frozenset((link.a, link.b))
        sign = 1 if link.a < link.b else -1  # so that it is the same side seen from either end
        sideways[link] = sign * (seen[pair] - (together[pair] - 1) / 2) * SIDE_BY_SIDE
        seen[pair] += 1
    return sideways


def _lane(drawing: _Drawing, egress: Egress, sideways: float) -> tuple[str, str]:
    """The element and the shape of the line from `egress`: straight, or an arc past the nodes between."""
    link = drawing.fabric.cables[egress]
    a, b = (drawing.layout.spots[node] for node in (egress.node, drawing.fabric.peers[egress].node))
    lane = THIN_LANE if drawing.is_dense else LANE
    shift = lane * (1 + (sideways if egress.node == link.a else -sideways))
    length = hypot(b.x - a.x, b.y - a.y)
    right_x, right_y = -(b.y - a.y) / length * shift, (b.x - a.x) / length * shift
    start, end = Spot(a.x + right_x, a.y + right_y), Spot(b.x + right_x, b.y + right_y)
    grid_gap = drawing.layout.grid_gap
    if length < 1.5 * grid_gap or (abs(a.y - b.y) > 1 and not grid_gap):
        return "line", f'x1="{start.x:.1f}" y1="{start.y:.1f}" x2="{end.x:.1f}" y2="{end.y:.1f}"'
    if grid_gap:
        return "path", _around(start, end, grid_gap)
    top = a.y - 16 - length / 8 + right_y
    return "path", f'd="M{start.x:.1f} {start.y:.1f}Q{(a.x + b.x) / 2:.1f} {top:.1f} {end.x:.1f} {end.y:.1f}"'


def _around(start: Spot, end: Spot, gap: float) -> str:
    """The cable around a row or a column of a grid: at its left or its upper side past all boxes."""
    length = hypot(end.x - start.x, end.y - start.y)
    along_x, along_y = (end.x - start.x) / length * gap, (end.y - start.y) / length * gap
    aside_x, aside_y = (AROUND_LEFT * gap, 0.0) if abs(along_y) > 1 else (0.0, AROUND_TOP * gap)
    bends = [
        (spot.x + share * along_x - aside_x, spot.y + share * along_y - aside_y)
        for spot, share in ((start, 0.3), (start, 0.6), (end, -0.6), (end, -0.3))
    ]
    leaving, straight, to, entering = (f"{x:.1f} {y:.1f}" for x, y in bends)
    return f'd="M{start.x:.1f} {start.y:.1f}Q{leaving} {straight}L{to}Q{entering} {end.x:.1f} {end.y:.1f}"'


def _shade(load: float) -> int:
    """The number of the shade: 0 for idle, the last for more than a link can carry."""
    return next((i for i, (most, _) in enumerate(SHADES) if load <= most + SLACK), len(SHADES))


def _switches(drawing: _Drawing) -> Iterator[str]:
    """Boxes with names; where these do not fit, with numbers, and what they number at the row's left."""
    for row in drawing.layout.rows:
        width = min(MAX_SWITCH_WIDTH, drawing.layout.row_step(row) - 4)
        texts = [" ".join(filter(None, (switch, drawing.labels.get(switch)))) for switch in row]
        if LETTER * max(map(len, texts)) > width:
            stem = row[0].rstrip("0123456789")
            texts = [switch.removeprefix(stem) for switch in row]
            if not all(map(str.isdigit, texts)) or LETTER * max(map(len, texts)) > width:
                texts = [""] * len(row)
            else:
                y = drawing.layout.spots[row[0]].y
                yield f'<text class="note" x="4" y="{y:.1f}">{escape(stem[:6])}</text>'
        for switch, text in zip(row, texts, strict=True):
            spot = drawing.layout.spots[switch]
            title = f"{switch}: {show_count(len(drawing.fabric.ports[switch]), 'port')}"
            yield (
                f'<g><title>{escape(title)}</title><rect class="switch" x="{spot.x - width / 2:.1f}"'
                f' y="{spot.y - SWITCH_HEIGHT / 2:.1f}" width="{width:.1f}" height="{SWITCH_HEIGHT}" rx="4"/>'
            )
            yield f'<text x="{spot.x:.1f}" y="{spot.y:.1f}">{escape(text)}</text></g>'


def _blocks(drawing: _Drawing) -> Iterator[str]:
    radius, is_labelled = drawing.layout.host_radius, drawing.layout.host_gap >= LABELLED_HOST_GAP
    for host, away in [(host, block.away) for block in drawing.layout.blocks for host in block.hosts]:
        spot = drawing.layout.spots[host]
        texts = list(filter(None, (host, drawing.labels.get(host))))
        title = ", ".join([host, drawing.fabric.ip(host), *texts[1:]])
        yield (
            f"<g><title>{escape(title)}</title>"
            f'<circle class="host" cx="{spot.x:.1f}" cy="{spot.y:.1f}" r="{radius:.1f}"/>'
        )
        for line, text in enumerate(texts if is_labelled else ()):
            y = spot.y + away * (radius + 9 + 12 * line)
            yield f'<text x="{spot.x:.1f}" y="{y:.1f}">{escape(text)}</text>'
        yield "</g>"
    if not is_labelled:
        yield from _block_labels(drawing)


def _block_labels(drawing: _Drawing) -> Iterator[str]:
    """`h8–h11` at each switch's hosts, or the first one alone, or nothing: what fits at every switch."""
    blocks = drawing.layout.blocks
    room = min((min(b.columns, len(b.hosts)) + 0.4) * drawing.layout.host_gap for b in blocks)
    ends = [(block.hosts[0], block.hosts[-1]) for block in blocks]
    whole = [first if first == last else f"{first}–{last}" for first, last in ends]
    for texts in (whole, [first for first, _ in ends]):
        if SMALL_LETTER * max(map(len, texts)) <= room:
            for block, text in zip(blocks, texts, strict=True):
                x, y = drawing.layout.spots[block.switch].x, drawing.layout.spots[block.hosts[-1]].y
                yield f'<text class="small" x="{x:.1f}" y="{y + block.away * 16:.1f}">{escape(text)}</text>'
            return


def _worst_labels(drawing: _Drawing) -> Iterator[str]:
    """The name and load of the worst link beside the middle of its line."""
    spots = drawing.layout.spots
    for egress in drawing.worst:
        a, b = spots[egress.node], spots[drawing.fabric.peers[egress].node]
        text = f"{link_name(drawing.fabric, egress)} {(drawing.loads or {}).get(egress, 0.0):.2f}"
        reach = LETTER * len(text) / 2 + 8
        x = min(max((a.x + b.x) / 2, reach), drawing.layout.width - reach)
        yield f'<text class="said" x="{x:.1f}" y="{(a.y + b.y) / 2:.1f}">{escape(text)}</text>'


def _legend(drawing: _Drawing, y: float) -> Iterator[str]:
    """Two lines below the drawing: what the shades mean, and each of them."""
    names = [(name, f"load{i}") for i, name in enumerate(SHADE_NAMES)] if drawing.loads is not None else []
    names += [("failed", "failed")] if drawing.failed else []
    if not names:
        return
    if drawing.loads is not None:
        y += 8
        meaning = f"{drawing.load_means}; traffic keeps right"
        yield f'<text class="note" x="{MARGIN}" y="{y:.0f}">{escape(meaning)}</text>'
    x, y = float(MARGIN), y + 18
    for name, style in names:
        yield f'<line class="lane {style}" x1="{x:.0f}" y1="{y:.0f}" x2="{x + 18:.0f}" y2="{y:.0f}"/>'
        yield f'<text class="note" x="{x + 23:.0f}" y="{y:.0f}">{name}</text>'
        x += ENTRY[name]
