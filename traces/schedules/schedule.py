"""A schedule: which rank sends which bytes to whom, and what each send waits for.

The unit is the *send*, one chunk from one rank to another (traces.schedules.sends).  Sends belong to
*operations* (a collective, or a point-to-point message); an operation has one buffer of `nbytes` on every
rank that takes part.  What switches add up on the way is not a send but an *aggregation*.  What one rank
computes is an operation too, without a byte: it takes the time of its only gate.  A schedule says nothing of
hosts or links: only what must come before what, and how long a rank computes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from gradwire.traces.components import components
from gradwire.traces.schedules.dtypes import FLOAT32, DType, element_nbytes
from gradwire.traces.schedules.kinds import CONTRACTS, BlockSizes, Contract, OpKind, Parties
from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.outbox import FIFO, Order
from gradwire.traces.schedules.sends import Send, Sends, distinct, totals

LIBRARY_NS = 500_000  # what takes a rank longer between two messages is computing


@dataclass(frozen=True, slots=True)
class Op:
    """A collective, a message, or what a rank computes; its id is its position in `Schedule.ops`.

    With `rendezvous` receivers announce that they are ready only when the source has said that it is.
    `members` are the ranks that take part, ascending (empty: those of its sends and aggregations), `givers`
    those whose data it is about (empty: all members).  `dtype` is of the numbers that it adds up, on the wire
    as well.  `algorithm` is the name of the one that its sends follow, where that is known: empty for gloo's
    own and for a message.  `centre` is of a message that adds to one of `Schedule.centres` or reads it.
    `sizes` are those of an alltoall of uneven blocks (traces.schedules.kinds.Parties).  `room_nbytes` of each
    member's buffer are for data on their way.

    With `groups`, of all members, it is done in each by itself, `nbytes` in each.  Of pairs of an index and a
    value `dense_nbytes` are the size of what they are taken from, and added up into.  It carries on what the
    operation `source` has left at each rank; None: it begins with what the rank has made itself.
    """

    kind: OpKind
    nbytes: int
    tag: int = 0
    root: int = 0  # a broadcast's root, a message's source; who gets a reduce's sum; who computes
    iteration: int = 0
    rendezvous: bool = False
    members: tuple[int, ...] = ()
    givers: tuple[int, ...] = ()
    dtype: DType = FLOAT32
    algorithm: str = ""
    centre: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    dense_nbytes: int = 0
    source: int | None = None
    sizes: BlockSizes = ()
    room_nbytes: int = 0

    @property
    def element_nbytes(self) -> int:
        return element_nbytes(self.dtype)

    @property
    def buffer_nbytes(self) -> int:
        """What each member holds of it; what pairs are added up into comes after them."""
        return self.contract.buffer_nbytes(self.nbytes) + self.dense_nbytes + self.room_nbytes

    @property
    def asked_nbytes(self) -> int:
        """The size of what a job asked for; nothing of what carries on another operation."""
        return 0 if self.source is not None else self.dense_nbytes or self.nbytes

    @property
    def contract(self) -> Contract:
        return CONTRACTS[self.kind]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The whole buffer of `op`, added up by switches: those of `givers` in, the sum out at `takers`.

    A rank is in at most one aggregation of an operation.  If the operation has sends as well, a rank of
    the aggregation sends and receives none of them before it has the sum.  Ranks begin the aggregations of
    one group (the same givers and takers) in the order of their positions in `Schedule.aggregations`.
    """

    op: int
    givers: tuple[int, ...]
    takers: tuple[int, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(sorted({*self.givers, *self.takers}))


@dataclass(frozen=True, slots=True)
class Centre:
    """A buffer of `nbytes` at `rank`, of float32 numbers that are 0 at first: a parameter server's.

    Pushes are added up in it and pulls read it, each all of it: when is what operations wait for.  If it is
    `unordered`, as in Hogwild, a pull may read it while others push (traces.schedules.centres).
    """

    rank: int
    nbytes: int
    unordered: bool = False


MAX_SEND_DELAY_NS = 10_000_000_000

ReduceGroup = tuple[tuple[int, ...], tuple[int, ...]]
"""(givers, takers) of aggregations that share a tree."""


@dataclass(frozen=True, slots=True)
class Gate:
    """`op` may begin at `rank` `gap_ns` after all of `after` (operations) are complete there.

    Of what is computed it is the end that comes then; of what is sent a gap is how late the rank begins.
    Where a capture cannot show when that was, it may have been up to `most_ns` after
    (traces.schedules.latest); None where `gap_ns` is all there is to know.
    """

    op: int
    rank: int
    after: tuple[int, ...] = ()
    gap_ns: int = 0
    most_ns: int | None = None

    @property
    def is_in_turn(self) -> bool:
        """Whether the gap is a library's from one message to the next, as of a message that had to queue when
        it was captured: it begins when what may leave before has been offered to the kernel.
        """
        return self.most_ns is not None and self.gap_ns <= LIBRARY_NS


@dataclass(frozen=True)
class Schedule:
    """All that `n_ranks` ranks send, as a DAG.  A rank without a gate for an op begins it at once.

    What is left open is in which order a rank does what its lock is for; a rank has one lock at most.
    Each send leaves, and each rank begins its part of an aggregation, `send_delay_ns` after it may, as on a
    slow core: what a rank has to do meanwhile is not held up.
    `order` says which of several sends leaves first: "fifo", that which may leave first, or "newest-first"
    (traces.schedules.outbox).
    """

    n_ranks: int
    ops: tuple[Op, ...]
    sends: Sends
    gates: tuple[Gate, ...] = field(default=())
    aggregations: tuple[Aggregation, ...] = field(default=())
    locks: tuple[Lock, ...] = field(default=())
    centres: tuple[Centre, ...] = field(default=())
    send_delay_ns: int = 0
    order: Order = FIFO

    @classmethod
    def of(
        cls,
        n_ranks: int,
        ops: Iterable[Op],
        sends: Iterable[Send],
        gates: Iterable[Gate] = (),
        aggregations: Iterable[Aggregation] = (),
        locks: Iterable[Lock] = (),
        centres: Iterable[Centre] = (),
    ) -> Self:
        """A schedule of sends that are listed one by one."""
        columns = Sends.of(sends)
        return cls(
            n_ranks, tuple(ops), columns, tuple(gates), tuple(aggregations), tuple(locks), tuple(centres)
        )

    @cached_property
    def groups(self) -> tuple[ReduceGroup, ...]:
        """The groups of the aggregations, in the order in which they first appear."""
        return tuple(dict.fromkeys((each.givers, each.takers) for each in self.aggregations))

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The types of what is added up, in the order in which they first appear."""
        return tuple(dict.fromkeys(op.dtype for op in self.ops if op.contract.adds))

    @property
    def payload_nbytes(self) -> int:
        return int(self.sends.nbytes.sum())

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The ranks that take part in each operation, ascending; none for one that sends nothing and does
        not name them.
        """
        ranks: list[set[int]] = [set() for _ in self.ops]
        op = self.sends.op.astype(np.int64)
        for end in (self.sends.src, self.sends.dst):
            for number, rank in zip(*divmod(distinct(op * self.n_ranks + end), self.n_ranks), strict=True):
                ranks[number].add(int(rank))
        for aggregation in self.aggregations:
            ranks[aggregation.op].update(aggregation.members)
        return tuple(op.members or tuple(sorted(each)) for op, each in zip(self.ops, ranks, strict=True))

    def parties(self, op: int) -> tuple[Parties, ...]:
        """Who takes part in an operation, and whose data it is about; of each group, if it has some."""
        made, members = self.ops[op], self.members[op]
        return tuple(
            Parties(made.nbytes, ranks, made.givers or ranks, made.root, made.element_nbytes, made.sizes)
            for ranks in made.groups or (members,)
        )

    def parties_of(self, op: int, rank: int) -> Parties:
        """Those of the rank's group."""
        return next(each for each in self.parties(op) if rank in each.members)

    def centre_of(self, op: int) -> Centre:
        """The centre of an operation that has one."""
        number = self.ops[op].centre
        assert number is not None
        return self.centres[number]

    def is_push(self, op: int) -> bool:
        """Whether an operation that has a centre adds to it; else it reads it."""
        return self.ops[op].root != self.centre_of(op).rank

    @cached_property
    def compressed(self) -> frozenset[int]:
        """The operations of whose sums only the largest go on, as pairs."""
        return frozenset(op.source for op in self.ops if op.contract.has_pairs and op.source is not None)

    @cached_property
    def stages(self) -> frozenset[int]:
        """The operations that are stages of compressed allreduces."""
        carried = {op.source for op in self.ops if op.source is not None}
        return frozenset(
            number
            for number, op in enumerate(self.ops)
            if op.contract.has_pairs or op.source is not None or number in carried
        )

    @cached_property
    def jobs(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each job, ascending: those that exchange anything, directly or through others.

        A rank that sends and receives nothing is in none.
        """
        ranks = sorted({rank for members in self.members for rank in members})
        edges = {(members[0], rank) for members in self.members for rank in members[1:]}
        return tuple(map(tuple, components(ranks, edges)))

    @cached_property
    def job_of(self) -> dict[int, int]:
        """The position in `jobs` of each rank that is in one."""
        return {rank: number for number, ranks in enumerate(self.jobs) for rank in ranks}


def together(schedules: Sequence[Schedule]) -> Schedule:
    """Jobs side by side: each keeps its own order, none waits for another.

    The ranks of the second follow those of the first, and so on.  Their sends have no delay, and leave fifo.
    """
    ops: list[Op] = []
    sends: list[Sends] = []
    gates: list[Gate] = []
    aggregations: list[Aggregation] = []
    locks: list[Lock] = []
    centres: list[Centre] = []
    n_ranks = 0
    for schedule in schedules:
        n_ops = len(ops)
        ops += (
            replace(
                op,
                root=op.root + n_ranks,
                members=tuple(rank + n_ranks for rank in op.members),
                givers=tuple(rank + n_ranks for rank in op.givers),
                centre=None if op.centre is None else op.centre + len(centres),
                groups=tuple(tuple(rank + n_ranks for rank in group) for group in op.groups),
                source=None if op.source is None else op.source + n_ops,
            )
            for op in schedule.ops
        )
        sends.append(schedule.sends.moved(op=n_ops, rank=n_ranks))
        gates += (
            replace(
                gate,
                op=gate.op + n_ops,
                rank=gate.rank + n_ranks,
                after=tuple(other + n_ops for other in gate.after),
            )
            for gate in schedule.gates
        )
        aggregations += (
            Aggregation(
                each.op + n_ops,
                tuple(rank + n_ranks for rank in each.givers),
                tuple(rank + n_ranks for rank in each.takers),
            )
            for each in schedule.aggregations
        )
        locks += (lock.moved(n_ops, n_ranks) for lock in schedule.locks)
        centres += (replace(centre, rank=centre.rank + n_ranks) for centre in schedule.centres)
        n_ranks += schedule.n_ranks
    return Schedule.of(n_ranks, ops, Sends.joined(sends), gates, aggregations, locks, centres)


def longest_quiet_s(schedule: Schedule, rank: int) -> float:
    """How long `rank` may have to wait at most because others compute: all that they compute in two
    iterations, one after the other, for it may wait from the middle of one to the middle of the next.
    """
    computed_ns: Counter[int] = Counter()
    for gate in schedule.gates:
        if gate.rank != rank:
            computed_ns[schedule.ops[gate.op].iteration] += gate.gap_ns
    in_order = [computed_ns[iteration] for iteration in sorted(computed_ns)]
    return max((sum(in_order[place : place + 2]) for place in range(len(in_order))), default=0) / 1e9


def sent_nbytes(schedule: Schedule) -> list[int]:
    """Payload bytes that each rank sends."""
    sent: list[int] = totals(schedule.sends.src, schedule.sends.nbytes, schedule.n_ranks).tolist()
    return sent
