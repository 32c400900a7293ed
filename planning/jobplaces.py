"""Which hosts the ranks of each job are on, with the parameter servers that an algorithm adds to it."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.placement import place
from gradwire.planning.refused import Refused
from gradwire.traces.schedules.collectives import servers_of
from gradwire.traces.units import show_count

Jobs = list[tuple[str, ...]]


def place_jobs(fabric: Fabric, algorithm: str, placement: str, n_workers: Sequence[int], seed: int) -> Jobs:
    """The hosts of each job, of its workers first and then of its servers; jobs follow each other.

    A server under each first switch takes the last of the job's hosts there.  Raise ValueError for names that
    do not exist, Refused for what has no room.
    """
    servers = servers_of(algorithm)
    n_servers = [1 if servers == "leaf" else servers] * len(n_workers)
    while True:
        jobs = _jobs(fabric, placement, n_workers, n_servers, seed)
        if servers != "leaf":
            return jobs
        n_leaves = [len({access_switch(fabric, host) for host in job}) for job in jobs]
        if all(n <= have for n, have in zip(n_leaves, n_servers, strict=True)):
            return [_servers_last(fabric, job) for job in jobs]
        n_servers = [max(both) for both in zip(n_leaves, n_servers, strict=True)]


def _jobs(
    fabric: Fabric, placement: str, n_workers: Sequence[int], n_servers: Sequence[int], seed: int
) -> Jobs:
    need, n_more = sum(n_workers) + sum(n_servers), sum(n_servers)
    if n_more and need > len(fabric.hosts):
        raise Refused(
            f"{show_count(sum(n_workers), 'worker')} and {show_count(n_more, 'server')} need {need} hosts, "
            f"but {fabric.spec} has {len(fabric.hosts)}: choose fewer, or a larger fabric"
        )
    hosts = place(placement, fabric, need, seed)
    ends = accumulate(map(sum, zip(n_workers, n_servers, strict=True)), initial=0)
    return [hosts[start:end] for start, end in pairwise(ends)]


def _servers_last(fabric: Fabric, job: Sequence[str]) -> tuple[str, ...]:
    """The hosts with the last one under each first switch at the end."""
    last = {access_switch(fabric, host): host for host in job}
    return (*(host for host in job if host not in last.values()), *last.values())


def n_workers_on(fabric: Fabric, algorithm: str, n_jobs: int) -> int:
    """The workers of each of this many equal jobs that fill the fabric, with their servers.

    Two where servers leave fewer: `place_jobs` then says that there is no room.
    """
    servers = servers_of(algorithm)
    n_hosts = len(fabric.hosts) // n_jobs
    if servers == "leaf":
        servers = len({access_switch(fabric, host) for host in fabric.hosts[:n_hosts]})
    return max(2, n_hosts - servers) if servers else n_hosts
