"""Message tables as a capture of a job would give them, made from schedules."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from gradwire.traces.framing.frames import UNKNOWN_TAG, MessageKind
from gradwire.traces.framing.messages import Messages
from gradwire.traces.schedules.sends import Send

Call = tuple[str, Sequence[Send]]  # the operation's name, and its sends with ids from 0 on


def played(n_ranks: int, calls: Iterable[Call], *, gap_ns: int = 5_000, jitter: int = 0) -> Messages:
    """Every rank does one call after the other, computing `gap_ns` between; nothing tells the instances.

    A send takes 1 µs and a ns for 10 bytes; a rank's sends leave one by one.  `jitter` seeds delays of up
    to 3 µs.
    """
    rng = np.random.default_rng(jitter)
    free = [0] * n_ranks  # when the rank has finished the call before
    rows: list[tuple[int, int, int, int, int, int, str]] = []
    for name, sends in calls:
        arrived: dict[int, int] = {}
        wire = list(free)
        busy: defaultdict[int, int] = defaultdict(int)
        lane: defaultdict[tuple[int, int], int] = defaultdict(int)
        for number, send in enumerate(sends):
            needs = [arrived[other] for other in send.needs]
            begin = max([wire[send.src], *needs]) + 10 + (int(rng.integers(3000)) if jitter else 0)
            last = begin + send.nbytes // 10
            landed = max(last + 1000, lane[send.src, send.dst] + 1)
            wire[send.src] = last
            arrived[number] = lane[send.src, send.dst] = landed
            rows.append((send.src, send.dst, send.nbytes, begin, last, landed, name))
            busy[send.src] = max(busy[send.src], last)
            busy[send.dst] = max(busy[send.dst], landed)
        free = [max(free[r], busy[r]) + gap_ns for r in range(n_ranks)]
    return table(n_ranks, rows)


def table(n_ranks: int, rows: Sequence[tuple[int, int, int, int, int, int, str]]) -> Messages:
    """Rows of (src, dst, nbytes, first_ns, last_ns, received_ns, operation), without tags."""
    operations = sorted({row[6] for row in rows})
    src, dst, nbytes, first, last, received, _ = zip(*rows, strict=True)
    offset: defaultdict[tuple[int, int], int] = defaultdict(int)
    offsets = []
    for row in rows:
        offsets.append(offset[row[0], row[1]])
        offset[row[0], row[1]] += row[2] + 22
    count = len(rows)
    messages = Messages(
        addresses=tuple(f"10.0.0.{rank + 1}" for rank in range(n_ranks)),
        operations=tuple(operations),
        src=np.array(src, np.int32),
        dst=np.array(dst, np.int32),
        connection=np.array([s * n_ranks + d for s, d in zip(src, dst, strict=True)], np.int32),
        kind=np.full(count, MessageKind.DATA, np.uint8),
        operation=np.array([operations.index(row[6]) for row in rows], np.int32),
        tag=np.full(count, UNKNOWN_TAG, np.int64),
        offset=np.array(offsets, np.int64),
        nbytes=np.array(nbytes, np.int64),
        first_ns=np.array(first, np.int64),
        last_ns=np.array(last, np.int64),
        received_ns=np.array(received, np.int64),
        whole=np.full(count, True),
        recovered=np.full(count, False),
        retransmitted=np.zeros(count, np.int32),
    )
    return messages.where(np.argsort(messages.first_ns, kind="stable"))
