"""The same job with another number of ranks: what DDP's or a parameter server's would be.

Assumed is what data parallelism with a fixed batch per rank says: each rank computes as long as before, and
buffers, buckets and the gaps between them stay.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from gradwire.traces.schedules.expand import MAX_RANKS
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.schedules.selection import bridged
from gradwire.traces.units import show_first
from gradwire.traces.workload import Compute, Item, Message, Start, Workload

MAX_ITEMS = 1 << 20  # some 2 KB each

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


def with_ranks(workload: Workload, n_ranks: int) -> Workload:
    """The job on `n_ranks` ranks, without its set-up; `workload` itself if it has as many.

    Parameter servers stay; of the others the k-th new rank does, at the same places, what the k-th captured
    one did, and after the last one they begin again with the first.  With fewer ranks the last ones are left
    out.  What a server waited for from one worker, or gave it, it does for all that are like it.
    Raise ValueError for a job of which that says nothing: messages between workers, servers that answer the
    worker that comes first, and for a number of ranks that cannot be.
    """
    if not 2 <= n_ranks <= MAX_RANKS:
        raise ValueError(f"a job cannot have {n_ranks:,} ranks: gradwire replays 2 to {MAX_RANKS}")
    if n_ranks == workload.n_ranks:
        return workload
    training = _training(workload)
    ranks = _ranks(workload, training.values(), n_ranks)
    stays = {captured for captured, _ in ranks.places}.issuperset
    bridges = bridged(
        workload.items, {number: item for number, item in training.items() if stays(_own(item))}
    )
    items = _copied({number: item for number, item in bridges.items() if stays(_own(item))}, ranks)
    return workload.model_copy(
        update={
            "n_ranks": n_ranks,
            "addresses": (),
            "connections": (),
            "items": tuple(items),
            "notes": (*workload.notes, assumption(workload, n_ranks)),
        }
    )


def assumption(workload: Workload, n_ranks: int) -> str:
    """What another number of ranks takes for granted, as a sentence."""
    words = (
        f"{n_ranks} ranks for the {workload.n_ranks} captured: buffers, buckets and the batch of each rank "
        "stay, further ranks compute as long as the captured ones, from the first on"
    )
    if servers := sorted(_servers(_training(workload).values())):
        one = len(servers) == 1
        words += f"; {'server' if one else 'servers'} {', '.join(map(str, servers))} "
        words += "stays and computes" if one else "stay and compute"
        words += " as long as for the captured workers"
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


def _copied(kept: Mapping[int, Item], ranks: _Ranks) -> Iterator[Item]:
    """The items of all ranks, each with its copies after it."""
    ids: dict[int, dict[int, int]] = {}  # by captured item and copy; of what all ranks share, by 0
    n_items = 0
    for number, item in kept.items():
        workers = [rank for rank in _own(item) if rank not in ranks.servers]
        copies = ranks.copies(workers[0]) if workers else [0]
        ids[number] = dict(zip(copies, count(n_items), strict=False))
        n_items += len(copies)

    def start(one: Start, copy: int) -> Start:
        """Of a captured rank's copy; a server has none, and waits for all copies of what it waited for."""
        is_server = one.rank in ranks.servers
        own = ranks.number_of[one.rank, 0 if is_server else copy]
        named = [ids[other] for other in one.after if other in ids]
        after = [
            each for some in named for each in (some.values() if is_server else [some.get(copy, some[0])])
        ]
        return Start(rank=own, after=tuple(after))

    for number, item in kept.items():
        for copy in ids[number]:
            yield _copy(item, copy, ranks, start)


def _copy(item: Item, copy: int, ranks: _Ranks, start: Callable[[Start, int], Start]) -> Item:
    if isinstance(item, Compute):
        return item.model_copy(update={"start": start(item.start, copy)})
    if isinstance(item, Message):
        ends = {
            name: ranks.number_of[rank, 0 if rank in ranks.servers else copy]
            for name, rank in (("src", item.src), ("dst", item.dst))
        }
        ready = item.ready and start(item.ready, copy)
        return item.model_copy(update={**ends, "start": start(item.start, copy), "ready": ready})
    begins = {one.rank: one for one in item.starts}
    starts = tuple(
        start(begins[captured], its_copy) for captured, its_copy in ranks.places if captured in begins
    )
    root = ranks.number_of.get((item.root, 0), 0)
    return item.model_copy(update={"starts": starts, "root": root, "turns": ()})
