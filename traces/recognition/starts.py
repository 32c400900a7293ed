"""What each rank waited for before it began an operation, and how long it computed after that.

Collectives that repeat say it by vote (`traces.recognition.dependencies`).  For all others the times decide
one by one: seen from outside, an operation that was complete at a rank when that rank began another may
have been waited for, and one that was not complete cannot have been.  Of the complete ones only those are
named that no other implies.

Where it is known when a message entered its host's port (traces.recognition.entered), it was written then,
unless TCP may have held it in its socket: behind another to the same rank that had not arrived, or until that
rank's window had room.

Elsewhere, a message that leaves a busy port behind others of its source had to queue in its host, so it was
written some time before: not before the one ahead of it, nor before the port became busy, and not longer ago
than the host's queue lasts (traces.recognition.ports).  Behind one to the same destination it may also have
waited in its socket.  Data of other messages that leave after it came to the port after it was written.

A library does not write two messages at one instant: what it takes from one to the next is seen where both
left an idle port.  (PyTorch's gloo takes 60 to 90 µs.)  That decides what is first in the port: when a server
had written its first answer so much before the second, three segments of it were ahead of the second; of
answers written within some microseconds two were, and the first was complete a round of the link later.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from gradwire.traces.recognition.dependencies import TOLERANCE_NS, Readiness, waits
from gradwire.traces.recognition.entered import Entry
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.ports import TIMER_LATE_NS, HostPort
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.together import Written, latest_ns
from gradwire.traces.schedules.schedule import LIBRARY_NS
from gradwire.traces.units import show_long
from gradwire.traces.workload import MAX_GAP_NS

OTHER_RUN = "as if in another run: cut the captures there, with editcap -A and -B, and give one part"
MAX_STEPS = 1_000  # of one search back through what came before
MAX_AHEAD = 16  # the latest messages stand for those before them
LEAST_SEEN, LEAST_SHARE = 3, 0.01  # of times from one message to the next; and of all messages
_DONE, _BEGUN, _LEFT = range(3)  # at the same instant, what is complete comes first; _LEFT: as it began

After = dict[tuple[int, int], tuple[int, ...]]


@dataclass(frozen=True)
class Beginning:
    """`rank` begins an operation `gap_ns` of compute after it has completed all of `after` (operations).

    `readiness` says, of one that had to queue, when it may have been ready; `least_wait_ns` how long it then
    had to queue at least.  `host_ns` its host took besides the compute, to the program and from it; of what
    had to queue it is before it was ready.
    """

    rank: int
    after: tuple[int, ...] = ()
    gap_ns: int = 0
    readiness: Readiness | None = None
    least_wait_ns: int = 0
    host_ns: int = 0

    @property
    def computed_ns(self) -> int:
        """How long it computed at least since all of `after` were complete."""
        if self.readiness is None or self.readiness.after != self.after:
            return self.gap_ns
        return max(self.gap_ns, self.readiness.least_ns)

    @property
    def waited_ns(self) -> int:
        """How long what it began then waited in its host, at most, until it left."""
        if self.readiness is None or self.readiness.after != self.after:
            return 0
        return self.readiness.most_ns - self.computed_ns + self.least_wait_ns


def starts(
    operations: Sequence[Operation],
    iterations: Sequence[int] = (),
    turnarounds_ns: Mapping[int, int] | None = None,
    ports: Mapping[int, HostPort] | None = None,
    entered: Mapping[int, Entry] | None = None,
) -> list[tuple[Beginning, ...]]:
    """For each operation its starts, one for each rank that sends for it; `operations` in order of
    beginning.

    `iterations` has the iteration of each operation, < 0 for none; without any nothing repeats.
    `turnarounds_ns` has what a rank's host takes from an arrival to a send, which is not computing, `ports`
    the hosts' ports as far as captures show them, `entered` when messages entered these, by number, as far as
    that is known.
    Raises BadTrace for a pause that no computing takes.
    """
    steady = {number for number in range(len(operations)) if not iterations or iterations[number] >= 0}
    seen = _seen(operations, ports or {}, entered or {}, steady)
    if not iterations:
        return seen
    voted = waits(operations, iterations, turnarounds_ns or {})

    def start(number: int, one: Beginning) -> Beginning:
        wait = voted.get((number, one.rank))
        if wait is None:
            return one
        messages = (n for n in one.after if operations[n].kind == "message" and iterations[n] >= 0)
        after = tuple(sorted({*wait.after, *messages}))
        is_told = bool(wait.gap_ns or wait.readiness)
        host_ns = (turnarounds_ns or {}).get(one.rank, 0) if is_told else 0
        return Beginning(one.rank, after, wait.gap_ns, wait.readiness, host_ns=host_ns)

    return [tuple(start(number, one) for one in some) for number, some in enumerate(seen)]


def _seen(
    operations: Sequence[Operation],
    ports: Mapping[int, HostPort],
    entered: Mapping[int, Entry],
    steady: Collection[int],
) -> list[tuple[Beginning, ...]]:
    """From the times of each operation, and from how messages of `steady` iterations were written."""
    after: After = {}
    frontier: defaultdict[int, set[int]] = defaultdict(set)
    own: defaultdict[int, set[int]] = defaultdict(set)  # of these, what the rank itself sent
    first_ns: dict[int, int] = {}
    ahead: defaultdict[int, deque[_Outgoing]] = defaultdict(lambda: deque(maxlen=MAX_AHEAD))
    before_to: dict[tuple[int, int], _Outgoing] = {}  # by source and destination
    apart_ns = _apart_ns(operations, ports)
    found: list[dict[int, Beginning]] = [{} for _ in operations]
    written: list[Written] = []
    for time_ns, phase, number, rank in _events(operations, entered):
        if phase != _BEGUN:
            implied = _implied(number, rank, operations, after, own[rank])
            frontier[rank] -= implied
            own[rank] -= implied
            frontier[rank].add(number)
            if operations[number].src == rank:
                own[rank].add(number)
            continue
        first_ns.setdefault(rank, time_ns)
        before = tuple(sorted(other for other in frontier[rank] if other < number))
        since_ns = max((operations[other].done[rank] for other in before), default=first_ns[rank])
        after[number, rank] = before
        if time_ns - since_ns > MAX_GAP_NS:
            pause = show_long(time_ns - since_ns)
            raise BadTrace(f"rank {rank} does nothing for {pause} between two operations, {OTHER_RUN}")
        found[number][rank] = Beginning(rank, before, time_ns - since_ns)
        if operations[number].kind == "message":
            ends = rank, operations[number].dst
            if number in entered:
                of = _entering_ns(before_to.get(ends), since_ns, entered[number])
            else:
                of = _written_ns(operations[number], ahead[rank], since_ns, ports.get(rank), apart_ns)
            before_to[ends] = _outgoing(operations[number], of[0])
            ahead[rank].append(before_to[ends])
            written.append(Written(number, before, *of))
    until_ns = latest_ns(written, operations, steady)
    for number, before, earliest_ns, _ in written:
        rank = operations[number].src
        left_ns = operations[number].begun[rank]
        if left_ns - earliest_ns > TOLERANCE_NS:
            since_ns = _began_ns(number, left_ns, entered) - found[number][rank].gap_ns
            readiness = Readiness(before, earliest_ns - since_ns, until_ns[number] - since_ns)
            found[number][rank] = Beginning(rank, before, 0, readiness, left_ns - until_ns[number])
    return [tuple(by_rank[rank] for rank in sorted(by_rank)) for by_rank in found]


def _events(operations: Sequence[Operation], entered: Mapping[int, Entry]) -> list[tuple[int, int, int, int]]:
    """When each operation began and was complete at each rank, in order: time, phase, operation, rank."""
    found = []
    for number, operation in enumerate(operations):
        for rank, time_ns in operation.done.items():
            is_instant = operation.begun.get(rank) == time_ns
            found.append((time_ns, _LEFT if is_instant else _DONE, number, rank))
        for rank, time_ns in operation.begun.items():
            if operation.kind != "message" or rank == operation.src:
                found.append((_began_ns(number, time_ns, entered), _BEGUN, number, rank))
    return sorted(found)


def _began_ns(number: int, left_ns: int, entered: Mapping[int, Entry]) -> int:
    """A message begins when it enters its host's port, or when it leaves that, if nothing else is known."""
    return entered[number].entered_ns if number in entered else left_ns


