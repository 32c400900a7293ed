"""What each edge of gloo's ring must send in one allreduce, from what its other edges show.

A capture that hides a few preambles still shows on most edges of the ring how many pieces of which length
the buffer was cut into.  gloo's ring then says the same of every edge (gloo/allreduce.cc, `ring`), so that
an edge on which all signs of a piece are hidden is known to lack it.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from traces.schedules.collectives import ELEMENT_NBYTES, gloo_ring

MAX_ABSENT = 64  # pieces beyond the buffer's end: there are some where a buffer is tiny
MAX_RING = 1024  # hosts; a larger ring is not worked out
MAX_PIECES = 1 << 14  # on all edges together
Lengths = tuple[int, ...]
Edge = tuple[str, str]  # the hosts that send and receive


def ring_lengths(seen: Mapping[Edge, Sequence[int]]) -> dict[Edge, Lengths]:
    """The lengths that each edge must send, in order; empty where that cannot be said.

    `seen` are the lengths that each edge announces visibly, in order.  They must form one ring, no edge may
    announce what gloo would not send, and at least one must announce all of it.
    """
    hosts = _around(seen)
    if not hosts:
        return {}
    for nbytes in _candidates(len(hosts), seen):
        by_rank = _sent_by_rank(len(hosts), nbytes)
        for first in range(len(hosts)):
            expected = {
                (host, hosts[place - 1]): by_rank[(first + place) % len(hosts)]
                for place, host in enumerate(hosts)
            }
            if _explains(expected, seen):
                return expected
    return {}


def _around(edges: Mapping[Edge, Sequence[int]]) -> list[str]:
    """The hosts in the order of their ranks, from any of them on; empty if it is not one ring."""
    to = dict(edges.keys())
    if len(to) != len(edges) or not 2 <= len(to) <= MAX_RING:
        return []
    hosts = [next(iter(to))]
    while (after := to.get(hosts[-1])) is not None and after != hosts[0]:
        if len(hosts) == len(to):
            return []
        hosts.append(after)
    return hosts[::-1] if after is not None and len(hosts) == len(to) else []  # rank r sends to r - 1


def _candidates(n_hosts: int, seen: Mapping[Edge, Sequence[int]]) -> list[int]:
    """Sizes of the buffer that would give the longest and shortest pieces seen, and as many."""
    lengths = {length for edge in seen.values() for length in edge}
    most = max(map(len, seen.values()))
    if not lengths or most * n_hosts > MAX_PIECES or any(n % ELEMENT_NBYTES for n in lengths):
        return []
    per_rank = -(-most // (2 * (n_hosts - 1)))
    pieces = n_hosts * per_rank
    long, short = max(lengths), min(lengths)
    return [long * (pieces - 1 - absent) + short for absent in range(min(MAX_ABSENT, pieces))]


@lru_cache(maxsize=64)
def _sent_by_rank(n_ranks: int, nbytes: int) -> tuple[Lengths, ...]:
    lengths: list[list[int]] = [[] for _ in range(n_ranks)]
    for send in gloo_ring(n_ranks, nbytes):
        lengths[send.src].append(send.nbytes)
    return tuple(map(tuple, lengths))


def _explains(expected: Mapping[Edge, Lengths], seen: Mapping[Edge, Sequence[int]]) -> bool:
    return any(tuple(seen[edge]) == lengths for edge, lengths in expected.items()) and all(
        _is_part(seen[edge], lengths) for edge, lengths in expected.items()
    )


def _is_part(some: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether `some` are left when a few of `whole` are taken away."""
    rest = iter(whole)
    return all(length in rest for length in some)
