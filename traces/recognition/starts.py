"""What each rank waited for before it began an operation, and how long it then computed.

Collectives that repeat say it by vote (`traces.recognition.dependencies`).  For all others the times decide
one by one: seen from outside, an operation that was complete at a rank when that rank began another may
have been waited for, and one that was not complete cannot have been.  Of the complete ones only those are
named that no other implies.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traces.recognition.dependencies import Readiness, waits
from traces.recognition.operation import Operation
from traces.recognition.ranks import BadTrace
from traces.units import show_long
from traces.workload import MAX_GAP_NS

MAX_STEPS = 1_000  # of one search back through what came before
_DONE, _BEGUN = 0, 1  # at the same instant, what is complete comes first

After = dict[tuple[int, int], tuple[int, ...]]


@dataclass(frozen=True)
class Beginning:
    """`rank` begins an operation `gap_ns` of compute after it has completed all of `after` (operations).

    `readiness` says, of one that had to queue, when it may have been ready.
    """

    rank: int
    after: tuple[int, ...] = ()
    gap_ns: int = 0
    readiness: Readiness | None = None


def starts(
    operations: Sequence[Operation],
    iterations: Sequence[int] = (),
    turnarounds_ns: Mapping[int, int] | None = None,
) -> list[tuple[Beginning, ...]]:
    """For each operation its starts, one for each rank that sends for it; `operations` in order of
    beginning.

    `iterations` has the iteration of each operation, < 0 for none; without any nothing repeats.
    `turnarounds_ns` has what a rank's host takes from an arrival to a send, which is no computing.
    Raises BadTrace for a pause that no computing takes.
    """
    seen = _seen(operations)
    if not iterations:
        return seen
    voted = waits(operations, iterations, turnarounds_ns or {})

    def start(number: int, one: Beginning) -> Beginning:
        wait = voted.get((number, one.rank))
        if wait is None:
            return one
        messages = (n for n in one.after if operations[n].kind == "message" and iterations[n] >= 0)
        after = tuple(sorted({*wait.after, *messages}))
        return Beginning(one.rank, after, wait.gap_ns, wait.readiness)

    return [tuple(start(number, one) for one in some) for number, some in enumerate(seen)]


def _seen(operations: Sequence[Operation]) -> list[tuple[Beginning, ...]]:
    """From the times of each operation alone."""
    events = [
        (time_ns, phase, number, rank)
        for number, operation in enumerate(operations)
        for phase, times in ((_DONE, operation.done), (_BEGUN, operation.begun))
        for rank, time_ns in times.items()
        if operation.kind != "message" or phase == _DONE or rank == operation.src
    ]
    after: After = {}
    frontier: defaultdict[int, set[int]] = defaultdict(set)
    first_ns: dict[int, int] = {}
    found: list[dict[int, Beginning]] = [{} for _ in operations]
    for time_ns, phase, number, rank in sorted(events):
        if phase == _DONE:
            frontier[rank] -= _implied(number, rank, operations, after, frontier[rank])
            frontier[rank].add(number)
            continue
        first_ns.setdefault(rank, time_ns)
        before = tuple(sorted(other for other in frontier[rank] if other < number))
        since_ns = max((operations[other].done[rank] for other in before), default=first_ns[rank])
        after[number, rank] = before
        if time_ns - since_ns > MAX_GAP_NS:
            raise BadTrace(
                f"rank {rank} does nothing for {show_long(time_ns - since_ns)} between two operations, as "
                "between two runs: cut the captures there, with editcap -A and -B, and give one part"
            )
        found[number][rank] = Beginning(rank, before, time_ns - since_ns)
    return [tuple(by_rank[rank] for rank in sorted(by_rank)) for by_rank in found]


def _implied(
    number: int, rank: int, operations: Sequence[Operation], after: After, candidates: set[int]
) -> set[int]:
    """Of `candidates`, complete at `rank`, those that must have been complete because `number` now is."""
    operation = operations[number]
    if operation.kind != "message" or operation.src == rank:
        return set(after.get((number, rank), ()))
    own = {other for other in candidates if operations[other].src == rank}
    if not own:
        return set()
    implied: set[int] = set()
    oldest = min(own)
    todo = [(number, operation.src)]
    seen: set[int] = set()
    while todo and len(seen) < MAX_STEPS:
        for other in after.get(todo.pop(), ()):
            if other >= oldest and other not in seen:
                seen.add(other)
                if operations[other].kind == "message":
                    implied |= {other} & own
                    todo.append((other, operations[other].src))
    return implied
