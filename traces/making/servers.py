"""Parameter servers, and workers that may run ahead of each other.

Every worker computes, pushes its gradients and pulls parameters.  How far ahead it may be is bounded as in
stale synchronous parallel (Ho et al., More effective distributed ML via a stale synchronous parallel
parameter server, NIPS 2013); how many servers hide the exchange is from Zou et al., arXiv 1709.06622.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.traces.making.items import ROLES, Access, Ids, Items, cut
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

Pushed = Sequence[dict[int, int]]
"""Ids of messages, by part of the model and worker."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the model at its server, and how it is accessed there in an iteration."""

    server: int
    nbytes: int
    push: Access
    pull: Access


def parameter_servers(
    n_servers: int,
    n_workers: int,
    *,
    nbytes: int,
    staleness: int | None,
    compute_ns: int,
    n_parts: int,
    n_iterations: int,
) -> Workload:
    """The first ranks serve, each an equal part of `nbytes`; the others work.

    A worker exchanges what a server has in `n_parts` messages each way, each independent of the others.  A
    pull of iteration t begins when the worker's own push t and everybody's push t - `staleness` of that part
    are in (None: nobody else's).  Without staleness a worker computes again when all its pulls are in, and
    servers add up odd and even iterations in buffers of their own: the next push may come while others still
    pull.  With staleness pull t comes in while the worker computes t + 1, which began with what pull t - 1
    brought, and pulls read what is there while others push.
    Raise ValueError for bytes that are not whole elements, or less than one for each part.
    """
    items = Items(n_servers + n_workers, n_iterations * n_workers * (1 + 2 * n_servers * n_parts))
    sizes = cut(nbytes, n_servers * n_parts)
    workers = range(n_servers, n_servers + n_workers)
    behind = 1 if staleness == 0 else 2  # iterations from a pull to the computing that waits for it
    computed: dict[int, Ids] = dict.fromkeys(workers, ())
    pulled: list[dict[int, Ids]] = [dict.fromkeys(workers, ())] * behind  # by iteration and worker
    pushed: list[Pushed] = []  # by iteration
    for number in range(n_iterations):
        parts = _parts(sizes, n_servers, staleness, number)
        for worker in workers:
            after = computed[worker] + pulled[-behind][worker]
            computed[worker] = (items.add_compute(worker, compute_ns, after, number),)
        pushed.append([_add_pushes(items, part, computed, number) for part in parts])
        bounding = pushed[number - staleness] if staleness is not None and number >= staleness else ()
        arrived: dict[int, Ids] = dict.fromkeys(workers, ())
        for place, part in enumerate(parts):
            others = set(bounding[place].values()) if bounding else set()
            for worker, push in pushed[-1][place].items():
                after = tuple(sorted({push, *others}))
                pull = items.add_message(part.server, worker, part.nbytes, after, number, part.pull)
                arrived[worker] += (pull,)
        pulled.append(arrived)
    return items.workload(_source(n_servers, staleness), _taxonomy(staleness))


def _parts(sizes: Sequence[int], n_servers: int, staleness: int | None, number: int) -> list[_Part]:
    """All parts in an iteration; server after server has one."""
    first = len(sizes) // n_servers * (number % 2) if staleness == 0 else 0
    parts = []
    for place, nbytes in enumerate(sizes):
        centre = first + place // n_servers
        push, pull = (Access(role, centre, unordered=staleness != 0) for role in ROLES)
        parts.append(_Part(place % n_servers, nbytes, push, pull))
    return parts


def _add_pushes(items: Items, part: _Part, computed: Mapping[int, Ids], number: int) -> dict[int, int]:
    return {
        worker: items.add_message(worker, part.server, part.nbytes, after, number, part.push)
        for worker, after in computed.items()
    }


def _source(n_servers: int, staleness: int | None) -> str:
    bound = "without bound" if staleness is None else staleness
    return f"ps, servers {n_servers}, staleness {bound}"


def _taxonomy(staleness: int | None) -> Taxonomy:
    return Taxonomy(
        parallelism="data",
        optimisation="centralised",
        scheduling="asynchronous" if staleness is None else "bounded" if staleness else "synchronous",
        staleness=staleness or None,
        pattern="ps",
    )
