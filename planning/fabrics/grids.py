"""Grids: a switch with one host at each node (x, y), cabled to the nodes beside it; a torus wraps around.

The direct networks of MultiTree (Huang et al., ISCA 2021).  Node (x, y) has the number x * n_y + y, in its
names and in the fabric's order.  There is one cable between two nodes: where a torus has only two nodes in a
row, the cable around would join them a second time and is left out, as in a hypercube.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from gradwire.planning.fabrics.fabric import MAX_RATE_BPS, Fabric
from gradwire.planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size

HOST_TIMES = 4  # as many cables as a node has: its host can keep all of them busy
FIRST_PORT = 2  # after the host's

Cut = tuple[int, tuple[int, ...]]
"""How many cables it severs, and the numbers of the nodes on one side."""


def torus(n_x: int, n_y: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """`links.rate_bps` is that of the cables between switches; a host's cable has four times as much unless
    `links.host_rate_bps` says otherwise.
    """
    return _grid("torus", n_x, n_y, links)


def mesh(n_x: int, n_y: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """A torus without the cables around."""
    return _grid("mesh", n_x, n_y, links)


def _grid(family: str, n_x: int, n_y: int, links: LinkSpec) -> Fabric:
    n_nodes = n_x * n_y
    if n_nodes < 2:
        raise ValueError(f"a {family} needs at least 2 nodes, got x={n_x}, y={n_y}")
    check_size(n_nodes, 3 * n_nodes)
    if links.host_rate_bps is None and HOST_TIMES * links.rate_bps > MAX_RATE_BPS:
        raise ValueError(
            f"the hosts of a {family} have {HOST_TIMES} times the rate of its other cables, and at most 100G:"
            f" give host_rate=, got rate={links.rate_bps} bit/s"
        )
    switches = [f"node{number}" for number in range(n_nodes)]
    nodes = list(product(range(n_x), range(n_y)))
    beside = [_beside(x, y, n_x, n_y, wraps=family == "torus") for x, y in nodes]
    fabric = build(
        family,
        {"x": n_x, "y": n_y},
        switches=switches,
        access=switches,
        between=[(switches[a], switches[b]) for a in range(n_nodes) for b in beside[a] if a < b],
        links=links,
        host_times=HOST_TIMES,
    )
    port = {
        (switches[a], switches[b]): FIRST_PORT + j for a in range(n_nodes) for j, b in enumerate(beside[a])
    }
    inner = [
        replace(link, a_port=port[link.a, link.b], b_port=port[link.b, link.a]) for link in fabric.inner_links
    ]
    return replace(fabric, links=(*fabric.host_links, *inner))


def _beside(x: int, y: int, n_x: int, n_y: int, wraps: bool) -> list[int]:
    """The neighbours of a node in the order of its ports: x - 1, x + 1, y - 1, y + 1.

    MultiTree looks at them in this order; in another its trees take other numbers of steps.
    """
    found = []
    for u, v in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
        if wraps or (0 <= u < n_x and 0 <= v < n_y):
            found.append(u % n_x * n_y + v % n_y)
    return [number for number in dict.fromkeys(found) if number != x * n_y + y]


def least_cuts(n_x: int, n_y: int, wraps: bool) -> Iterator[Cut]:
    """For each number of nodes up to half of them, a cut with that many on one side that severs the fewest
    cables.

    A row or column that has nodes of both sides severs one cable, or two if it closes to a ring.  Say that
    all nodes of a side lie in p rows and q columns, none of them whole: that are p + q such lines, with at
    most p * q nodes.  If some column is whole, and some column of the other side as well, every row is
    severed, and a column more unless the side is made of whole ones.  There is no third case for both sides,
    so the best are rectangles and bands, filled line by line, and what they leave (Bollobás and Leader,
    Edge-isoperimetric inequalities in the grid, Combinatorica 1991).
    """
    n_nodes = n_x * n_y
    for size in range(n_nodes // 2 + 1):
        yield min(
            (severed, tuple(nodes) if count == size else tuple(sorted(set(range(n_nodes)) - set(nodes))))
            for count in {size, n_nodes - size}
            for severed, nodes in _filled(count, n_x, n_y, wraps)
        )


def _filled(count: int, n_x: int, n_y: int, wraps: bool) -> Iterator[tuple[int, list[int]]]:
    """The best rectangle or band of columns and of rows, filled with the first `count` nodes."""
    in_x, in_y = _severed_in_line(n_x, wraps), _severed_in_line(n_y, wraps)
    severed, width = _best_width(count, n_x, n_y, in_x, in_y)
    yield severed, [i // width * n_y + i % width for i in range(count)]
    severed, width = _best_width(count, n_y, n_x, in_y, in_x)
    yield severed, [i % width * n_y + i // width for i in range(count)]


def _severed_in_line(length: int, wraps: bool) -> int:
    return 0 if length == 1 else 2 if wraps and length > 2 else 1


def _best_width(count: int, n_lines: int, length: int, across: int, along: int) -> tuple[int, int]:
    """(cables severed, nodes taken of each line before the next one is begun): the fewest cables.

    There are `n_lines` of `length` nodes.  A line that is severed costs `along`, one across it `across`.
    """
    best = n_lines * length * (across + along), length
    for width in range(
        length, max(0, -(-count // n_lines) - 1), -1
    ):  # whole lines first: few runs of numbers
        rest = count % width
        n_used = -(-count // width)
        n_along = n_used if width < length else int(rest > 0)
        n_across = min(width, count) if n_used < n_lines else (width - rest) % width
        if along * n_along + across * n_across < best[0]:
            best = along * n_along + across * n_across, width
    return best
