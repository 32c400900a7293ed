"""What compressed allreduces do at a rank between their sends, and what must come of it.

A rank's own numbers are drawn from its rank, so that each has other ones that are largest; they are integers
whose sums are exact, so that the order of additions does not matter.
"""

from collections.abc import Sequence

import numpy as np

from gradwire.emu.replay.pairs import Bytes, Floats, add_pairs, merge_pairs, packed
from gradwire.traces.schedules.algorithms.trees import parents
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, PAIR_NBYTES
from gradwire.traces.schedules.schedule import Schedule

_LARGEST = 1 << 14  # 512 ranks' sum is below 2^24


def gradients(op: int, rank: int, numbers: slice) -> Floats:
    """What a rank has made itself for an operation by its number: any part of it, as mixed bits of indices.

    MurmurHash3's finaliser (Appleby), as far as 15 bits ask for it.
    """
    mixed = np.arange(numbers.start, numbers.stop, dtype=np.uint32) * np.uint32(0x9E3779B1)
    mixed += np.uint32((op * 0x27D4EB2F + rank * 0x165667B1) & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    made: Floats = (mixed % np.uint32(2 * _LARGEST + 1)).astype(np.float32)
    made -= np.float32(_LARGEST)
    return made


class Compression:
    """The operation `number` of a schedule, with pairs: what ranks must send in it, and have in the end."""

    def __init__(self, schedule: Schedule, number: int) -> None:
        self._schedule, self._number, self._op = schedule, number, schedule.ops[number]

    def n_kept(self) -> int:
        """The pairs of each rank."""
        n_ranks = len(self._schedule.parties(self._number)[0].members)
        return self._op.nbytes // PAIR_NBYTES // (1 if self._op.contract.merges else n_ranks)

    def shard(self, rank: int) -> slice:
        """Of which numbers a rank sends the largest, and has the sum in the end."""
        source = self._op.source
        if source is None:
            return slice(0, self._op.dense_nbytes // ELEMENT_NBYTES)
        (held,) = self._schedule.ops[source].contract.after(self._schedule.parties_of(source, rank), rank)
        return slice(held.offset // ELEMENT_NBYTES, (held.offset + held.nbytes) // ELEMENT_NBYTES)

    def given(self, rank: int) -> Floats:
        """The numbers of which a rank sends the largest: its own, or the sum of its group."""
        source, shard = self._op.source, self.shard(rank)
        if source is None:
            return gradients(self._number, rank, shard)
        return summed_gradients(source, self._schedule.parties_of(source, rank).givers, shard)

    def pairs(self, rank: int) -> Bytes:
        """What a rank has selected itself."""
        return packed(self.given(rank), self.n_kept(), self.shard(rank).start)

    def merged(self) -> Bytes:
        """What is left of all ranks' pairs when they have been merged along gTop-k's tree."""
        members = self._schedule.members[self._number]
        made = [self.pairs(rank) for rank in members]
        for child, parent in reversed(parents("binomial", len(members)).items()):
            merge_pairs(made[parent], made[child])
        return made[0]

    def result(self, rank: int) -> Floats:
        """The sum of the pairs that a rank must have in the end, of its shard."""
        dense = np.zeros(self._op.dense_nbytes // ELEMENT_NBYTES, np.float32)
        if self._op.contract.merges:
            add_pairs(dense, self.merged())
            return dense
        for other in self._schedule.parties_of(self._number, rank).members:
            add_pairs(dense, self.pairs(other))
        return dense[self.shard(rank)]

    def add_up(self, buffers: dict[int, Bytes]) -> None:
        """Add up all pairs, into the room after them in the buffer."""
        pairs, dense = np.split(buffers[self._number], [self._op.nbytes])
        add_pairs(dense.view(np.float32), pairs)

    def pack(self, rank: int, buffers: dict[int, Bytes]) -> None:
        """Put the largest of what the source has left at a rank into its own pairs."""
        assert self._op.source is not None
        shard, n_kept = self.shard(rank), self.n_kept()
        numbers = buffers[self._op.source].view(np.float32)[shard]
        place = self._schedule.parties_of(self._number, rank).members.index(rank)
        nbytes = n_kept * PAIR_NBYTES
        buffers[self._number][place * nbytes : (place + 1) * nbytes] = packed(numbers, n_kept, shard.start)

    def unpack(self, rank: int, buffers: dict[int, Bytes], into: int) -> None:
        """Give a rank's sum to the operation `into`, which carries it on."""
        shard = self.shard(rank)
        dense = buffers[self._number][self._op.nbytes :].view(np.float32)
        buffers[into].view(np.float32)[shard] = dense[shard]


def summed_gradients(op: int, ranks: Sequence[int], numbers: slice) -> Floats:
    """The sum of what these ranks have made themselves."""
    made = gradients(op, ranks[0], numbers)
    for rank in ranks[1:]:
        made += gradients(op, rank, numbers)
    return made


class Compressing:
    """A rank's part in what a schedule compresses: what it does itself when it is done with an operation."""

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self._rank = rank
        self._ops = {
            number: Compression(schedule, number)
            for number, op in enumerate(schedule.ops)
            if op.contract.has_pairs and rank in schedule.members[number]
        }
        self._next = {
            op.source: number
            for number, op in enumerate(schedule.ops)
            if op.source is not None and rank in op.members
        }

    def done(self, op: int, buffers: dict[int, Bytes]) -> None:
        """The operation's sends and receives at this rank are over."""
        following = self._next.get(op)
        if op in self._ops:
            self._ops[op].add_up(buffers)
            if following is not None:
                self._ops[op].unpack(self._rank, buffers, following)
        elif following is not None:
            self._ops[following].pack(self._rank, buffers)
