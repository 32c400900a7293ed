"""Allreduces, and their halves, in two dimensions: in groups and across them, or along rows and columns."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.algorithms.ring import (
    Chunk,
    all_gather,
    gather_round,
    reduce_scatter,
    ring,
    scatter_round,
)
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send, Sends

Allreduce = Callable[[int, int], Sequence[Send]]
Groups = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Part:
    """Sends of a phase among `ranks` only, of the bytes from `offset` on; rank i of them is `ranks[i]`."""

    ranks: Sequence[int]
    sends: Sequence[Send]
    offset: int


@dataclass
class _Phases:
    """Phases one after the other, each for all ranks."""

    made: list[Send] = field(default_factory=list)
    n_steps: int = 0

    def phase(self, parts: Sequence[_Part]) -> None:
        for part in parts:
            first = len(self.made)
            for send in part.sends:
                self.made.append(self._placed(send, part, first))
        self.n_steps = max((send.step + 1 for send in self.made), default=self.n_steps)

    def _placed(self, send: Send, part: _Part, first: int) -> Send:
        return replace(
            send,
            src=part.ranks[send.src],
            dst=part.ranks[send.dst],
            offset=part.offset + send.offset,
            needs=tuple(other + first for other in send.needs),
            step=self.n_steps + send.step,
        )


def hierarchical(groups: Groups, nbytes: int, across: Allreduce = ring) -> list[Send]:
    """Reduce-scatter round each group, allreduces across the groups, all-gather round each group.

    Member i of a group adds up chunk i of it, then with member i of all other groups (by `across`).  With
    g groups of m and rings across: 2(m-1) + 2(g-1) steps, 2(p-1)/p S bytes each rank, of which
    2(g-1)/p S leave the group.
    """
    size = _size(groups)
    cut = chunk_starts(nbytes, size)
    phases = _Phases()
    if size > 1:
        phases.phase([_Part(group, reduce_scatter(size, nbytes), 0) for group in groups])
    if len(groups) > 1:
        lines = [tuple(group[i] for group in groups) for i in range(size)]
        phases.phase([_Part(line, _across(across, line, cut, i), cut[i]) for i, line in enumerate(lines)])
    if size > 1:
        phases.phase([_Part(group, all_gather(size, nbytes), 0) for group in groups])
    return phases.made


def hierarchical_reduce_scatter(groups: Groups, nbytes: int) -> list[Send]:
    """Rank r ends with the sum of chunk r: rings of each group, then rings of all groups' i-th members.

    A group's i-th member adds up, in its group, the chunks of the i-th members of all groups: a ring for
    each of them, as they lie apart.  (m-1) + (g-1) steps, (p-1)/p S bytes each rank, of which (g-1)/p S leave
    the group.
    """
    chunks, lines = _chunks_and_lines(groups, chunk_starts(nbytes, _size(groups) * len(groups)))
    phases = _Phases()
    phases.phase([_Part(group, scatter_round(own), 0) for group, own in _in_groups(groups, chunks)])
    phases.phase([_Part(line, scatter_round([chunks[rank] for rank in line]), 0) for line in lines])
    return phases.made


def hierarchical_all_gather(groups: Groups, nbytes: int) -> list[Send]:
    """`hierarchical_reduce_scatter` backwards: rank r begins with chunk r and ends with all."""
    chunks, lines = _chunks_and_lines(groups, piece_cuts(nbytes, _size(groups) * len(groups)))
    phases = _Phases()
    phases.phase([_Part(line, gather_round([chunks[rank] for rank in line]), 0) for line in lines])
    phases.phase([_Part(group, gather_round(own), 0) for group, own in _in_groups(groups, chunks)])
    return phases.made


def _chunks_and_lines(groups: Groups, cut: Sequence[int]) -> tuple[list[Chunk], list[tuple[int, ...]]]:
    """Each rank's chunk, and the i-th members of all groups."""
    return [(begin, end - begin) for begin, end in pairwise(cut)], list(zip(*groups, strict=True))


def _in_groups(groups: Groups, chunks: Sequence[Chunk]) -> Iterator[tuple[Sequence[int], list[Chunk]]]:
    """Each group with the chunks of another's members, its own among them."""
    for group in groups:
        for other in groups:
            yield group, [chunks[rank] for rank in other]


