"""Jobs that switches cannot add up are done by their hosts: there is no room for them, or no tree."""

from collections.abc import Callable, Sequence

from planning.fabrics.fabric import Fabric
from planning.fabrics.paths import access_switch
from planning.trees.grants import Terms, granted
from traces.schedules.schedule import Schedule, together


def served(
    fabric: Fabric,
    placement: Sequence[str],
    schedules: Sequence[Schedule],
    host_side: Callable[[int], Schedule],
    terms: Terms,
    seed: int,
) -> tuple[Schedule, dict[int, str]]:
    """Workloads side by side, and which of them are done by their hosts, and why.

    A workload of which any job gets no tree is replaced: the i-th by `host_side(i)`, which asks for none.
    """
    chosen = list(schedules)
    workload_of = [number for number, each in enumerate(chosen) for _ in range(each.n_ranks)]
    reasons: dict[int, str] = {}
    while True:
        whole = together(chosen)
        refused = granted(fabric, placement, whole, terms, seed).refused
        if not refused:
            return whole, reasons
        for job, reason in refused.items():
            number = workload_of[job[0]]
            if number not in reasons:
                reasons[number] = reason
                chosen[number] = host_side(number)


def leaves_of(fabric: Fabric, hosts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ranks under each first switch, rank r on `hosts[r]`, in the order of their first ranks."""
    leaves: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        leaves.setdefault(access_switch(fabric, host), []).append(rank)
    return tuple(map(tuple, leaves.values()))
