"""Collectives whose messages carry no instance number: cut apart, and joined if two make an allreduce."""

from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import ALLREDUCE, BARRIER, BROADCAST, UNKNOWN_OPERATION, UNKNOWN_TAG
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.algorithms import REDUCE, Recognised, recognised
from gradwire.traces.recognition.instances import Instance, InstancesFound, cut, in_order
from gradwire.traces.recognition.operation import (
    Operation,
    OperationKind,
    Trees,
    earliest,
    handed_over_ns,
    latest,
)
from gradwire.traces.recognition.patterns import AMBIGUOUS
from gradwire.traces.recognition.turns import NOT_ANSWERED, Rows, answers_of, turns_of
from gradwire.traces.workload import EXCHANGES, Turn

KINDS: dict[str, OperationKind] = {ALLREDUCE: "allreduce", BROADCAST: "broadcast"}


def untagged(messages: Messages) -> tuple[list[Operation], npt.NDArray[np.int64], list[str]]:
    """Allreduces and broadcasts in the order of their beginnings; the rows of messages left; notes.

    Barriers have done their service when the rest is cut; they carry nothing and are left out.
    """
    found = cut(messages)
    instances = in_order(found.instances, messages)
    operations: list[Operation] = []
    left = [found.left]
    counts: Counter[str] = Counter()
    place = 0
    answers = {name: answers_of(messages, name) for name in {one.operation for one in instances}}
    while place < len(instances):
        one, following = instances[place], instances[place + 1 : place + 2]
        place += 1
        counts[one.operation] += 1
        if one.operation == REDUCE and following and _is_its_broadcast(one, following[0], messages):
            operations.append(_reduce_broadcast(one, following[0], messages))
            counts[BROADCAST] += 1
            place += 1
        elif one.operation in KINDS:
            operations.append(_operation(one, messages, answers[one.operation]))
        elif one.operation == REDUCE:
            left.append(one.rows)
    return operations, np.sort(np.concatenate(left)), _notes(messages, counts, found, operations)


def _operation(instance: Instance, messages: Messages, answers: Rows | None = None) -> Operation:
    match, some = instance.match, messages.where(instance.rows)
    trees: Trees | None = (None, match.shape) if match.shape else None
    turns: tuple[Turn, ...] = ()
    rendezvous = False
    if answers is not None and match.name in EXCHANGES:
        turns = turns_of(messages, instance.rows, answers)
    elif answers is not None:
        rendezvous = bool((answers[instance.rows] != NOT_ANSWERED).all())
    # The first byte of such a message is its announcement; the data follow when their turn comes.
    handed_ns = some.last_ns if turns else handed_over_ns(some)
    return Operation(
        kind=KINDS[instance.operation],
        what=instance.operation,
        tag=UNKNOWN_TAG,
        nbytes=match.nbytes,
        src=match.root,
        dst=0,
        begun=earliest(some.src, some.first_ns),
        done=latest(np.append(some.src, some.dst), np.append(handed_ns, some.received_ns)),
        is_usual=False,
        recognised=recognised(match),
        trees=trees,
        turns=turns,
        rendezvous=rendezvous,
    )


def _is_its_broadcast(reduction: Instance, other: Instance, messages: Messages) -> bool:
    """Whether the sum, of the same size, is spread from the same root when it is complete there."""
    up, down = reduction.match, other.match
    if other.operation != BROADCAST or (up.root, up.nbytes) != (down.root, down.nbytes):
        return False
    complete_ns = messages.received_ns[reduction.rows[messages.dst[reduction.rows] == up.root]].max()
    begun_ns = messages.first_ns[other.rows[messages.src[other.rows] == up.root]].min()
    return bool(begun_ns >= complete_ns)


def _reduce_broadcast(reduction: Instance, other: Instance, messages: Messages) -> Operation:
    both = Instance(ALLREDUCE, reduction.match, np.sort(np.append(reduction.rows, other.rows)))
    up, down = reduction.match, other.match
    evidence = f"added up, then spread: {up.evidence}; {down.evidence}"
    return replace(
        _operation(both, messages),
        recognised=Recognised("reduce-broadcast", min(up.confidence, down.confidence), evidence),
        trees=(up.shape, down.shape),
    )


def _notes(
    messages: Messages, counts: Counter[str], found: InstancesFound, operations: list[Operation]
) -> list[str]:
    notes = []
    if counts.total():
        some = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        notes.append(
            f"the messages do not say which collective of a kind they belong to; their order decided: {some}"
        )
    if counts[BARRIER]:
        notes.append(f"left out, they carry nothing: {counts[BARRIER]} barriers")
    if found.ends:
        some = ", ".join(f"{count} messages of {name}" for name, count in sorted(found.ends.items()))
        where = "the capture's ends"
        if (messages.of(UNKNOWN_OPERATION) & messages.is_data).any():
            where += " or by what it hides"
        notes.append(f"left out, cut by {where}: {some}")
    if len(found.left):
        names = Counter(messages.operations[number] for number in messages.operation[found.left])
        some = ", ".join(f"{count} of {name}" for name, count in sorted(names.items()))
        notes.append(f"in these messages no whole collective was found, each is one operation: {some}")
    unsure = sum(operation.recognised.confidence <= AMBIGUOUS for operation in operations)
    if unsure:
        notes.append(f"{unsure} collectives may be parts of larger ones: nothing shows where one ends")
    return notes
