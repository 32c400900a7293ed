"""What a message's destination did before it announced that it was ready to receive.

A parameter server that answers each push at once takes them one by one: it asks for the next when it has
handed its answer over.  The pushes then wait for the server, whatever their sources do, and the time of an
iteration is made of just that.  gloo and MPI show it, as a notice from the destination.

The times say it, as they do of what a source waited for (traces.recognition.starts): of what the destination
itself sent since the last that it had received, all had been handed over; or that last was complete.  A send
that had only just begun was asked for together with the receive, as in an exchange, and not waited for: both
waited for what the rank computed before.  A worker that is answered at once by whichever server it pushes to
asks for the answers when it has announced its pushes; a notice that came before these would hold them up.

A notice that leaves right behind data on its own connection was written some time before, and waited there.
A server writes its notices to all workers at once: the first that left since that data began dates the rest.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from gradwire.traces.circles import peeled
from gradwire.traces.recognition.dependencies import TOLERANCE_NS
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.workload import Item, Message, Start, awaited

# Of a send that was waited for, at least a fifth had left: chosen on two asynchronous captures, not measured.
LEAST_SENT = 5
MAX_AFTER = 16  # the latest sends stand for those before them: they are handed over in about their order


class Asked(NamedTuple):
    """What a destination waits for before it is ready, and the number of its own send, if any, together with
    which it asked: it waits for what that waits for.
    """

    start: Start
    together_with: int | None = None


def readiness(operations: Sequence[Operation]) -> list[Asked | None]:
    """Of each operation's destination; None for collectives and where no notice was seen.

    Unlike what a source waits for, this may be operations with higher numbers: of a message that is offered
    long before its destination asks for it.
    """
    sent: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    received: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    announced: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    asked_ns = _asked_ns(operations)
    for number, operation in enumerate(operations):
        if operation.kind == "message" and operation.data_ns is not None:
            sent[operation.src].append((operation.data_ns, number))
            announced[operation.src].append((operation.begun[operation.src], number))
            received[operation.dst].append((operation.done[operation.dst], number))
        elif operation.kind != "message":
            for rank, done_ns in operation.done.items():
                received[rank].append((done_ns, number))
    for events in (*sent.values(), *received.values(), *announced.values()):
        events.sort()

    def ready(number: int, operation: Operation) -> Asked | None:
        if number not in asked_ns:
            return None
        rank, now = operation.dst, (asked_ns[number], len(operations))
        before = bisect_right(received[rank], now)
        last = received[rank][before - 1 : before]
        first = bisect_left(sent[rank], (last[0][0], 0)) if last else 0
        latest = (sent[rank][at][1] for at in range(bisect_right(sent[rank], now) - 1, first - 1, -1))
        handed_over = (other for other in latest if _may_be_handed_over(operations[other], now[0]))
        offered = [*islice(handed_over, MAX_AFTER)]
        after = offered or [other for _, other in last]
        start = Start(rank=rank, after=tuple(sorted(set(after) - {number})))
        own = announced[rank]
        since = bisect_right(own, last[0]) if last else 0
        end = bisect_right(own, now)
        return Asked(start, own[end - 1][1] if end > since and not offered else None)

    return [ready(number, operation) for number, operation in enumerate(operations)]


def without_circles(items: Sequence[Item]) -> tuple[list[Item], int]:
    """The items, of which none waits for itself, and how many messages had to be changed for that.

    Hosts' clocks differ, so that a notice may seem to come after what it made possible.  A message that waits
    for itself, or for such a one, is then prepared for at its destination whatever comes later.
    """
    stuck = set(range(len(items))).difference(peeled([awaited(item) for item in items]))
    found = list(items)
    n_changed = 0
    for number in stuck:
        item = items[number]
        if not isinstance(item, Message) or item.ready is None:
            continue
        after = tuple(other for other in item.ready.after if other < number or other not in stuck)
        if after != item.ready.after:
            found[number] = item.model_copy(update={"ready": Start(rank=item.dst, after=after)})
            n_changed += 1
    return found, n_changed


def _asked_ns(operations: Sequence[Operation]) -> dict[int, int]:
    """When the destination of each operation wrote its notice, at the latest, if one was seen."""
    spans: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    notices: defaultdict[int, list[int]] = defaultdict(list)
    for operation in operations:
        if operation.data_ns is not None:
            spans[operation.src, operation.dst].append((operation.data_ns, operation.done[operation.src]))
        if operation.ready_ns is not None:
            notices[operation.dst].append(operation.ready_ns)
    for of_pair in spans.values():
        of_pair.sort()
    for of_rank in notices.values():
        of_rank.sort()
    found = {}
    for number, operation in enumerate(operations):
        if (left_ns := operation.ready_ns) is None:
            continue
        ahead = spans[operation.dst, operation.src]
        before = bisect_right(ahead, (left_ns, left_ns))
        first_ns, last_ns = ahead[before - 1] if before else (left_ns, 0)
        is_behind = left_ns <= last_ns + TOLERANCE_NS
        since = notices[operation.dst]
        found[number] = since[bisect_left(since, first_ns)] if is_behind else left_ns
    return found


def _may_be_handed_over(operation: Operation, now_ns: int) -> bool:
    """To the kernel of its source, which lets it out as fast as the link takes it."""
    assert operation.data_ns is not None
    left_ns = operation.done[operation.src] - operation.data_ns
    return (now_ns - operation.data_ns) * LEAST_SENT >= left_ns
