"""Finds parameter servers: from who sends to whom, and what each rank waits for."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from statistics import median
from typing import NamedTuple

from gradwire.traces.recognition.operation import Operation

MINOR_SHARE = 0.1  # pairs that exchange less than this of the busiest pair's bytes say nothing of roles
CLEARLY_LESS = 0.8
CLEARLY_LONGER = 3


class View(NamedTuple):
    """From where a job was captured: the ranks `seen_from`, whose captures are there (none: all `n_ranks`);
    `from_start`: since its connections were opened.
    """

    n_ranks: int = 0
    seen_from: Collection[int] = ()
    from_start: bool = False


WHOLE = View()


def servers_of(sends: Sequence[Operation], view: View = WHOLE) -> tuple[set[int], set[int]] | None:
    """Servers and workers: the sides of the two-sided graph of who sends to whom; None if it has no two.

    A worker sends when it has heard from all of its servers; a server may answer one worker before it hears
    from the others.  Where both wait for all, the side that takes clearly longer between what it receives and
    what it sends computes: the workers.  Else the smaller side serves; of equal ones the first sender's.

    Where only ranks of one side were captured, what the others wait for is not seen.  If the capture has the
    connections' beginning, the side serves that sent first, and more: it handed out what is to be trained.
    Else, of a single captured rank, the smaller side; who exchanged nothing with it is of its own side.
    """
    sides = _sides(sends)
    if sides is None:
        return None
    if not {(send.dst, send.src) for send in sends} & {(send.src, send.dst) for send in sends}:
        return None  # nobody answers
    seen = (sides[0] | sides[1]).intersection(view.seen_from)
    captured = next((side for side in sides if seen and side >= seen), None)
    if captured is not None and view.from_start and (first := _handing_out(sends, sides)) is not None:
        return first, sides[1] if first is sides[0] else sides[0]
    n_silent = view.n_ranks - len({rank for send in sends for rank in (send.src, send.dst)})
    n_of = [len(side) + n_silent * (side is captured) for side in sides]
    one, other = (sides[i] for i in sorted((0, 1), key=lambda i: (n_of[i], sends[0].src not in sides[i])))
    if len(one) == 1 or (captured is not None and len(captured) == 1):
        return one, other
    waits_one, gap_one, n_one = _waiting(sends, one, other)
    waits_other, gap_other, n_other = _waiting(sends, other, one)
    if not n_one or not n_other:
        return one, other
    if waits_other < CLEARLY_LESS * waits_one:
        return other, one
    if waits_one >= CLEARLY_LESS * waits_other and gap_one > CLEARLY_LONGER * gap_other:
        return other, one
    return one, other


def _handing_out(sends: Sequence[Operation], sides: Sequence[set[int]]) -> set[int] | None:
    """The side that sent first in each pair, and more messages in some and fewer in none; None if there is no
    such side.  Little messages do not count: ranks may greet each other.
    """
    most: Counter[frozenset[int]] = Counter()
    for send in sends:
        pair = frozenset((send.src, send.dst))
        most[pair] = max(most[pair], send.nbytes)
    first: dict[frozenset[int], int] = {}
    n_more: Counter[frozenset[int]] = Counter()  # by who sent first
    for send in sends:
        pair = frozenset((send.src, send.dst))
        if send.nbytes >= MINOR_SHARE * most[pair] and len(pair & sides[0]) == len(pair & sides[1]) == 1:
            n_more[pair] += 1 if first.setdefault(pair, send.src) == send.src else -1
    if not first or min(n_more.values()) < 0 or not any(n_more.values()):
        return None
    return next((side for side in sides if side.issuperset(first.values())), None)


def _sides(sends: Sequence[Operation]) -> list[set[int]] | None:
    """The two sides; pairs that exchange little do not count: a coordinator talks to all."""
    nbytes: Counter[frozenset[int]] = Counter()
    for send in sends:
        nbytes[frozenset((send.src, send.dst))] += send.nbytes
    least = MINOR_SHARE * max(nbytes.values())
    neighbours: dict[int, set[int]] = {}
    for send in sends:
        if nbytes[frozenset((send.src, send.dst))] >= least:
            neighbours.setdefault(send.src, set()).add(send.dst)
            neighbours.setdefault(send.dst, set()).add(send.src)
    is_first: dict[int, bool] = {}
    for start in neighbours:
        todo = [] if start in is_first else [start]
        is_first.setdefault(start, True)
        while todo:
            rank = todo.pop()
            for other in neighbours[rank]:
                if other not in is_first:
                    is_first[other] = not is_first[rank]
                    todo.append(other)
                elif is_first[other] == is_first[rank]:
                    return None
    return [{rank for rank, first in is_first.items() if first is wanted} for wanted in (True, False)]


def _waiting(sends: Sequence[Operation], side: set[int], others: set[int]) -> tuple[float, float, int]:
    """The share of this side's sends that come after news from all others, and the median ns from the last
    news to the first send after it, less the time in which an earlier send of the rank was still leaving.

    News is what has arrived since the last send to the same rank.  Third is the number of sends that say so:
    none where a rank sends to each other one only once.  `sends` are in the order of their begins.
    """
    arrivals: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for send in sends:
        arrivals[send.src, send.dst].append(send.done[send.dst])
    for times in arrivals.values():
        times.sort()
    before: dict[tuple[int, int], int] = {}
    last: dict[int, Operation] = {}  # by its source
    left_ns: defaultdict[int, int] = defaultdict(int)  # when all that a rank has sent had left
    counts: Counter[bool] = Counter()
    gaps: list[int] = []
    for send in sends:
        if send.src not in side or send.dst not in others:
            continue
        since = before.get((send.src, send.dst))
        before[send.src, send.dst] = send.begin_ns
        previous, free_ns = last.get(send.src), left_ns[send.src]
        last[send.src], left_ns[send.src] = send, max(free_ns, send.done[send.src])
        if since is None:
            continue
        news = [arrivals[other, send.src] for other in others if (other, send.src) in arrivals]
        seen = [bisect_right(times, send.begin_ns) for times in news]
        counts[all(n > bisect_right(times, since) for n, times in zip(seen, news, strict=True))] += 1
        latest = [times[n - 1] for n, times in zip(seen, news, strict=True) if n]
        if latest and (previous is None or max(latest) > previous.begin_ns):
            gaps.append(max(0, send.begin_ns - max(*latest, free_ns)))
    return counts[True] / (counts.total() or 1), median(gaps) if gaps else 0.0, counts.total()
