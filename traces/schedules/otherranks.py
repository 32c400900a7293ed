"""A job with another number of ranks, as DDP's or a parameter server's would be.

Assumed is what data parallelism with a fixed batch per rank says: each rank computes as long as before, and
buffers, buckets and the gaps between them stay.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from gradwire.traces.schedules.buckets import rebucketed
from gradwire.traces.schedules.other import Other
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.schedules.selection import bridged
from gradwire.traces.units import show_first
from gradwire.traces.workload import (
    MAX_ITEMS,
    MAX_RANKS,
    Collective,
    Compute,
    Item,
    Message,
    Start,
    Workload,
    has_lock,
)

Place = tuple[int, int]
"""A captured rank, and the number of its copy: 0 for itself."""


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Rank r of the job that is made is like `places[r]`; `number_of` is the reverse."""

    servers: frozenset[int]
    places: tuple[Place, ...]
    number_of: Mapping[Place, int]

    def copies(self, captured: int) -> list[int]:
        """The numbers of the copies of a captured rank that there are, 0 first."""
        return [copy for rank, copy in self.places if rank == captured]


def with_ranks(workload: Workload, n_ranks: int) -> Other:
    """The job on `n_ranks` ranks, without its set-up; `workload` itself if it has as many.

    Parameter servers stay; of the others the k-th new rank does, at the same places, what the k-th captured
    one did, and after the last one they begin again with the first.  With fewer ranks the last ones are left
    out.  What a server waited for from one worker, or gave it, it does for all that are like it.
    Raise ValueError for a job of which that says nothing: messages between workers, servers that answer the
    worker that comes first, and for a number of ranks that cannot be.
    """
    if not 2 <= n_ranks <= MAX_RANKS:
        raise ValueError(f"gradwire plans jobs of 2 to {MAX_RANKS:,} ranks, not of {n_ranks:,}")
    if n_ranks == workload.n_ranks:
        return Other(workload)
    training = _training(workload)
    ranks = _ranks(workload, training.values(), n_ranks)
    stays = {captured for captured, _ in ranks.places}.issuperset
    bridges = bridged(
        workload.items, {number: item for number, item in training.items() if stays(_own(item))}
    )
    copies = _Copies({number: item for number, item in bridges.items() if stays(_own(item))}, ranks)
    made = {
        "n_ranks": n_ranks,
        "addresses": (),
        "connections": (),
        "late_ns": (),
        "items": tuple(copies.items()),
    }
    return Other(workload.model_copy(update=made), (_assumption(workload, n_ranks),))


def _assumption(workload: Workload, n_ranks: int) -> str:
    """What another number of ranks takes for granted, as a sentence."""
    words = (
        f"{n_ranks} ranks for the {workload.n_ranks} captured: buffers, buckets and the batch of each rank "
        "stay, further ranks compute as long as the captured ones, from the first on"
    )
    training = _training(workload).values()
    if servers := sorted(_servers(training)):
        one = len(servers) == 1
        each = has_lock(training)
        words += f"; {'server' if one else 'servers'} {', '.join(map(str, servers))} "
        words += "stays and computes" if one else "stay and compute"
        words += (
            f" as long as for {'a' if each else 'the'} captured {'worker for each' if each else 'workers'}"
        )
    return f"{words}; the set-up is left out"


