"""Kinds of operations: what each rank holds before and after one, a contract that every algorithm must keep.

To add a kind is to add an entry to CONTRACTS, beside the names in the files' schemas (CONTRIBUTING.md).
Costs are of n ranks, for S bytes.  What S counts, and bus-bandwidth factors, are NCCL's (nccl-tests,
doc/PERFORMANCE.md): the buffer of an allreduce or a broadcast, the input of a reducescatter or an alltoall,
the output of an allgather.  A collective's pre- and postcondition are MSCCL's way to say what it is (Cowan et
al., MSCCLang, ASPLOS 2023).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Literal, NamedTuple

from gradwire.traces.schedules.dtypes import FLOAT32, DType, element_nbytes

CollectiveKind = Literal["allreduce", "reducescatter", "allgather", "alltoall", "broadcast", "reduce"]
OpKind = CollectiveKind | Literal["topk", "gtopk", "message", "compute"]
ELEMENT_NBYTES = element_nbytes(FLOAT32)  # that algorithms cut; expand makes less of them on the wire
PAIR_NBYTES = 4 + ELEMENT_NBYTES  # of an int32 index and a value


class Held(NamedTuple):
    """A range of a rank's buffer: the sum of what `givers` had at `origin` and on of theirs, before.

    Offsets and sizes in bytes.
    """

    offset: int
    nbytes: int
    givers: tuple[int, ...]
    origin: int


BlockSizes = tuple[tuple[int, ...], ...]


class Parties(NamedTuple):
    """Who takes part in an operation of `nbytes`: `members` and, among them, whose data it is about.

    A member that gives nothing, as a parameter server, helps with an allreduce and is owed nothing.
    `element_nbytes` is of what is added, or cut.  `sizes` are those of an alltoall of uneven blocks: what
    each member has for each; empty: blocks of one size.
    """

    nbytes: int
    members: tuple[int, ...]
    givers: tuple[int, ...]
    root: int
    element_nbytes: int = ELEMENT_NBYTES
    sizes: BlockSizes = ()


Condition = Callable[[Parties, int], tuple[Held, ...]]
"""What a member, by its rank, holds."""
Least = Callable[[Parties, int], tuple[float, float]]
"""The bytes that must go out of a member's host, and come into it, however good the algorithm."""