def _across(across: Allreduce, line: Sequence[int], cut: list[int], chunk: int) -> Sends:
    """The allreduce of one chunk, without sends of 0 bytes."""
    return Sends.of(across(len(line), cut[chunk + 1] - cut[chunk])).with_bytes()


def _size(groups: Groups) -> int:
    """The members of each group; raise ValueError for groups that cannot be served."""
    ranks = sorted(rank for group in groups for rank in group)
    check_ranks("a hierarchical allreduce", len(ranks))
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1:
        raise ValueError(
            f"a hierarchical allreduce needs groups of one size, got {sizes[0]} to {sizes[-1]} ranks each"
        )
    if ranks != list(range(len(ranks))):
        raise ValueError(f"groups must have each of the ranks 0 to {len(ranks) - 1} once")
    return sizes[0]


def hierarchical_s(m: int, g: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2(m+g-2) alpha + 2(p-1)/p S beta: both halves."""
    return 2 * half_s(m, g, nbytes, alpha, beta)


def half_s(m: int, g: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = (m+g-2) alpha + (p-1)/p S beta of g groups of m, p = mg; all links are as fast.

    Derived: S/m is left for the g, so (m-1)/m + (g-1)/(mg) = (mg-1)/(mg).
    """
    return (m + g - 2) * alpha + (m * g - 1) / (m * g) * nbytes * beta


def two_d_ring(rows: int, columns: int, nbytes: int) -> list[Send]:
    """`hierarchical` along rows, then columns, of a grid; rank r is in row r div `columns`.

    The bandwidth-optimal form (Ying et al., "Image classification at supercomputer scale", 2018), one send a
    rank at a time: `hierarchical_s(columns, rows, ...)`.
    """
    _check_grid(rows, columns)
    return hierarchical(rows_of(rows, columns), nbytes)


def four_way_ring(rows: int, columns: int, nbytes: int) -> list[Send]:
    """A whole allreduce along one dimension and then along the other, a quarter of the buffer each way.

    The 2D-Ring that MultiTree was compared with (Huang et al., ISCA 2021): two quarters begin along the rows,
    two along the columns, in opposite directions, so that on a square torus all four links of a rank are busy
    and none carries two sends.  About twice the bytes of `two_d_ring`.
    """
    _check_grid(rows, columns)
    cut = chunk_starts(nbytes, 4)
    along = rows_of(rows, columns)
    down = tuple(zip(*along, strict=True))
    phases = _Phases()
    n_first = 0
    for orders in ((along, along, down, down), (down, down, along, along)):
        n_first = len(phases.made)
        phases.phase(
            [
                _Part(
                    line[:: -1 if way % 2 else 1],
                    ring(len(line), cut[way + 1] - cut[way]).with_bytes(),
                    cut[way],
                )
                for way, lines in enumerate(orders)
                for line in lines
                if len(line) > 1
            ]
        )
    return _kept_apart(phases.made, n_first)


def _kept_apart(sends: Sequence[Send], n_first: int) -> list[Send]:
    """A rank begins to send after the first `n_first` when it is done with their last step.

    The bytes do not ask for that; but quarters of unequal chunks would share links.
    """
    last = max((send.step for send in sends[:n_first]), default=0)
    done: defaultdict[int, list[int]] = defaultdict(list)
    for number, send in enumerate(sends[:n_first]):
        if send.step == last:
            done[send.src].append(number)
            done[send.dst].append(number)
    later = (replace(send, needs=(*send.needs, *done[send.src])) for send in sends[n_first:])
    return [*sends[:n_first], *later]


def rows_of(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """The ranks of each row."""
    return tuple(tuple(range(row * columns, (row + 1) * columns)) for row in range(rows))


def _check_grid(rows: int, columns: int) -> None:
    if rows < 1 or columns < 1:
        raise ValueError(f"a grid needs at least 1 row and 1 column, got {rows} and {columns}")
    check_ranks("a grid's rings", rows * columns)


def four_way_ring_s(a: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 4(a-1) (alpha + S/(4a) beta) on an a x a torus whose links each have 1/beta; derived."""
    return 4 * (a - 1) * (alpha + nbytes / (4 * a) * beta)