class _Outgoing(NamedTuple):
    """A message on its way out of its host: when it was written at the earliest, when it began to leave, its
    data did and all had left, and when it had arrived.
    """

    dst: int
    written_ns: int
    begun_ns: int
    data_ns: int
    last_ns: int
    arrived_ns: int


def _apart_ns(operations: Sequence[Operation], ports: Mapping[int, HostPort]) -> int:
    """What the job's library takes from one message of a rank to the next, to another rank: the median where
    nothing large left in between and nothing came in; 0 where that is hardly ever seen.
    """
    sent: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    done_ns: defaultdict[int, list[int]] = defaultdict(list)
    for operation in operations:
        if operation.kind == "message":
            sent[operation.src].append((operation.begun[operation.src], operation.dst))
        for rank, time_ns in operation.done.items():
            if operation.kind != "message" or rank != operation.src:
                done_ns[rank].append(time_ns)
    found = []
    n_sent = sum(map(len, sent.values()))
    for rank, port in ports.items():
        busy_ns = np.sort(np.concatenate([port.large_ns, np.array(done_ns[rank], np.int64)]))
        for (one_ns, one), (next_ns, other) in pairwise(sorted(sent[rank])):
            if one == other or next_ns - one_ns > LIBRARY_NS:
                continue
            first, end = np.searchsorted(busy_ns, (one_ns, next_ns))
            if first == end:
                found.append(next_ns - one_ns)
    return round(median(found)) if len(found) >= max(LEAST_SEEN, LEAST_SHARE * n_sent) else 0


