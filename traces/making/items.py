"""Builds a made-up workload: adds its items one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from gradwire.traces.schedules.kinds import (
    ELEMENT_NBYTES,
    BlockSizes,
    CollectiveKind,
    chunk_starts,
    uneven_nbytes,
)
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import (
    MAX_NBYTES,
    MAX_RANKS,
    SCHEMA,
    Collective,
    Compute,
    Item,
    Message,
    Start,
    Workload,
)

MAX_MADE_ITEMS = 200_000
MAX_NUMBERS = 4_000_000  # of items that others wait for, and of blocks: 8 bytes each, in a file about as much
FEWER = "choose fewer workers, servers, layers, parts or iterations"
Ids = tuple[int, ...]
Role = Literal["push", "pull"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Access:
    """A push that adds to a server's buffer of this number, or a pull that reads it; while others push, if
    that is `unordered`.
    """

    role: Role
    centre: int
    unordered: bool = False


def cut(nbytes: int, n_parts: int) -> list[int]:
    """The sizes of parts of whole elements that differ by at most one.

    Raise ValueError for bytes that are not whole elements, and for less than an element in each part.
    """
    if nbytes < n_parts * ELEMENT_NBYTES:
        raise ValueError(
            f"{nbytes} bytes cannot be cut into {n_parts:,} parts of at least {ELEMENT_NBYTES} bytes: "
            "choose more bytes, or fewer layers, parts or servers"
        )
    return [end - start for start, end in pairwise(chunk_starts(nbytes, n_parts))]


def shared_out(nbytes: int, shares: Sequence[int]) -> list[int]:
    """The sizes of parts of whole elements, in proportion to `shares`.

    Raise ValueError for bytes that are not whole elements, and for less than an element in a part.
    """
    elements, total = sum(cut(nbytes, 1)) // ELEMENT_NBYTES, sum(shares)
    ends = [elements * sum(shares[:place]) // (total or 1) for place in range(len(shares) + 1)]
    if any(start == end for start, end in pairwise(ends)):
        raise ValueError(
            f"{nbytes} bytes shared out as {', '.join(map(str, shares))} leave a part without an element: "
            "choose shares above 0, or more bytes"
        )
    return [(end - start) * ELEMENT_NBYTES for start, end in pairwise(ends)]


class Items:
    """Each `add_…` appends an item and returns its id; what items wait for are ids of earlier ones.

    Raise ValueError for more ranks than a schedule may have, if more than MAX_MADE_ITEMS are to come, and for
    more than MAX_NUMBERS.
    """

    def __init__(self, n_ranks: int, n_items: int) -> None:
        if n_ranks > MAX_RANKS:
            raise ValueError(f"the job would have {n_ranks:,} ranks; gradwire plans at most {MAX_RANKS:,}")
        if n_items > MAX_MADE_ITEMS:
            raise ValueError(
                f"the job would have {n_items:,} messages, collectives and computes, and at most "
                f"{MAX_MADE_ITEMS:,} are possible: {FEWER}"
            )
        self._n_ranks = n_ranks
        self._items: list[Item] = []
        self._n_numbers = 0

    def add_compute(self, rank: int, duration_ns: int, after: Ids, iteration: int) -> int:
        start = Start(rank=rank, after=after)
        return self._add(Compute(start=start, duration_ns=duration_ns, iteration=iteration), len(after))

    def add_message(
        self,
        src: int,
        dst: int,
        nbytes: int,
        after: Ids,
        iteration: int,
        access: Access | None = None,
        received_after: Ids = (),
        lock_until: int | None = None,
    ) -> int:
        """The receiver is prepared for it when it has completed `received_after`; with `lock_until` it takes
        the receiver's lock until that item is complete there.
        """
        if nbytes > MAX_NBYTES:
            raise ValueError(f"a message would have {nbytes:,} bytes; at most {MAX_NBYTES:,} are possible")
        ready = Start(rank=dst, after=received_after) if received_after else None
        message = Message(
            tag=len(self._items),
            src=src,
            dst=dst,
            nbytes=nbytes,
            iteration=iteration,
            role=access.role if access else "other",
            start=Start(rank=src, after=after),
            ready=ready,
            lock_until=lock_until,
            centre=access.centre if access else None,
            unordered=access is not None and access.unordered,
        )
        return self._add(message, len(after) + len(received_after))

    def add_messages(
        self,
        src: int,
        dst: int,
        sizes: Sequence[int],
        after: Ids,
        iteration: int,
        access: Access,
        lock_until: int | None = None,
    ) -> Ids:
        """A message of each size, and each of them when the one before it has arrived; the last one's id.

        The buffers that they access are numbered from that of `access` on.  The first one may take a lock.
        """
        received: Ids = ()
        for place, nbytes in enumerate(sizes):
            each = replace(access, centre=access.centre + place)
            until = lock_until if not place else None
            number = self.add_message(src, dst, nbytes, after, iteration, each, received, until)
            after = received = (number,)
        return after

    @property
    def next_id(self) -> int:
        """Of the item that is added next."""
        return len(self._items)

    def add_allreduce(self, nbytes: int, after: Sequence[Ids], iteration: int) -> int:
        """Of all ranks; `after` has what each of them waits for.  Along a binomial tree as it is."""
        starts = tuple(Start(rank=rank, after=ids) for rank, ids in enumerate(after))
        collective = Collective(
            kind="allreduce",
            tag=len(self._items),
            nbytes=nbytes,
            algorithm="reduce-broadcast",
            up="binomial",
            down="binomial",
            iteration=iteration,
            starts=starts,
        )
        return self._add(collective, sum(map(len, after)))

    def add_collective(self, kind: CollectiveKind, nbytes: int, after: Sequence[Ids], iteration: int) -> int:
        """Of all ranks, by its kind's usual algorithm unless a plan chooses another; `after` as there."""
        starts = tuple(Start(rank=rank, after=ids) for rank, ids in enumerate(after))
        collective = Collective(
            kind=kind, tag=len(self._items), nbytes=nbytes, iteration=iteration, starts=starts
        )
        return self._add(collective, sum(map(len, after)))

    def add_alltoall(self, sizes: BlockSizes, after: Sequence[Ids], iteration: int) -> list[Ids]:
        """`sizes[r][d]` is what rank r has for rank d.  Returns what each rank is to wait for."""
        nbytes = uneven_nbytes(sizes)
        if nbytes > MAX_NBYTES:
            raise ValueError(f"an alltoall would have {nbytes:,} bytes; at most {MAX_NBYTES:,} are possible")
        is_even = len({size for row in sizes for size in row}) == 1
        collective = Collective(
            kind="alltoall",
            tag=len(self._items),
            nbytes=nbytes,
            sizes=() if is_even else sizes,
            iteration=iteration,
            starts=tuple(Start(rank=rank, after=ids) for rank, ids in enumerate(after)),
        )
        n_numbers = sum(map(len, after)) + (0 if is_even else len(sizes) ** 2)
        return [(self._add(collective, n_numbers),)] * len(after)

    def workload(self, source: str, taxonomy: Taxonomy) -> Workload:
        """All that has been added; `source` says in words what was made."""
        return Workload(
            schema=SCHEMA,
            framing="none",
            n_ranks=self._n_ranks,
            source=source,
            taxonomy=taxonomy,
            items=tuple(self._items),
        )

    def _add(self, item: Item, n_numbers: int) -> int:
        self._n_numbers += n_numbers
        if self._n_numbers > MAX_NUMBERS:
            raise ValueError(
                f"the job would have more than {MAX_NUMBERS:,} waits of one item for another, and sizes of "
                f"blocks of alltoalls: {FEWER}"
            )
        self._items.append(item)
        return len(self._items) - 1
