"""Parameter servers, and workers that may run ahead of each other.

Every worker computes, pushes its gradients and pulls parameters.  How far ahead it may be is bounded as in
stale synchronous parallel (Ho et al., More effective distributed ML via a stale synchronous parallel
parameter server, NIPS 2013).
"""

from collections.abc import Sequence

from gradwire.traces.making.items import Ids, Items, cut
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

Pushed = Sequence[dict[int, int]]
"""Ids of messages, by part of the model and worker."""


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

    A worker exchanges what a server has in `n_parts` messages each way, of which each goes its own way.  A
    pull of iteration t begins when the worker's own push t and everybody's push t - `staleness` of that part
    are in (None: nobody else's).  Without staleness a worker computes again when all its pulls are in.  Else
    its pull t comes in while it computes t + 1, which began with what pull t - 1 brought.
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
        for worker in workers:
            after = computed[worker] + pulled[-behind][worker]
            computed[worker] = (items.add_compute(worker, compute_ns, after, number),)
        pushed.append(
            [
                {
                    worker: items.add_message(worker, part % n_servers, size, after, number, "push")
                    for worker, after in computed.items()
                }
                for part, size in enumerate(sizes)
            ]
        )
        bounding = pushed[number - staleness] if staleness is not None and number >= staleness else ()
        pulled.append(_add_pulls(items, sizes, n_servers, pushed[-1], bounding, number))
    return items.workload(_source(n_servers, staleness), _taxonomy(staleness))


def _add_pulls(
    items: Items, sizes: Sequence[int], n_servers: int, pushed: Pushed, bounding: Pushed, iteration: int
) -> dict[int, Ids]:
    """The pulls of each worker; each part waits for its own push, and for all of `bounding` if it has any."""
    arrived: dict[int, Ids] = dict.fromkeys(pushed[0], ())
    for part, size in enumerate(sizes):
        others = set(bounding[part].values()) if bounding else set()
        for worker, push in pushed[part].items():
            after = tuple(sorted({push, *others}))
            arrived[worker] += (items.add_message(part % n_servers, worker, size, after, iteration, "pull"),)
    return arrived


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
