"""Alltoalls: each rank has a block of its own for each other rank.

In the first half of a rank's buffer lie what it has for each rank, in the order of the ranks, in the second
half what it gets, likewise.  What is passed on lies in between in room after both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

import numpy as np

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import BlockSizes, block_nbytes
from gradwire.traces.schedules.sends import Edges, Send, Sends


def pairwise_alltoall(nbytes: int, sizes: BlockSizes) -> Sends:
    """Rank r sends each other its block, r+1 first, all posted at once; `sizes[r][d]` is what r has for d.

    S = `nbytes` is the size of either half of the buffer.
    """
    check_ranks("an alltoall", len(sizes))
    blocks = np.array(sizes, np.int64)
    n_ranks = len(blocks)
    src = np.tile(np.arange(n_ranks), n_ranks - 1)
    dst = (src + np.repeat(np.arange(1, n_ranks), n_ranks)) % n_ranks
    at_source = np.cumsum(blocks, axis=1) - blocks
    at_destination = nbytes + np.cumsum(blocks, axis=0) - blocks
    none = Edges.of([()] * len(src))
    return Sends(
        op=np.zeros(len(src), np.int32),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        step=np.zeros(len(src), np.int32),
        offset=at_source[src, dst],
        shift=(at_destination - at_source)[src, dst],
        nbytes=blocks[src, dst],
        reduce=np.zeros(len(src), np.bool_),
        needs=none,
        ready=none,
    ).with_bytes()


def pairwise_s(sizes: BlockSizes, alpha: float, beta: float) -> float:
    """T = alpha + n beta, n the most that a rank sends or gets: (p-1)/p S of blocks of one size; derived."""
    blocks = np.array(sizes, np.int64)
    np.fill_diagonal(blocks, 0)
    return alpha + int(max(blocks.sum(axis=0).max(), blocks.sum(axis=1).max())) * beta


def even(n_ranks: int, nbytes: int) -> BlockSizes:
    """Blocks of one size, of S = `nbytes`; the rest of S stays where it is."""
    return ((block_nbytes(nbytes, n_ranks),) * n_ranks,) * n_ranks


class _Block(NamedTuple):
    """A block's hop: what is read at `place` of the source is written at `target` of the destination."""

    place: int
    target: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where blocks of one size lie in a rank's buffer."""

    n_ranks: int
    nbytes: int  # of either half

    @property
    def block(self) -> int:
        return block_nbytes(self.nbytes, self.n_ranks)

    def own(self, dst: int) -> int:
        """The rank's own block for `dst`, in the first half."""
        return dst % self.n_ranks * self.block

    def due(self, src: int) -> int:
        """That from `src` for the rank, in the second half."""
        return self.nbytes + src % self.n_ranks * self.block

    def room(self, place: int) -> int:
        """One that is handed on, after both."""
        return 2 * self.nbytes + place * self.block


@dataclass
class _Hops:
    """Sends of blocks of `block` bytes, step by step: one where those of a pair lie together at both ends."""

    block: int
    made: list[Send] = field(default_factory=list)
    _n_steps: int = 0

    def next_step(self) -> None:
        """Go on with the step that follows."""
        self._n_steps += 1

    def send(self, src: int, dst: int, blocks: Sequence[_Block]) -> None:
        """Nothing where blocks have no bytes."""
        for run in self._runs(blocks if self.block else ()):
            place, target = run[0]
            nbytes, step = len(run) * self.block, self._n_steps
            self.made.append(Send(0, src, dst, place, nbytes, reduce=False, step=step, shift=target - place))

    def _runs(self, blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
        run: list[_Block] = []
        for block in sorted(blocks):
            if run and (run[-1].place + self.block, run[-1].target + self.block) != block:
                yield run
                run = []
            run.append(block)
        if run:
            yield run


def bruck_alltoall(n_ranks: int, nbytes: int) -> list[Send]:
    """ceil(lg p) steps, each with one partner: in that of bit k rank r sends to rank r + 2^k.

    Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
    IEEE TPDS 1997.  Block i, what rank r has for rank r+i, goes the distances of the bits of i, the highest
    first here: then many of a step's blocks lie together.  Nothing is copied inside a rank, so those that do
    not are a send each.  On its way a block lies by turns in the room after both halves and where the
    rank's own block i has left.
    """
    check_ranks("an alltoall", n_ranks)
    layout = _Layout(n_ranks, nbytes)
    hops = _Hops(layout.block)
    for bit in reversed(range((n_ranks - 1).bit_length())):
        for src in range(n_ranks):
            dst = (src + (1 << bit)) % n_ranks
            blocks = [_bruck_hop(layout, src, dst, each, bit) for each in bruck_blocks(n_ranks, bit)]
            hops.send(src, dst, blocks)
        hops.next_step()
    return hops.made


def _bruck_hop(layout: _Layout, src: int, dst: int, block: int, bit: int) -> _Block:
    """Of the block with this number, over the distance of a bit that it has."""
    in_room = (block >> bit + 1).bit_count() % 2 == 1  # after an odd number of hops
    place = layout.room(block) if in_room else layout.own(src + block)
    if block % (1 << bit) == 0:  # its last
        return _Block(place, layout.due(dst - block))
    return _Block(place, layout.own(dst + block) if in_room else layout.room(block))


def bruck_blocks(n_ranks: int, bit: int) -> tuple[int, ...]:
    """The numbers of the blocks that go this distance: those with the bit set."""
    return tuple(block for block in range(n_ranks) if block >> bit & 1)


def bruck_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = lg p (alpha + S/2 beta), S = p blocks; of other p than powers of two the blocks that do move.

    Thakur, Rabenseifner, Gropp, IJHPCA 2005.
    """
    moved = [len(bruck_blocks(p, bit)) for bit in range((p - 1).bit_length())]
    return sum(alpha + blocks * block_nbytes(nbytes, p) * beta for blocks in moved)


def hierarchical_alltoall(groups: Sequence[Sequence[int]], nbytes: int) -> list[Send]:
    """Two steps: in each group, then between the i-th members of all groups.

    First a member gives each other of its group what it has for that one's line, the members at the same
    place of all groups; a line then exchanges all that its groups have for each other, together where it
    lies together.  So a rank has (m-1) + (g-1) partners in place of p-1, and as much leaves a group as ever.
    """
    group_of = {rank: number for number, group in enumerate(groups) for rank in group}
    check_ranks("an alltoall", len(group_of))
    layout = _Layout(len(group_of), nbytes)
    hops = _Hops(layout.block)
    lines = list(zip(*groups, strict=True))
    for group in groups:
        for (i, src), (j, by) in permutations(enumerate(group), 2):
            targets = [layout.room(number * len(group) + i) for number in range(len(groups))]
            targets[group_of[by]] = layout.due(src)  # its own is there
            hops.send(
                src, by, [_Block(layout.own(dst), to) for dst, to in zip(lines[j], targets, strict=True)]
            )
    hops.next_step()
    for line in lines:
        for by, dst in permutations(line, 2):
            number, group = group_of[dst], groups[group_of[by]]
            places = [layout.room(number * len(group) + i) for i in range(len(group))]
            places[group.index(by)] = layout.own(dst)
            hops.send(by, dst, [_Block(at, layout.due(src)) for src, at in zip(group, places, strict=True)])
    return hops.made


def hierarchical_s(m: int, g: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 alpha + ((m-1) g + (g-1) m) S/p beta of g groups of m, p = mg; derived.

    A rank gives each other of its group g blocks, then each other of its line m.
    """
    return 2 * alpha + ((m - 1) * g + (g - 1) * m) * block_nbytes(nbytes, m * g) * beta
