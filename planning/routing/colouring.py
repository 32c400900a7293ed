"""Edge colouring of a bipartite multigraph, such that every vertex has every colour equally often.

With switches as vertices, flows as edges and the switches above them as colours, that is the spreading
of flows that loads no cable more than it must: one flow each where there are as many colours as flows
at a switch (König, Math. Ann. 77, 1916), the quotient rounded up in general (de Werra, INFOR 9, 1971).
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

FREE = -1


def balanced_colours(edges: Sequence[tuple[Hashable, Hashable]], n_colours: int, first: int = 0) -> list[int]:
    """A colour below `n_colours` for each edge (left, right), each at every vertex as often as any other, or
    once more.

    Edges that come first are the more important: of every `n_colours` that follow each other at a vertex
    no two have one colour, so with the largest first no colour gets all the large ones.  `first` turns
    the choice among colours that would do equally well.
    """
    ends = _cut_vertices(edges, n_colours)
    n_vertices = 1 + max((max(end) for end in ends), default=FREE)
    used = [[FREE] * n_colours for _ in range(n_vertices)]  # [vertex][colour] -> edge
    colours = [FREE] * len(ends)
    for edge, (left, right) in enumerate(ends):
        colour = _common(used[left], used[right], (first + edge) % n_colours)
        if colour == FREE:
            colour, other = used[left].index(FREE), used[right].index(FREE)
            _swap(used, colours, ends, right, colour, other)
        colours[edge] = colour
        used[left][colour] = used[right][colour] = edge
    return colours


def _cut_vertices(edges: Sequence[tuple[Hashable, Hashable]], degree: int) -> list[tuple[int, int]]:
    """The edges with every vertex cut in as many as it takes to have at most `degree` edges each."""
    numbers: dict[tuple[bool, Hashable, int], int] = {}
    seen: defaultdict[tuple[bool, Hashable], int] = defaultdict(int)

    def part(is_right: bool, vertex: Hashable) -> int:
        count = seen[is_right, vertex]
        seen[is_right, vertex] += 1
        return numbers.setdefault((is_right, vertex, count // degree), len(numbers))

    return [(part(False, left), part(True, right)) for left, right in edges]  # noqa: FBT003


def _common(left: Sequence[int], right: Sequence[int], first: int) -> int:
    """The first colour from `first` on, in a circle, that is free at both ends; FREE if none is."""
    n_colours = len(left)
    for step in range(n_colours):
        colour = (first + step) % n_colours
        if left[colour] == right[colour] == FREE:
            return colour
    return FREE


def _swap(
    used: list[list[int]],
    colours: list[int],
    ends: Sequence[tuple[int, int]],
    start: int,
    colour: int,
    other: int,
) -> None:
    """Swap two colours along the path of their edges that begins at `start`, where `other` is free.

    Then `colour` is free there.  The path cannot reach the left vertex at which `colour` is free: it
    would arrive there by an edge of that very colour.
    """
    chain = []
    vertex, wanted = start, colour
    while used[vertex][wanted] != FREE:
        edge = used[vertex][wanted]
        chain.append(edge)
        vertex = ends[edge][0] if ends[edge][1] == vertex else ends[edge][1]
        wanted = other if wanted == colour else colour
    for edge in chain:
        for end in ends[edge]:
            used[end][colours[edge]] = FREE
    for edge in chain:
        colours[edge] = other if colours[edge] == colour else colour
        for end in ends[edge]:
            used[end][colours[edge]] = edge
