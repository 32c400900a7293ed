"""Splits messages into instances of a collective, where they name the collective but not the instance.

Each instance takes the next messages of some lanes (`traces.recognition.lanes`); the patterns say which.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import UNKNOWN_TAG
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.algorithms import PATTERNS, best_match
from gradwire.traces.recognition.lanes import Ahead, Pair, lanes_of
from gradwire.traces.recognition.patterns import PatternMatch

MAX_FAILURES = 2_000  # in a row, after which the rest of a kind's messages is left as messages


@dataclass(frozen=True)
class Instance:
    """One collective: its messages are `rows`."""

    operation: str
    match: PatternMatch
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True)
class InstancesFound:
    """`left` are the data messages in which no instance was found, but for `ends`: operations that the
    capture holds a part of only, and how many messages of them.
    """

    instances: tuple[Instance, ...]
    left: npt.NDArray[np.int64]
    ends: Mapping[str, int]


def cut(messages: Messages) -> InstancesFound:
    """Cut all data messages of collectives that have no tag; those that have one are not looked at."""
    numbers = {number: name for number, name in enumerate(messages.operations) if name in PATTERNS}
    untagged = messages.is_data & messages.whole & (messages.tag == UNKNOWN_TAG)
    untagged &= np.isin(messages.operation, list(numbers))
    rows = np.flatnonzero(untagged)
    run = turns(messages, rows)
    instances: list[Instance] = []
    left: list[int] = []
    ends: dict[str, int] = {}
    for number, name in numbers.items():
        chosen = messages.operation[rows] == number
        if chosen.any():
            found, cut_off, between = _cut_one(name, lanes_of(messages, rows[chosen], run[chosen]))
            instances += found
            left += between
            ends[name] = len(cut_off)
    return InstancesFound(
        tuple(instances), np.array(sorted(left), np.int64), {n: c for n, c in ends.items() if c}
    )


def _cut_one(name: str, ahead: Ahead) -> tuple[list[Instance], list[int], list[int]]:
    """Instances, and the rows in none: those before the first and after the last, and those between.

    If there are no instances, all are between.
    """
    found: list[Instance] = []
    left: list[tuple[int, int]] = []  # (number of instances found before, row)
    failures = 0
    while (head := ahead.earliest()) is not None:
        match = best_match(name, ahead) if failures < MAX_FAILURES else None
        if match and found and _is_piece(match, found[-1].match):
            match = None
        if (
            match and failures and ahead.is_parted(match.counts)
        ):  # the end of one instance and the next's begin
            match = None
        counts: Mapping[Pair, int] = match.counts if match else {head: 1}
        rows = [row for pair, count in counts.items() for row in ahead.rows(pair, count)]
        if match:
            found.append(Instance(name, match, np.array(sorted(rows), np.int64)))
            failures = 0
        else:
            left += ((len(found), row) for row in rows)
            failures += 1
        ahead = ahead.past(counts)
    ends = [row for before, row in left if found and before in (0, len(found))]
    return found, ends, [row for before, row in left if not found or before not in (0, len(found))]


def _is_piece(match: PatternMatch, before: PatternMatch) -> bool:
    """Whether this small ring is rather the beginning of a segmented one whose end was not captured."""
    if (match.name, before.name) != ("ring", "segmented-ring"):
        return False
    return max(match.sizes) in before.sizes


def turns(messages: Messages, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each row how often its source had turned to another operation and back to the row's before.

    What a rank sends and receives both count: a leaf of a tree sends nothing in a broadcast.
    """
    sends = zip(messages.first_ns[rows], messages.src[rows], messages.operation[rows], strict=True)
    arrivals = zip(messages.received_ns[rows], messages.dst[rows], messages.operation[rows], strict=True)
    events = [(int(ns), 0, i, int(rank), int(op)) for i, (ns, rank, op) in enumerate(arrivals)]
    events += [(int(ns), 1, i, int(rank), int(op)) for i, (ns, rank, op) in enumerate(sends)]
    run = np.zeros(len(rows), np.int64)
    count: Counter[tuple[int, int]] = Counter()
    turned: defaultdict[int, set[int]] = defaultdict(set)  # operations that the rank has left
    known: defaultdict[int, set[int]] = defaultdict(set)
    for _, is_send, i, rank, op in sorted(events):
        known[rank].add(op)
        turned[rank] |= known[rank] - {op}
        if is_send:
            if op in turned[rank]:
                turned[rank].discard(op)
                count[rank, op] += 1
            run[i] = count[rank, op]
    return run


def in_order(some: Sequence[Instance], messages: Messages) -> list[Instance]:
    """By the time at which they began."""
    return sorted(some, key=lambda instance: int(messages.first_ns[instance.rows].min()))
