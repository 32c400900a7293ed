"""Which messages a rank writes together, by vote.

A program sends what it has to send in the same way in every iteration.  Of a message that had to queue behind
the one before, a capture may leave open for milliseconds when it was written.  Where it was written within a
millisecond of the one before in other iterations, or by other ranks with the same peers, it was so there too,
unless some show it written later.  Many that were written later show neither: they queued as well.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gradwire.traces.recognition.dependencies import TOLERANCE_NS
from gradwire.traces.recognition.operation import Operation

LEAST_TOGETHER, LEAST_SHARE = 3, 0.05  # of all that follow another at one place; most had to queue
MOST_APART = 0.1  # of those that show whether it was later


class Written(NamedTuple):
    """When a message was written, and what was complete before (numbers of operations)."""

    number: int
    after: tuple[int, ...]
    earliest_ns: int
    latest_ns: int


class Place(NamedTuple):
    """Where in a program one message follows another: what they belong to, to whom all ranks there send such,
    how large both are (in powers of two), and which message it is since something came in (1: the second).
    """

    what: str
    peers: frozenset[int]
    sizes: tuple[int, int]
    nth: int


class Follows(NamedTuple):
    """Two messages that `rank` wrote one after the other while nothing came in."""

    place: Place
    rank: int
    before: Written
    one: Written


def latest_ns(
    written: Sequence[Written], operations: Sequence[Operation], steady: Collection[int]
) -> dict[int, int]:
    """When each of the messages `written`, which are in order of time, was written at the latest, by its
    operation's number.  The others than those of `steady` are of set-up, and do not vote.
    """
    follows = _follows(written, operations)
    together = _together([each for each in follows if each.one.number in steady])
    found = {one.number: one.latest_ns for one in written}
    for place, rank, before, one in follows:
        at_once_ns = found[before.number] + TOLERANCE_NS
        if (place, rank) in together and one.number in steady and one.earliest_ns <= at_once_ns:
            found[one.number] = min(found[one.number], at_once_ns)
    return found


def _follows(written: Sequence[Written], operations: Sequence[Operation]) -> list[Follows]:
    """What a rank had sent itself may have left in between."""
    sent: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    for each in operations:
        sent[each.src, each.what].add(each.dst)
    peers = {key: frozenset(some) for key, some in sent.items()}
    last: dict[int, Written] = {}
    count: defaultdict[int, int] = defaultdict(int)
    found = []
    for one in written:
        operation = operations[one.number]
        rank, before = operation.src, last.get(operation.src)
        last[rank] = one
        if before is None or any(
            operations[number].kind != "message" or operations[number].src != rank
            for number in {*one.after} - {*before.after}
        ):
            count[rank] = 0
            continue
        count[rank] += 1
        sizes = operations[before.number].nbytes.bit_length(), operation.nbytes.bit_length()
        place = Place(operation.what, peers[rank, operation.what], sizes, count[rank])
        found.append(Follows(place, rank, before, one))
    return found


def _together(follows: Sequence[Follows]) -> set[tuple[Place, int]]:
    """The places, with the ranks of which neither their own messages nor all together contradict."""
    n_all = Counter(each.place for each in follows)
    ranks = {(each.place, each.rank) for each in follows}
    n_together: Counter[Place | tuple[Place, int]] = Counter()
    n_apart: Counter[Place | tuple[Place, int]] = Counter()
    for place, rank, before, one in follows:
        if one.latest_ns - before.earliest_ns <= TOLERANCE_NS:
            n_together.update((place, (place, rank)))
        elif one.earliest_ns - before.latest_ns > TOLERANCE_NS:
            n_apart.update((place, (place, rank)))

    def is_apart(key: Place | tuple[Place, int]) -> bool:
        return n_apart[key] > MOST_APART * (n_together[key] + n_apart[key])

    return {
        (place, rank)
        for place, rank in ranks
        if n_together[place] >= max(LEAST_TOGETHER, LEAST_SHARE * n_all[place])
        and not is_apart(place)
        and not is_apart((place, rank))
    }
