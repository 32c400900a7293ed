"""What each edge of gloo's ring must send in one allreduce, as the other edges show it.

A capture that hides a few preambles still shows on most edges of the ring how many pieces of which length
the buffer was cut into.  gloo's ring then says the same of every edge (gloo/allreduce.cc, `ring`), so that
an edge on which all signs of a piece are hidden is known to lack it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from gradwire.traces.framing.gloo import PREFIXES, unpack_slot
from gradwire.traces.framing.gloo_sides import GlooSide
from gradwire.traces.packets.directions import Direction
from gradwire.traces.schedules.algorithms.gloo import GLOO_MAX_SEGMENT_NBYTES, gloo_ring, gloo_ring_sends
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES

MAX_ABSENT = 64  # pieces beyond the buffer's end: there are some where a buffer is tiny
MAX_RING = 1024  # hosts; a larger ring is not worked out
MAX_PIECES = 1 << 14  # on all edges together
MAX_SEGMENT_NBYTES = GLOO_MAX_SEGMENT_NBYTES
Lengths = tuple[int, ...]
Edge = tuple[str, str]  # the hosts that send and receive
_RING = PREFIXES["allreduce"]


class Rings:
    """Which slots are a ring's, and what each edge of it must send."""

    def __init__(self, sides: Mapping[Direction, GlooSide]) -> None:
        self._sides = dict(sides)  # as they were read: what is recovered must not prove itself
        self._now = sides
        self._known: dict[int, dict[Edge, Lengths]] = {}
        self._even: dict[int, bool] = {}

    @cached_property
    def _edges(self) -> Mapping[int, Mapping[Edge, list[int]]]:
        """Of each allreduce the edges, with the lengths that their receivers announce visibly."""
        found: defaultdict[int, dict[Edge, list[int]]] = defaultdict(dict)
        for direction, side in self._sides.items():
            for slot, signs in side.by_slot.items():
                if unpack_slot(slot).prefix != _RING:
                    continue
                if signs.answers:
                    edge = (direction.dst, direction.src)
                    found[slot].setdefault(edge, []).extend(frame.length for frame in signs.answers)
                if signs.data or signs.announced:
                    found[slot].setdefault((direction.src, direction.dst), [])
        return found

    @cached_property
    def _rings(self) -> frozenset[int]:
        return frozenset(
            slot
            for slot, edges in self._edges.items()
            if len({src for src, _ in edges}) == len(edges) == len({dst for _, dst in edges})
        )

    def is_ring(self, slot: int) -> bool:
        """Whether it is an allreduce in which each host sends to one other and receives from one other."""
        return slot in self._rings

    def upstream(self, slot: int, host: str) -> GlooSide | None:
        """The direction in which `host` answers the rank that sends to it; None without a full ring."""
        direction = self._answering.get((slot, host)) if self._is_even(slot) else None
        return self._now[direction] if direction else None

    def _is_even(self, slot: int) -> bool:
        """Whether all edges send as many pieces: then none is absent, and rounds are the same on all."""
        if slot not in self._even:
            edges = self._edges.get(slot, {})
            seen = {len(lengths) for lengths in edges.values()}
            known = {len(self.lengths(slot, edge) or ()) for edge in edges}
            self._even[slot] = len(edges) > 1 and (len(seen) == 1 or (len(known) == 1 and known != {0}))
        return self._even[slot]

    @cached_property
    def _answering(self) -> Mapping[tuple[int, str], Direction]:
        return {
            (slot, direction.src): direction
            for direction, side in self._sides.items()
            for slot, signs in side.by_slot.items()
            if signs.answers
        }

    def lengths(self, slot: int, edge: Edge) -> Lengths | None:
        """What the edge must send, in order; None if that cannot be said."""
        if slot not in self._known:
            self._known[slot] = ring_lengths(self._edges.get(slot, {}))
        return self._known[slot].get(edge)


def ring_lengths(seen: Mapping[Edge, Sequence[int]]) -> dict[Edge, Lengths]:
    """The lengths that each edge must send, in order; empty where that cannot be said.

    `seen` are the lengths that each edge announces visibly, in order.  They must form one ring, no edge may
    announce what gloo would not send, at least one must announce all of it, and no other buffer or order of
    the ranks may explain the same.
    """
    hosts = _around(seen)
    if not hosts:
        return {}
    lengths = [tuple(seen[host, hosts[place - 1]]) for place, host in enumerate(hosts)]
    found = {way for nbytes in _candidates(lengths) for way in _ways(lengths, nbytes)}
    if len(found) != 1:
        return {}
    [way] = found
    return {(host, hosts[place - 1]): way[place] for place, host in enumerate(hosts)}


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


def _candidates(seen: Sequence[Lengths]) -> list[int]:
    """Sizes of the buffer that would give the longest and shortest pieces seen, and as many."""
    lengths = {length for edge in seen for length in edge}
    n_hosts, most = len(seen), max(map(len, seen))
    if not lengths or most * n_hosts > MAX_PIECES or any(n % ELEMENT_NBYTES for n in lengths):
        return []
    per_rank = -(-most // (2 * (n_hosts - 1)))
    pieces = n_hosts * per_rank
    long, short = max(lengths), min(lengths)
    sizes = [long * (pieces - 1 - absent) + short for absent in range(min(MAX_ABSENT, pieces))]
    return [
        nbytes
        for nbytes in sizes
        if _piece_nbytes(nbytes, pieces) == long
        and gloo_ring_sends(n_hosts, nbytes, MAX_SEGMENT_NBYTES) <= MAX_PIECES
    ]


def _piece_nbytes(nbytes: int, pieces: int) -> int:
    return -(-nbytes // (pieces * ELEMENT_NBYTES)) * ELEMENT_NBYTES


def _ways(seen: Sequence[Lengths], nbytes: int) -> Iterator[tuple[Lengths, ...]]:
    """What the edges send of a buffer, in each order of the ranks that explains what is seen."""
    n_hosts = len(seen)
    by_rank = _sent_by_rank(n_hosts, nbytes, MAX_SEGMENT_NBYTES)
    ranks_of: defaultdict[Lengths, int] = defaultdict(int)  # as bits
    for rank, lengths in enumerate(by_rank):
        ranks_of[lengths] |= 1 << rank
    every = (1 << n_hosts) - 1
    parts: dict[Lengths, int] = {}
    firsts = every  # who may be the first of the hosts
    for place, some in enumerate(seen):
        if some not in parts:
            parts[some] = sum(ranks for lengths, ranks in ranks_of.items() if is_part(some, lengths))
        ranks = parts[some]
        firsts &= (ranks >> place) | (ranks << n_hosts - place) & every
    for first in range(n_hosts):
        way = by_rank[first:] + by_rank[:first]
        if firsts >> first & 1 and any(map(tuple.__eq__, seen, way)):
            yield way


@lru_cache(maxsize=64)
def _sent_by_rank(n_ranks: int, nbytes: int, max_segment_nbytes: int) -> tuple[Lengths, ...]:
    lengths: list[list[int]] = [[] for _ in range(n_ranks)]
    for send in gloo_ring(n_ranks, nbytes, max_segment_nbytes=max_segment_nbytes):
        lengths[send.src].append(send.nbytes)
    return tuple(map(tuple, lengths))


def is_part(some: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether `some` are left when a few of `whole` are taken away."""
    candidates = iter(whole)
    return all(length in candidates for length in some)
