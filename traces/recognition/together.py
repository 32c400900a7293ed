"""Which messages a rank writes together, by vote.

A program sends what it has to send in the same way in every iteration.  Of a message that had to queue behind
the one before, a capture may leave open for milliseconds when it was written.  Where it was written right
after the one before in other iterations, or by other ranks with the same peers, and hardly ever clearly
later, it was so there too.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gradwire.traces.recognition.dependencies import TOLERANCE_NS
from gradwire.traces.recognition.operation import Operation

LEAST_TOGETHER, MOST_APART = 3, 0.1  # of those that show which; the rest show neither


class Written(NamedTuple):
    """When a message was written, and what was complete before (numbers of operations)."""

    number: int
    after: tuple[int, ...]
    earliest_ns: int
    latest_ns: int


def latest_ns(written: Sequence[Written], operations: Sequence[Operation]) -> dict[int, int]:
    """When each of the messages `written`, which are in order of time, was written at the latest, by its
    operation's number.
    """
    follows = _follows(written, operations)
    together = _together(follows)
    found = {one.number: one.latest_ns for one in written}
    for place, before, one in follows:
        if place in together:
            at_once_ns = max(one.earliest_ns, found[before.number] + TOLERANCE_NS)
            found[one.number] = min(found[one.number], at_once_ns)
    return found


# What it is, to whom the rank sends such, and how many messages it wrote before since something came in.
Place = tuple[str, frozenset[int], int]
Follows = tuple[Place, Written, Written]  # one message and the next


def _follows(written: Sequence[Written], operations: Sequence[Operation]) -> list[Follows]:
    """Messages of a rank that nothing but the end of the first came in between."""
    peers: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    for each in operations:
        peers[each.src, each.what].add(each.dst)
    last: dict[int, Written] = {}
    n_before: defaultdict[int, int] = defaultdict(int)
    found = []
    for one in written:
        operation = operations[one.number]
        rank, what = operation.src, operation.what
        before = last.get(rank)
        last[rank] = one
        if before is None or not {*before.after} <= {*one.after} <= {*before.after, before.number}:
            n_before[rank] = 0
            continue
        n_before[rank] += 1
        found.append(((what, frozenset(peers[rank, what]), n_before[rank]), before, one))
    return found


def _together(follows: Sequence[Follows]) -> set[Place]:
    n_together: Counter[Place] = Counter()
    n_apart: Counter[Place] = Counter()
    for place, before, one in follows:
        if one.latest_ns - before.earliest_ns <= TOLERANCE_NS:
            n_together[place] += 1
        elif one.earliest_ns - before.latest_ns > TOLERANCE_NS:
            n_apart[place] += 1
    return {
        place
        for place, n in n_together.items()
        if n >= LEAST_TOGETHER and n_apart[place] <= MOST_APART * (n + n_apart[place])
    }
