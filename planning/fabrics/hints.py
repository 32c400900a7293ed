"""What an algorithm may know of the fabric that its ranks are on."""

from collections.abc import Sequence

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch, graph_of, host_port
from gradwire.traces.schedules.hints import Hints


def hints_of(fabric: Fabric, hosts: Sequence[str]) -> Hints:
    """What an algorithm may know of where its ranks are; rank r is on `hosts[r]`."""
    shape = fabric.shape
    grid = (shape["x"], shape["y"]) if fabric.family in ("torus", "mesh") else None
    rates = tuple(fabric.rates[host_port(host)] for host in hosts)
    return Hints(
        leaves=leaves_of(fabric, hosts),
        graph=graph_of(fabric, hosts),
        grid=grid if tuple(hosts) == fabric.hosts else None,
        host_bps=min(rates),
        rates_bps=rates,
    )


def leaves_of(fabric: Fabric, hosts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ranks under each first switch, rank r on `hosts[r]`, in the order of their first ranks."""
    leaves: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        leaves.setdefault(access_switch(fabric, host), []).append(rank)
    return tuple(map(tuple, leaves.values()))
