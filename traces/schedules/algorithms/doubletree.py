"""An allreduce along two binary trees, each with half of the buffer, in pieces that follow each other.

Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35, 2009; NCCL's double binary tree.  A rank has children in at most one of the trees, so it sends
no more than twice the buffer.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import floor, sqrt
from typing import NamedTuple

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, chunk_starts
from gradwire.traces.schedules.sends import Send


class Edge(NamedTuple):
    """Of tree 0 or 1."""

    tree: int
    parent: int
    child: int


@dataclass(frozen=True)
class _Timing:
    """The step in which piece 0 goes down each edge; the others follow every second step."""

    first: dict[Edge, int]

    def n_steps(self, n_pieces: int) -> int:
        """Steps of one direction."""
        return max(self.first.values()) + 2 * (n_pieces - 1) + 1


def double_binary_tree(n_ranks: int, nbytes: int, n_pieces: int) -> list[Send]:
    """Reduces each piece to its tree's root and spreads it again: at most 4(C+h-1) steps, C pieces a tree.

    In a step a rank sends to one rank at most and receives from one.  A piece goes down as soon as its root
    has the sum.
    """
    check_ranks("a double binary tree", n_ranks)
    if n_pieces < 1:
        raise ValueError(f"a double binary tree needs at least 1 piece for each tree, got {n_pieces}")
    cut = chunk_starts(nbytes, 2 * n_pieces)
    timing = _timing(edges(n_ranks))
    n_steps = timing.n_steps(n_pieces)
    down = [
        (first + 2 * piece, edge, piece) for edge, first in timing.first.items() for piece in range(n_pieces)
    ]
    up = [(n_steps - 1 - step, edge, piece) for step, edge, piece in down]
    sends: list[Send] = []
    into: defaultdict[tuple[int, int, int], tuple[int, ...]] = defaultdict(tuple)  # by tree, piece and rank
    for reduce, begin, directed in ((True, 0, up), (False, n_steps, down)):
        for step, edge, each in sorted(directed):
            piece = each if not reduce else n_pieces - 1 - each  # backwards in time, the last comes first
            src, dst = (edge.child, edge.parent) if reduce else (edge.parent, edge.child)
            place = edge.tree * n_pieces + piece
            size = cut[place + 1] - cut[place]
            if not size:
                continue
            needs = into[edge.tree, piece, src]
            if not reduce:
                into[edge.tree, piece, dst] = (len(sends),)
            else:
                into[edge.tree, piece, dst] = (*into[edge.tree, piece, dst], len(sends))
            sends.append(Send(0, src, dst, cut[place], size, reduce, needs, step=begin + step))
    return sends


def edges(n_ranks: int) -> tuple[Edge, ...]:
    """Those of both trees, parents' edges first.

    The first is a binary tree in order: the parent of position k, counted from 1, has the lowest one bit of k
    moved up by one, or if there is no such position removed.  Odd positions are leaves.  In the second
    tree ranks sit at the mirrored position, or with an odd number of them at the next one.
    """
    found = []
    for tree in (0, 1):
        at: dict[int, int] = {}  # position -> rank
        for rank in range(n_ranks):
            other = n_ranks - 1 - rank if n_ranks % 2 == 0 else (rank + 1) % n_ranks
            at[1 + (other if tree else rank)] = rank
        parent = {position: _parent(position, n_ranks) for position in at}
        root = 1 << (n_ranks.bit_length() - 1)
        level = [root]
        while level:
            below = [
                (up, position)
                for up in level
                for position in at
                if position != root and parent[position] == up
            ]
            found += [Edge(tree, at[up], at[position]) for up, position in below]
            level = [position for _, position in below]
    return tuple(found)


def _parent(position: int, n_ranks: int) -> int:
    low = position & -position
    above = (position ^ low) | low << 1
    return above if above <= n_ranks else position ^ low


def _timing(found: tuple[Edge, ...]) -> _Timing:
    """Each edge sends in even steps or in odd ones, so that no rank sends or receives twice in a step.

    A rank sends down two edges of one tree at most, and receives by one of each tree: so edges that may not
    share a step form paths and even cycles, which two colours are enough for.
    """
    beside: defaultdict[Edge, list[Edge]] = defaultdict(list)
    for edge in found:
        beside[edge] += [other for other in found if edge != other and _meet(edge, other)]
    odd: dict[Edge, int] = {}
    for edge in found:
        todo = [(edge, 0)]
        while todo:
            here, colour = todo.pop()
            if here not in odd:
                odd[here] = colour
                todo += [(other, 1 - colour) for other in beside[here]]
    first: dict[Edge, int] = {}
    came: dict[tuple[int, int], int] = {}  # by tree and rank
    for edge in found:
        step = came.get((edge.tree, edge.parent), -1) + 1
        first[edge] = came[edge.tree, edge.child] = step + (step + odd[edge]) % 2
    return _Timing(first)


def _meet(a: Edge, b: Edge) -> bool:
    return a.parent == b.parent or a.child == b.child


def double_binary_tree_s(
    p: int, nbytes: int, alpha: float, beta: float, n_pieces: float | None = None
) -> float:
    """T = 4(C+h-1) (alpha + S/(2C) beta), h = ceil(lg p), by default with the best C.

    Twice the paper's broadcast, whose pieces pass an edge every second step.
    """
    height = (p - 1).bit_length()
    pieces = best_pieces(p, nbytes, alpha, beta) if n_pieces is None else n_pieces
    return 4 * (pieces + height - 1) * (alpha + nbytes / (2 * pieces) * beta)


def best_pieces(p: int, nbytes: int, alpha: float, beta: float) -> int:
    """The best number of pieces a tree: C = sqrt((h-1) S beta / (2 alpha)), rounded to the better side.

    With it T = 2 S beta + 4(h-1) alpha + 4 sqrt(2(h-1) S alpha beta).  At least 1, at most one element each.
    """
    most = max(1, nbytes // (2 * ELEMENT_NBYTES))
    height = (p - 1).bit_length()
    ideal = sqrt((height - 1) * nbytes * beta / (2 * alpha)) if alpha > 0 else float(most)
    low = min(most, max(1, floor(min(ideal, most))))
    return min(low, min(most, low + 1), key=lambda c: double_binary_tree_s(p, nbytes, alpha, beta, c))
