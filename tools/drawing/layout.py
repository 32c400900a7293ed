"""The layout and look of a fabric's drawing: hosts in blocks at their switch, switches in rows by level.

A torus and a mesh are drawn as the grids that they are.

Light: ColorBrewer's BuPu, then vermilion; dark: a cut of inferno, then sky blue.  In both, luminance alone
shows the order, so the ramp reads the same with any kind of colour vision; what failed is dashed as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch

GRIDS = ("torus", "mesh")
MARGIN = 48
WIDEST = 1104  # of the part between the margins
LETTER = 7.0  # how wide a letter of 11 pixels' height is, at most
SWITCH_HEIGHT = 22
MAX_SWITCH_WIDTH = 64
MAX_HOST_GAP, LEAST_HOST_GAP = 54.0, 7.5
MAX_HOST_RADIUS = 7.0
HOST_ROW_GAP = 74
MANY_CABLES = 60  # between two rows of switches: they need more height
ROW_GAP, TALL_ROW_GAP = 112, 200
GRID_GAP, LEAST_GRID_GAP = 120.0, 52.0  # between switches of a torus or a mesh
GRID_SWITCH_SHARE = 0.55  # of the gap; the rest shows the cable
GRID_HOST_SHARE = 0.36  # of the gap, to the right of and below its switch
STYLE = """
.gw-fabric{color:#1d2129;--paper:#fff;font:11px system-ui,sans-serif;max-width:100%;height:auto}
.gw-fabric .paper{fill:var(--paper)}
.gw-fabric text{fill:currentColor;text-anchor:middle;dominant-baseline:central}
.gw-fabric text.note{text-anchor:start}
.gw-fabric text.small{font-size:10px;fill-opacity:.8}
.gw-fabric text.said{font-weight:600;stroke:var(--paper);stroke-width:4px;paint-order:stroke}
.gw-fabric .switch{fill:#eef1f6;stroke:#6b7280}
.gw-fabric .host{fill:var(--paper);stroke:currentColor;stroke-opacity:.7}
.gw-fabric .hit{stroke:#000;stroke-opacity:0;stroke-width:7;fill:none}
.gw-fabric .lane{stroke-linecap:round;fill:none}
.gw-fabric .worst{stroke:#d55e00;stroke-opacity:.45;stroke-width:12;stroke-linecap:round;fill:none}
.gw-fabric .plain{stroke:#8a93a3;stroke-width:1.2}
.gw-fabric .load0{stroke:#ccd3dd;stroke-width:1.2}
.gw-fabric .load1{stroke:#9ebcda;stroke-width:1.8}
.gw-fabric .load2{stroke:#8c96c6;stroke-width:2.4}
.gw-fabric .load3{stroke:#88419d;stroke-width:3}
.gw-fabric .load4{stroke:#4d004b;stroke-width:3.4}
.gw-fabric .load5{stroke:#d55e00;stroke-width:4}
.gw-fabric .failed{stroke:#d7191c;stroke-width:2;stroke-dasharray:6 5;stroke-linecap:butt}
.gw-fabric.dense .hit{stroke-width:3}
.gw-fabric.dense .plain{stroke-width:.7;stroke-opacity:.6}
.gw-fabric.dense .load0{stroke-width:.6}
.gw-fabric.dense .load1{stroke-width:.7;stroke-opacity:.8}
.gw-fabric.dense .load2{stroke-width:1;stroke-opacity:.8}
.gw-fabric.dense .load3{stroke-width:1.3;stroke-opacity:.85}
.gw-fabric.dense .load4{stroke-width:1.6}
.gw-fabric.dense .load5{stroke-width:2.2}
.gw-fabric.dense .worst{stroke-width:8}
.gw-fabric g:hover>.lane{stroke-width:5;stroke-opacity:1}
@media screen and (prefers-color-scheme:dark){
.gw-fabric{color:#e4e7ec;--paper:#14171d}
.gw-fabric .switch{fill:#262b35;stroke:#9aa3b2}
.gw-fabric .worst{stroke:#56b4e9}
.gw-fabric .load0{stroke:#414957}
.gw-fabric .load1{stroke:#7d2f6d}
.gw-fabric .load2{stroke:#c43c4e}
.gw-fabric .load3{stroke:#f37819}
.gw-fabric .load4{stroke:#fcc92b}
.gw-fabric .load5{stroke:#56b4e9}
.gw-fabric .failed{stroke:#ff8a80}
}
"""


@dataclass(frozen=True, slots=True)
class Spot:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class HostBlock:
    """The hosts of one switch, `columns` beside each other; `away` is 1 below the switch, -1 above it."""

    switch: str
    hosts: tuple[str, ...]
    columns: int
    away: int


@dataclass(frozen=True)
class DrawingLayout:
    """`host_gap` is between neighbouring hosts, `rows` are of switches, from the top; `grid_gap` is between
    neighbouring switches where these are drawn as a grid, else 0.
    """

    spots: Mapping[str, Spot]
    rows: tuple[tuple[str, ...], ...]
    blocks: tuple[HostBlock, ...]
    host_gap: float
    width: float
    height: float
    grid_gap: float = 0.0

    @property
    def host_radius(self) -> float:
        return min(MAX_HOST_RADIUS, self.host_gap * 0.36)

    def row_step(self, row: Sequence[str]) -> float:
        """How much of a row each of its switches has for itself."""
        if self.grid_gap:
            return self.grid_gap * GRID_SWITCH_SHARE
        steps = [abs(self.spots[a].x - self.spots[b].x) for a, b in pairwise(row)]
        return min(steps, default=self.width - 2 * MARGIN)


def layout(fabric: Fabric, least_width: float) -> DrawingLayout:
    """Raise ValueError for a switch that no cable joins to a host."""
    if fabric.family in GRIDS:
        return _grid(fabric, least_width)
    hosts_of: dict[str, list[str]] = {}
    for host in fabric.hosts:
        hosts_of.setdefault(access_switch(fabric, host), []).append(host)
    rows = _two_layers(fabric, hosts_of) or _levels(fabric, hosts_of)
    with_hosts = [[switch for switch in row if switch in hosts_of] for row in rows]
    most = max(sum(len(hosts_of[switch]) for switch in row) for row in with_hosts)
    deep = max(1, -int(-most * LEAST_HOST_GAP // WIDEST))  # lines of hosts, if one is too long
    columns = {switch: -(-len(hosts) // deep) for switch, hosts in hosts_of.items()}
    units = max(sum(columns[switch] for switch in row) + (len(row) - 1) * 0.4 for row in with_hosts if row)
    host_gap = min(MAX_HOST_GAP, WIDEST / units)
    width = max(least_width, host_gap * units + 2 * MARGIN)
    spots: dict[str, Spot] = {}
    blocks: list[HostBlock] = []
    y = float(MARGIN)
    for number, row in enumerate(rows):
        above = number == 0 and len(rows) > 1 and bool(with_hosts[0])
        block_height = HOST_ROW_GAP + (deep - 1) * host_gap if with_hosts[number] else 0.0
        y += block_height if above else 0.0
        xs = _row_xs(row, columns, width)
        spots |= {switch: Spot(x, y) for switch, x in xs.items()}
        for switch in with_hosts[number]:
            block = HostBlock(switch, tuple(hosts_of[switch]), columns[switch], -1 if above else 1)
            blocks.append(block)
            spots |= _host_spots(block, spots[switch], host_gap)
        y += 0.0 if above else block_height
        if number < len(rows) - 1:
            y += _row_gap(fabric, row, rows[number + 1])
    return DrawingLayout(spots, tuple(rows), tuple(blocks), host_gap, width, y + MARGIN)


def _grid(fabric: Fabric, least_width: float) -> DrawingLayout:
    """Node (x, y) in column x and row y, with room for the cables around at the left and the top."""
    n_x, n_y = fabric.shape["x"], fabric.shape["y"]
    gap = min(GRID_GAP, max(LEAST_GRID_GAP, WIDEST / n_x))
    left = max(MARGIN + gap, (least_width - gap * (n_x - 1)) / 2)
    top = MARGIN + gap / 2
    spots = {
        switch: Spot(left + number // n_y * gap, top + number % n_y * gap)
        for number, switch in enumerate(fabric.switches)
    }
    blocks = []
    for switch, host in zip(fabric.switches, fabric.hosts, strict=True):
        beside = gap * GRID_HOST_SHARE
        spots[host] = Spot(spots[switch].x + beside, spots[switch].y + beside)
        blocks.append(HostBlock(switch, (host,), 1, 1))
    return DrawingLayout(
        spots,
        tuple(fabric.switches[y::n_y] for y in range(n_y)),
        tuple(blocks),
        host_gap=gap / 2,
        width=2 * left + gap * (n_x - 1),
        height=top + gap * n_y + MARGIN / 2,
        grid_gap=gap,
    )


def _row_xs(row: Sequence[str], columns: Mapping[str, int], width: float) -> dict[str, float]:
    """The middles of a row's switches, each with as much room as its hosts need."""
    weights = [columns.get(switch, 0) + 0.4 for switch in row]
    scale, x, xs = (width - 2 * MARGIN) / sum(weights), float(MARGIN), {}
    for switch, weight in zip(row, weights, strict=True):
        xs[switch] = x + weight * scale / 2
        x += weight * scale
    return xs


def _host_spots(block: HostBlock, at: Spot, gap: float) -> dict[str, Spot]:
    spots = {}
    for i, host in enumerate(block.hosts):
        line, column = divmod(i, block.columns)
        x = at.x + (column - (min(block.columns, len(block.hosts)) - 1) / 2) * gap
        spots[host] = Spot(x, at.y + block.away * (HOST_ROW_GAP + line * gap))
    return spots


def _row_gap(fabric: Fabric, row: Sequence[str], below: Sequence[str]) -> int:
    ends = set(below)
    n_cables = sum(peer in ends for switch in row for peer in fabric.neighbours[switch].values())
    return TALL_ROW_GAP if n_cables > MANY_CABLES else ROW_GAP


def _two_layers(fabric: Fabric, hosts_of: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Both layers of a BiGraph, or whatever is cabled like one: all switches have hosts, and there are two
    groups without a cable inside.  Empty if it is not such a fabric.
    """
    if len(fabric.switches) < 2 or len(hosts_of) < len(fabric.switches):
        return []
    layer = {fabric.switches[0]: 0}
    waiting = [fabric.switches[0]]
    while waiting:
        switch = waiting.pop()
        for peer in fabric.neighbours[switch].values():
            if peer in fabric.host_set:
                continue
            if peer not in layer:
                layer[peer] = 1 - layer[switch]
                waiting.append(peer)
            elif layer[peer] == layer[switch]:
                return []
    if len(layer) < len(fabric.switches):
        return []
    return [tuple(switch for switch in fabric.switches if layer[switch] == number) for number in (0, 1)]


def _levels(fabric: Fabric, hosts_of: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Switches by their distance from the hosts, the furthest on top."""
    rows = [tuple(switch for switch in fabric.switches if switch in hosts_of)]
    placed = set(rows[0])
    while len(placed) < len(fabric.switches):
        above = {peer for node in rows[0] for peer in fabric.neighbours[node].values()}
        above -= placed | fabric.host_set
        if not above:
            raise ValueError(f"{fabric.spec} cannot be drawn: no cables join one of its switches to a host")
        rows.insert(0, tuple(switch for switch in fabric.switches if switch in above))
        placed |= above
    return rows
