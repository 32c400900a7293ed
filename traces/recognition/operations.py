"""Operations found in messages: each collective whole, everything else message by message."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from traces.framing.frames import Kind as Sort
from traces.framing.messages import Messages
from traces.schedules.collectives import ELEMENT_NBYTES, binomial_broadcast, gloo_ring

Kind = Literal["allreduce", "broadcast", "message"]
MOST_NAMED = 5
_WHOLE: tuple[Literal["allreduce", "broadcast"], ...] = ("allreduce", "broadcast")


@dataclass(frozen=True)
class Operation:
    """`begun` is when each rank's first byte of it was sent, `done` when its last was sent or had
    arrived there.

    A message has `src` and `dst`, a broadcast its root as `src`.  `what` is gloo's name of the
    collective that a message belongs to, or `send`.  `is_usual`: its sends are those of gloo's own
    algorithm for it, with which it is replayed as captured.
    """

    kind: Kind
    what: str
    tag: int
    nbytes: int
    src: int
    dst: int
    begun: dict[int, int]
    done: dict[int, int]
    is_usual: bool = True

    @property
    def begin_ns(self) -> int:
        return min(self.begun.values())

    @property
    def end_ns(self) -> int:
        return max(self.done.values())


def operations(messages: Messages, all_visible: bool) -> tuple[list[Operation], list[str]]:
    """Operations in the order in which they began, and notes about those left out as cut by the
    capture's ends.

    With `all_visible` nothing of the streams is hidden, so data that was announced but not seen was not
    sent.
    """
    found: list[Operation] = []
    cut: list[str] = []
    is_whole = np.logical_or.reduce([messages.of(name) for name in _WHOLE])
    for rows in _groups(messages, np.flatnonzero(is_whole)):
        operation = _collective(messages.where(rows), all_visible)
        if isinstance(operation, str):
            cut.append(operation)
        else:
            found.append(operation)
    for rows in _groups(messages, np.flatnonzero(~is_whole)):
        found += _messages(messages.where(rows))
    notes = [f"left out, cut by the capture's ends: {', '.join(cut)}"] if cut else []
    notes += _unusual(found)
    return sorted(found, key=lambda operation: operation.begin_ns), notes


def _unusual(found: list[Operation]) -> list[str]:
    tags = [f"{operation.kind} {operation.tag}" for operation in found if not operation.is_usual]
    if not tags:
        return []
    some = ", ".join(tags[:MOST_NAMED]) + (
        f" and {len(tags) - MOST_NAMED} more" if len(tags) > MOST_NAMED else ""
    )
    return [f"other sends than gloo's ring or tree, which as-captured replays in their place: {some}"]


def _groups(messages: Messages, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """The rows by collective and tag, each group in time order."""
    order = np.lexsort((rows, messages.tag[rows], messages.operation[rows]))
    rows = rows[order]
    if not len(rows):
        return
    changes = (np.diff(messages.tag[rows]) != 0) | (np.diff(messages.operation[rows]) != 0)
    yield from np.split(rows, np.flatnonzero(changes) + 1)


def _collective(messages: Messages, all_visible: bool) -> Operation | str:
    """The operation, or what it is called if the capture holds a part of it only."""
    name = messages.operations[messages.operation[0]]
    tag = int(messages.tag[0])
    data = messages.where(messages.is_data)
    announced = _announced(messages)
    n_ranks = len(messages.addresses)
    senders, receivers = set(data.src.tolist()), set(data.dst.tolist())
    total = sum(length * count for (_, _, length), count in announced.items())
    roots = senders - receivers
    nbytes = max((length for _, _, length in announced), default=0)
    if name == "allreduce":
        # A ring and halving-doubling alike send 2(n-1)/n of the buffer from each of n ranks.
        nbytes, odd = divmod(total, 2 * (n_ranks - 1))
        is_part = odd or len(senders) < n_ranks or len(receivers) < n_ranks
    else:
        is_part = len(roots) != 1 or len(receivers) != n_ranks - 1
    if is_part or not data.whole.all() or (all_visible and announced.total() != len(data)):
        return f"{name} tag {tag}"
    return Operation(
        kind="allreduce" if name == "allreduce" else "broadcast",
        what=name,
        tag=tag,
        nbytes=nbytes,
        src=min(roots, default=0),
        dst=0,
        begun=_earliest(messages.src, messages.first_ns),
        done=_latest(np.append(data.src, data.dst), np.append(data.last_ns, data.received_ns)),
        is_usual=announced == _usual(name, n_ranks, nbytes, min(roots, default=0)),
    )


@lru_cache(maxsize=256)
def _usual(name: str, n_ranks: int, nbytes: int, root: int) -> Counter[tuple[int, int, int]]:
    """Sends by source, destination and length, as gloo itself makes them."""
    if name == "broadcast":
        sends = binomial_broadcast(n_ranks, nbytes, root)
    else:
        sends = gloo_ring(n_ranks, nbytes) if nbytes % ELEMENT_NBYTES == 0 else []
    return Counter((send.src, send.dst, send.nbytes) for send in sends)


def _announced(messages: Messages) -> Counter[tuple[int, int, int]]:
    """Sends by source, destination and length, from whatever shows most of them: data or either notice."""
    counts: defaultdict[int, Counter[tuple[int, int, int]]] = defaultdict(Counter)
    columns = (messages.kind, messages.src, messages.dst, messages.nbytes)
    for kind, src, dst, nbytes in zip(*(column.tolist() for column in columns), strict=True):
        ends = (dst, src) if kind == Sort.RECV_READY else (src, dst)
        counts[kind][*ends, nbytes] += 1
    return counts[Sort.DATA] | counts[Sort.SEND_READY] | counts[Sort.RECV_READY]


def _messages(messages: Messages) -> list[Operation]:
    """One operation for each data message of one tag; it began when its source announced it.

    gloo serves the sends of one pair and tag in order, so the i-th announcement is the i-th message's.
    """
    ready: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    notices = messages.where(messages.kind == Sort.SEND_READY)
    for src, dst, first_ns in zip(
        notices.src.tolist(), notices.dst.tolist(), notices.first_ns.tolist(), strict=True
    ):
        ready[src, dst].append(first_ns)
    found: defaultdict[tuple[int, int], list[Operation]] = defaultdict(list)
    data = messages.where(messages.is_data & messages.whole)
    name = messages.operations[messages.operation[0]]
    columns = (data.src, data.dst, data.tag, data.nbytes, data.first_ns, data.last_ns, data.received_ns)
    for src, dst, tag, nbytes, first, last, received in zip(*(c.tolist() for c in columns), strict=True):
        found[src, dst].append(
            Operation("message", name, tag, nbytes, src, dst, {src: first}, {src: last, dst: received})
        )
    return [operation for pair, some in found.items() for operation in _begun_when(some, ready[pair])]


def _begun_when(operations_: list[Operation], ready_ns: list[int]) -> list[Operation]:
    if len(ready_ns) != len(operations_):  # one of them is cut off or hidden: the data itself must do
        return operations_
    return [
        replace(o, begun={o.src: min(ns, o.begin_ns)}) for o, ns in zip(operations_, ready_ns, strict=True)
    ]


def _earliest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].min()) for rank in np.unique(ranks)}


def _latest(ranks: npt.NDArray[np.int32], times: npt.NDArray[np.int64]) -> dict[int, int]:
    return {int(rank): int(times[ranks == rank].max()) for rank in np.unique(ranks)}