def _ranks(workload: Workload, training: Collection[Item], n_ranks: int) -> _Ranks:
    """Captured ranks in their order, then the copies.  Raise ValueError as `with_ranks` does."""
    servers = _servers(training)
    workers = [rank for rank in range(workload.n_ranks) if rank not in servers]
    _check(workload, training, servers)
    n_workers = n_ranks - len(servers)
    if not workers or n_workers < 1:
        raise ValueError(
            f"{n_ranks} ranks leave no worker: {len(servers)} of the {workload.n_ranks} captured are servers"
        )
    if len(workload.items) * -(-n_workers // len(workers)) > MAX_ITEMS:
        raise ValueError(f"{n_ranks} ranks would make a job of more than {MAX_ITEMS:,} items")
    kept = sorted([*servers, *workers[:n_workers]])
    more = [(workers[k % len(workers)], k // len(workers)) for k in range(len(workers), n_workers)]
    places = (*((rank, 0) for rank in kept), *more)
    return _Ranks(servers, places, {place: number for number, place in enumerate(places)})


def _training(workload: Workload) -> dict[int, Item]:
    return {number: item for number, item in enumerate(workload.items) if item.iteration >= 0}


def _servers(items: Iterable[Item]) -> frozenset[int]:
    """Those that get pushes and send pulls."""
    messages = [item for item in items if isinstance(item, Message)]
    pushed = {item.dst for item in messages if item.role == "push"}
    return frozenset(pushed | {item.src for item in messages if item.role == "pull"})


def _check(workload: Workload, training: Collection[Item], servers: frozenset[int]) -> None:
    if any(isinstance(item, Collective) and item.sizes for item in training):
        raise ValueError(
            f"an alltoall's table of blocks is for {workload.n_ranks} ranks and does not say what others "
            "send: leave --scale-ranks out"
        )
    taxonomy = workload.taxonomy
    if taxonomy.optimisation == "decentralised" or taxonomy.scheduling == "bounded":
        is_decentralised = taxonomy.optimisation == "decentralised"
        kind = "a decentralised job" if is_decentralised else "a job with bounded staleness"
        raise ValueError(
            f"what other ranks would send in {kind} is not known: leave --scale-ranks out, or make such "
            "a job with `gradwire make --workers`"
        )
    for item in training:
        if isinstance(item, Message) and servers.isdisjoint((item.src, item.dst)):
            raise ValueError(
                f"rank {item.src} sends rank {item.dst} messages, and neither is a parameter server: what "
                "other ranks would send is not known"
            )
    if first := first_come_servers(workload.items):
        raise ValueError(
            f"server {show_first(first, 4)} answers the worker that comes first: the order of its answers to "
            "other workers is not known"
        )


def _own(item: Item) -> tuple[int, ...]:
    """The ranks without which there is no such item."""
    if isinstance(item, Message):
        return item.src, item.dst
    return (item.rank,) if isinstance(item, Compute) else ()


def _sections(items: Mapping[int, Item]) -> dict[int, int]:
    """What servers do for one worker alone, and for which: from a push that takes a lock to what frees it."""
    found: dict[int, int] = {}
    for number, push in items.items():
        if not isinstance(push, Message) or push.lock_until is None:
            continue
        found[number] = push.src
        waiting = [push.lock_until]
        while waiting:
            one = waiting.pop()
            item = items.get(one)
            if one in found or not isinstance(item, Message | Compute) or item.start.rank != push.dst:
                continue
            found[one] = push.src
            waiting += item.start.after
    return found


class _Copies:
    """The items of all ranks, each with its copies after it."""

    def __init__(self, kept: Mapping[int, Item], ranks: _Ranks) -> None:
        self._kept = kept
        self._ranks = ranks
        self._sections = _sections(kept)
        self._ids: dict[int, dict[int, int]] = {}
        """By captured item and copy; of what all ranks share, by 0."""
        n_items = 0
        for number in kept:
            worker = self._worker(number)
            copies = [0] if worker is None else ranks.copies(worker)
            self._ids[number] = dict(zip(copies, count(n_items), strict=False))
            n_items += len(copies)

    def items(self) -> Iterator[Item]:
        for number, copies in self._ids.items():
            for copy in copies:
                yield self._copy(number, copy)

    def _worker(self, number: int) -> int | None:
        """The worker of whose kind each has one of its own; None: all share it."""
        workers = [rank for rank in _own(self._kept[number]) if rank not in self._ranks.servers]
        return workers[0] if workers else self._sections.get(number)

    def _start(self, one: Start, number: int, copy: int) -> Start:
        """Of a captured rank's copy.  A server has none: it waits for all copies of what it waited for, but
        for one alone of what it does for that one.
        """
        is_server = one.rank in self._ranks.servers
        after: list[int] = []
        for other in one.after:
            if other in self._ids:
                ids = self._ids[other]
                is_own = self._sections.get(number, -1) == self._worker(other)
                after += ids.values() if is_server and not is_own else [ids.get(copy, ids[0])]
        rank = self._ranks.number_of[one.rank, 0 if is_server else copy]
        return Start(rank=rank, after=tuple(after))

    def _copy(self, number: int, copy: int) -> Item:
        item = self._kept[number]
        if isinstance(item, Compute):
            return item.model_copy(update={"start": self._start(item.start, number, copy)})
        if isinstance(item, Message):
            return self._message(item, number, copy)
        begins = {one.rank: one for one in item.starts}
        starts = tuple(
            self._start(begins[captured], number, its_copy)
            for captured, its_copy in self._ranks.places
            if captured in begins
        )
        root = self._ranks.number_of.get((item.root, 0), 0)
        return item.model_copy(update={"starts": starts, "root": root, "turns": ()})

    def _message(self, item: Message, number: int, copy: int) -> Message:
        src, dst = (
            self._ranks.number_of[rank, 0 if rank in self._ranks.servers else copy]
            for rank in (item.src, item.dst)
        )
        until = item.lock_until
        if until is not None:
            until = self._ids.get(until, {}).get(copy, self._ids[number][copy])
        return item.model_copy(
            update={
                "src": src,
                "dst": dst,
                "start": self._start(item.start, number, copy),
                "ready": item.ready and self._start(item.ready, number, copy),
                "lock_until": until,
            }
        )


def other_job(workload: Workload, n_ranks: int | None, bucket_nbytes: int | None) -> Other:
    """The job on `n_ranks` ranks with buckets of `bucket_nbytes` (None: as it has them), and what that takes
    for granted, a sentence for each.  Raise ValueError as `with_ranks` and `rebucketed` do.
    """
    ranked = Other(workload) if n_ranks is None else with_ranks(workload, n_ranks)
    cut = Other(ranked.workload) if bucket_nbytes is None else rebucketed(ranked.workload, bucket_nbytes)
    return Other(cut.workload, (*ranked.notes, *cut.notes))
