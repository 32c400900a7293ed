"""Finds operations in messages: whole collectives, and single messages for everything else."""

import itertools
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import UNKNOWN_OPERATION, UNKNOWN_TAG, MessageKind
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.algorithms import PATTERNS
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.tagged import by_tag, of_tagged, tagged
from gradwire.traces.recognition.untagged import untagged
from gradwire.traces.units import show_count, show_first, show_nbytes

MOST_NAMED = 5


def operations(
    messages: Messages, all_visible: bool, seen_from: Collection[int] = ()
) -> tuple[list[Operation], list[str]]:
    """Operations in the order in which they began, and notes about those left out as cut by the
    capture's ends.

    With `all_visible` nothing of the streams is hidden, so data that was announced but not seen was not
    sent.  `seen_from` are the ranks whose part alone was seen (none: all of them).
    """
    found, left, untagged_notes = untagged(messages)
    collectives, cut = tagged(messages, all_visible, seen_from)
    found += collectives
    is_single = ~of_tagged(messages) & ((messages.tag != UNKNOWN_TAG) | ~_is_cut(messages))
    is_single[left] = True
    for rows in by_tag(messages, np.flatnonzero(is_single)):
        found += _messages(messages.where(rows))
    notes = [f"left out, cut by the capture's ends: {', '.join(cut)}"] if cut else []
    notes += untagged_notes + _in_part(found) + _unusual(found) + _nameless(found)
    return _numbered(sorted(found, key=lambda operation: operation.begin_ns)), notes


def _is_cut(messages: Messages) -> npt.NDArray[np.bool_]:
    """Rows of the operations that `untagged` cuts into instances."""
    return np.isin(messages.operation, [i for i, name in enumerate(messages.operations) if name in PATTERNS])


def _numbered(found: list[Operation]) -> list[Operation]:
    """What has no tag gets one: its place among the collectives, or 0 for a message."""
    collectives = itertools.count()
    return [
        replace(o, tag=next(collectives) if o.kind != "message" else 0) if o.tag == UNKNOWN_TAG else o
        for o in found
    ]


def _in_part(found: list[Operation]) -> list[str]:
    tags = [f"{o.kind} {o.tag}" for o in found if not o.is_whole]
    if not tags:
        return []
    some = show_first(tags, MOST_NAMED)
    return [f"known in part, for the capture hides some of their messages: {some}"]


def _unusual(found: list[Operation]) -> list[str]:
    unknown = [o for o in found if not o.is_usual and o.recognised.name == "unknown"]
    tags = [f"{operation.kind} {operation.tag}" for operation in unknown]
    if not tags:
        return []
    some = show_first(tags, MOST_NAMED)
    return [f"other sends than gloo's ring or tree, which as-captured replays in their place: {some}"]


def _nameless(found: list[Operation]) -> list[str]:
    nameless = [o for o in found if o.kind == "message" and o.what == UNKNOWN_OPERATION]
    if not nameless:
        return []
    some = f"{show_count(len(nameless), 'message')} ({show_nbytes(sum(o.nbytes for o in nameless))})"
    return [f"the headers of {some} were not captured: a collective that they belong to is not whole here"]


def _messages(messages: Messages) -> list[Operation]:
    """One operation for each data message of one tag; it began when its source announced it.

    gloo serves the sends of one pair and tag in order, so the i-th announcement is the i-th message's.
    """
    asked: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    ready: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    notices = (messages.kind, messages.src, messages.dst, messages.first_ns)
    for kind, src, dst, first_ns in zip(*(column.tolist() for column in notices), strict=True):
        if kind == MessageKind.SEND_READY:
            asked[src, dst].append(first_ns)
        elif kind == MessageKind.RECV_READY:
            ready[dst, src].append(first_ns)
    found: defaultdict[tuple[int, int], list[Operation]] = defaultdict(list)
    data = messages.where(messages.is_data & messages.whole)
    name = messages.operations[messages.operation[0]]
    columns = (data.src, data.dst, data.tag, data.nbytes, data.first_ns, data.last_ns, data.received_ns)
    for src, dst, tag, nbytes, first, last, received in zip(*(c.tolist() for c in columns), strict=True):
        found[src, dst].append(
            Operation(
                "message",
                name,
                tag,
                nbytes,
                src,
                dst,
                {src: first},
                {src: last, dst: received},
                data_ns=first,
            )
        )
    return [
        operation
        for pair, some in found.items()
        for operation in _ready_when(_begun_when(some, asked[pair]), ready[pair])
    ]


def _begun_when(operations_: list[Operation], ready_ns: list[int]) -> list[Operation]:
    if len(ready_ns) != len(operations_):  # one of them is cut off or hidden: the data itself must do
        return operations_
    return [
        replace(o, begun={o.src: min(ns, o.begin_ns)}) for o, ns in zip(operations_, ready_ns, strict=True)
    ]


def _ready_when(operations_: list[Operation], ready_ns: list[int]) -> list[Operation]:
    if len(ready_ns) != len(operations_):
        return operations_
    return [replace(o, ready_ns=ns) for o, ns in zip(operations_, ready_ns, strict=True)]