@dataclass(frozen=True, slots=True)
class Contract:
    """`before` is what a rank has made itself, `after` what it must hold in the end.

    `payload_nbytes(n, S)` is what all ranks send together at least.  With `adds` data are added, so that
    sizes are of whole elements.  With `has_output` a buffer has a second half of S bytes for what comes in.
    With `has_pairs` data are pairs of an index and a value; with `merges` only as many of a sum's are kept,
    so that the order of additions matters.  With `is_rooted` one rank's data, or who gets them, differ from
    others'.  With `in_parts` a rank has, or ends with, one of as many parts as there are ranks; with
    `in_groups` it can be done in each of several groups by itself.  `carries_on` is the kind of the operation
    of which it can carry on what is left.
    """

    before: Condition
    after: Condition
    payload_nbytes: Callable[[int, int], int]
    least: Least | None = None
    is_collective: bool = True
    adds: bool = False
    has_output: bool = False
    sum_is_roots: bool = False
    has_pairs: bool = False
    merges: bool = False
    is_rooted: bool = False
    in_parts: bool = False
    in_groups: bool = False
    carries_on: OpKind | None = None

    def buffer_nbytes(self, nbytes: int) -> int:
        """The buffer of each rank for an operation of this many bytes."""
        return 2 * nbytes if self.has_output else nbytes

    def takers(self, givers: Sequence[int], root: int) -> tuple[int, ...]:
        """Who has the sum at the end, if `givers` are those that have something to add."""
        return (root,) if self.sum_is_roots else tuple(givers)

    def busbw_factor(self, n_ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        ranks = tuple(range(n_ranks))
        return self.busbw_nbytes(Parties(n_ranks, ranks, ranks, 0)) / n_ranks  # a byte in each part

    def busbw_nbytes(self, parties: Parties) -> float:
        """The bytes of bus bandwidth: what must pass the busiest member's host one way."""
        if self.least is None:
            return float(parties.nbytes)
        by_themselves = parties._replace(members=parties.givers)  # whoever else helps
        return max(max(self.least(by_themselves, rank)) for rank in parties.givers)


def chunk_starts(nbytes: int, n_chunks: int) -> list[int]:
    """Where to cut `nbytes` into chunks of whole elements that differ by at most one element.

    Raise ValueError for a size that is not of whole elements.
    """
    elements, rest = divmod(nbytes, ELEMENT_NBYTES)
    if rest:
        raise ValueError(
            f"an allreduce adds {ELEMENT_NBYTES}-byte elements; {nbytes} is not a multiple of "
            f"{ELEMENT_NBYTES}"
        )
    return [elements * i // n_chunks * ELEMENT_NBYTES for i in range(n_chunks + 1)]


def narrowing(dtype: DType) -> int:
    """How many times fewer bytes a number of this type has than the float32 that algorithms cut."""
    return ELEMENT_NBYTES // element_nbytes(dtype)


def piece_cuts(nbytes: int, n_pieces: int, element_nbytes: int = ELEMENT_NBYTES) -> list[int]:
    """Where to cut what is only copied: as `chunk_starts` does; half an element at the end is not refused."""
    elements = nbytes // element_nbytes
    return [*(elements * i // n_pieces * element_nbytes for i in range(n_pieces)), nbytes]


def block_nbytes(nbytes: int, n_ranks: int) -> int:
    """What each rank sends to each in an alltoall; the rest of its S bytes stays where it is."""
    return nbytes // n_ranks


def _nothing(_: Parties, __: int) -> tuple[Held, ...]:
    return ()


def _own(parties: Parties, rank: int) -> tuple[Held, ...]:
    return (Held(0, parties.nbytes, (rank,), 0),) if rank in parties.givers else ()


def _roots(parties: Parties, _: int) -> tuple[Held, ...]:
    return (Held(0, parties.nbytes, (parties.root,), 0),)


def _at_root(parties: Parties, rank: int) -> tuple[Held, ...]:
    return _roots(parties, rank) if rank == parties.root else ()


def _sum(parties: Parties, rank: int) -> tuple[Held, ...]:
    return (Held(0, parties.nbytes, parties.givers, 0),) if rank in parties.givers else ()


def _sum_at_root(parties: Parties, rank: int) -> tuple[Held, ...]:
    return (Held(0, parties.nbytes, parties.givers, 0),) if rank == parties.root else ()


def _chunks(parties: Parties) -> dict[int, tuple[int, int]]:
    """Start and end of each member's chunk."""
    starts = piece_cuts(parties.nbytes, len(parties.members), parties.element_nbytes)
    return dict(zip(parties.members, pairwise(starts), strict=True))


def _own_chunk(parties: Parties, rank: int) -> tuple[Held, ...]:
    start, end = _chunks(parties)[rank]
    return (Held(start, end - start, (rank,), start),)


def _all_chunks(parties: Parties, _: int) -> tuple[Held, ...]:
    chunks = _chunks(parties)
    return tuple(Held(start, end - start, (giver,), start) for giver, (start, end) in chunks.items())


def _summed_chunk(parties: Parties, rank: int) -> tuple[Held, ...]:
    start, end = _chunks(parties)[rank]
    return (Held(start, end - start, parties.givers, start),)


def _blocks(parties: Parties, rank: int) -> tuple[Held, ...]:
    """In the buffer's second half are the blocks for this rank, in the order of the members that have them;
    in the first half each has its own in the order of those that they are for.
    """
    return tuple(_each_block(parties, parties.members.index(rank)))


def _each_block(parties: Parties, place: int) -> Iterator[Held]:
    """See `_blocks`, of the member at this position."""
    if parties.sizes:
        origins = [sum(row[:place]) for row in parties.sizes]
        blocks = [row[place] for row in parties.sizes]
    else:
        block = block_nbytes(parties.nbytes, len(parties.members))
        origins, blocks = [place * block] * len(parties.members), [block] * len(parties.members)
    starts = accumulate(blocks, initial=parties.nbytes)
    return map(Held, starts, blocks, ((giver,) for giver in parties.members), origins)


def _own_and_own_block(parties: Parties, rank: int) -> tuple[Held, ...]:
    """A rank's block for itself is in its place from the beginning."""
    place = parties.members.index(rank)
    return (*_own(parties, rank), next(islice(_each_block(parties, place), place, None)))


def uneven_nbytes(sizes: BlockSizes) -> int:
    """S of an alltoall of these blocks: the most that a rank has, or gets, its own block included."""
    return max(map(sum, (*sizes, *zip(*sizes, strict=True))), default=0)


def _to_all(n_ranks: int, nbytes: int) -> int:
    return (n_ranks - 1) * nbytes


def _all_but_own(parties: Parties, _: int) -> tuple[float, float]:
    n_ranks = len(parties.members)
    return ((n_ranks - 1) * parties.nbytes / n_ranks,) * 2


def _both_halves(parties: Parties, rank: int) -> tuple[float, float]:
    """2(n-1)/n S: Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009.

    Where parameter servers on hosts of their own help, S is enough, in and out of every worker.
    """
    if rank not in parties.givers:
        return 0.0, 0.0
    if len(parties.givers) < len(parties.members):
        return parties.nbytes, parties.nbytes
    out, into = _all_but_own(parties, rank)
    return 2 * out, 2 * into


def _blocks_of_others(parties: Parties, rank: int) -> tuple[float, float]:
    """Without what is left of S where the ranks do not divide it: that is not sent."""
    n_ranks = len(parties.members)
    if not parties.sizes:
        return ((n_ranks - 1) * block_nbytes(parties.nbytes, n_ranks),) * 2
    place = parties.members.index(rank)
    own, column = parties.sizes[place], [row[place] for row in parties.sizes]
    return sum(own) - own[place], sum(column) - own[place]


def _out_of_root(parties: Parties, rank: int) -> tuple[float, float]:
    """S once, whatever the tree: into every other rank, and out of the root."""
    return (parties.nbytes, 0.0) if rank == parties.root else (0.0, parties.nbytes)


def _into_root(parties: Parties, rank: int) -> tuple[float, float]:
    into, out = _out_of_root(parties, rank)
    return out, into


CONTRACTS: dict[OpKind, Contract] = {
    "allreduce": Contract(
        _own, _sum, payload_nbytes=lambda n, nbytes: 2 * (n - 1) * nbytes, least=_both_halves, adds=True
    ),
    "reducescatter": Contract(
        _own, _summed_chunk, _to_all, _all_but_own, adds=True, in_parts=True, in_groups=True
    ),
    "allgather": Contract(
        _own_chunk, _all_chunks, _to_all, _all_but_own, in_parts=True, in_groups=True, carries_on="topk"
    ),
    "alltoall": Contract(
        _own_and_own_block,
        _blocks,
        payload_nbytes=lambda n, nbytes: n * (n - 1) * block_nbytes(nbytes, n),
        least=_blocks_of_others,
        has_output=True,
        in_parts=True,
    ),
    # An allgather of pairs, which every rank then adds up (traces.schedules.algorithms.compression).
    "topk": Contract(
        _own_chunk,
        _all_chunks,
        _to_all,
        _all_but_own,
        has_pairs=True,
        in_parts=True,
        in_groups=True,
        carries_on="reducescatter",
    ),
    # As many pairs as every rank begins with, of all ranks' data.
    "gtopk": Contract(
        _own, _sum, lambda n, nbytes: 2 * (n - 1) * nbytes, adds=True, has_pairs=True, merges=True
    ),
    "broadcast": Contract(_at_root, _roots, _to_all, _out_of_root, is_rooted=True),
    # By hosts, or pushes to one server that switches add up on the way.
    "reduce": Contract(_own, _sum_at_root, _to_all, _into_root, adds=True, sum_is_roots=True, is_rooted=True),
    "message": Contract(_at_root, _roots, lambda _, nbytes: nbytes, is_collective=False, is_rooted=True),
    "compute": Contract(_nothing, _nothing, lambda *_: 0, is_collective=False),
}