def _written_ns(
    operation: Operation, ahead: Sequence[_Outgoing], since_ns: int, port: HostPort | None, apart_ns: int
) -> tuple[int, int]:
    """When its source handed over a message, at the earliest and at the latest; `ahead` has what that sent
    before, `apart_ns` is from one to the next at least.
    """
    begun_ns = earliest_ns = latest_ns = operation.begun[operation.src]
    ahead = [each for each in ahead if each.begun_ns <= begun_ns]  # others may have entered the port since
    if port is not None and ahead:
        busy_ns = port.busy_since_ns(begun_ns)
        leaving = [each for each in ahead if each.data_ns <= begun_ns and each.last_ns >= busy_ns]
        if leaving:
            next_ns = ahead[-1].written_ns + (apart_ns if ahead[-1].dst != operation.dst else 0)
            earliest_ns = max(since_ns, next_ns, busy_ns)
            if all(each.dst != operation.dst for each in leaving):
                earliest_ns = max(earliest_ns, begun_ns - len(leaving) * port.queue_ns)
            earliest_ns = min(earliest_ns, begun_ns)
        others = {each.dst: each.data_ns for each in leaving if each.last_ns > begun_ns}
        others.pop(operation.dst, None)
        latest_ns = port.came_ns(begun_ns, others)
        if latest_ns < earliest_ns:
            # They cross by no more than a timer is late: it was written then.  By more: one of them is wrong.
            is_timers = earliest_ns - latest_ns <= TIMER_LATE_NS
            latest_ns = min(begun_ns, earliest_ns + TIMER_LATE_NS) if is_timers else begun_ns
    return earliest_ns, latest_ns


def _entering_ns(before: _Outgoing | None, since_ns: int, one: Entry) -> tuple[int, int]:
    """When its source wrote a message that entered the port then, at the earliest and at the latest; `before`
    is the one before it to the same rank.

    What TCP holds it lets go at once when the one before arrives, or the window opens.
    """
    if before is None or max(before.arrived_ns, one.offered_ns) < one.entered_ns - TOLERANCE_NS:
        return one.entered_ns, one.entered_ns
    return max(since_ns, before.written_ns), one.entered_ns


def _outgoing(operation: Operation, written_ns: int) -> _Outgoing:
    begun_ns, last_ns = operation.begun[operation.src], operation.done[operation.src]
    data_ns = begun_ns if operation.data_ns is None else operation.data_ns
    return _Outgoing(operation.dst, written_ns, begun_ns, data_ns, last_ns, max(operation.done.values()))


def _implied(
    number: int, rank: int, operations: Sequence[Operation], after: After, sent: set[int]
) -> set[int]:
    """What must have been complete at `rank` because `number` now is; `sent` are its own that may be."""
    operation = operations[number]
    if operation.kind != "message" or operation.src == rank:
        return set(after.get((number, rank), ()))
    if not sent:
        return set()
    implied: set[int] = set()
    oldest = min(sent)
    todo = [(number, operation.src)]
    seen: set[int] = set()
    while todo and len(seen) < MAX_STEPS:
        for other in after.get(todo.pop(), ()):
            if other >= oldest and other not in seen:
                seen.add(other)
                if operations[other].kind == "message":
                    implied |= {other} & sent
                    todo.append((other, operations[other].src))
    return implied
