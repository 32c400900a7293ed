"""Collectives whose messages carry no instance number: cut apart, and joined if two make an allreduce.

Of exchanges it says in which the two directions took turns.  In MPI a large message waits for its receiver's
answer to its announcement.  The answer takes its place in what the receiver sends the sender, so behind its
own data of the same exchange if it has handed those over first: then nothing is sent both ways at once.  The
offsets in the TCP stream show it, whatever the times are.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import (
    ALLREDUCE,
    BARRIER,
    BROADCAST,
    UNKNOWN_OPERATION,
    UNKNOWN_TAG,
    MessageKind,
)
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
from gradwire.traces.units import show_count
from gradwire.traces.workload import EXCHANGES, Turn

KINDS: dict[str, OperationKind] = {ALLREDUCE: "allreduce", BROADCAST: "broadcast"}
Rows = npt.NDArray[np.int64]
NOT_ANSWERED = -1


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
        notes.append(f"left out, they carry nothing: {show_count(counts[BARRIER], 'barrier')}")
    if found.ends:
        ends = sorted(found.ends.items())
        some = ", ".join(f"{show_count(count, 'message')} of {name}" for name, count in ends)
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


def answers_of(messages: Messages, operation: str) -> Rows:
    """For each row the row of the answer that it waited for, or -1.

    Whether a message waits for an answer depends on its size alone, and answers keep the order of the
    messages of a pair of ranks.  Of a pair with more of either, some are hidden, and none is matched.
    """
    found = np.full(len(messages), NOT_ANSWERED, np.int64)
    of = messages.of(operation)
    answers = of & (messages.kind == MessageKind.RECV_READY) & (messages.nbytes > 0)
    asked = of & messages.is_data & np.isin(messages.nbytes, messages.nbytes[answers])
    answered = _by_pair(messages.dst, messages.src, messages, np.flatnonzero(answers))
    for pair, rows in _by_pair(messages.src, messages.dst, messages, np.flatnonzero(asked)).items():
        theirs = answered.get(pair, [])
        if len(theirs) == len(rows) and (messages.nbytes[theirs] == messages.nbytes[rows]).all():
            found[rows] = theirs
    return found


def _by_pair(
    src: npt.NDArray[np.int32], dst: npt.NDArray[np.int32], messages: Messages, rows: Rows
) -> dict[tuple[int, int], list[int]]:
    """The rows of each ordered pair of ranks, in the order of their streams."""
    pairs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows[np.lexsort((messages.offset[rows], messages.connection[rows]))].tolist():
        pairs[int(src[row]), int(dst[row])].append(row)
    return dict(pairs)


def turns_of(messages: Messages, rows: Rows, answers: Rows) -> tuple[Turn, ...]:
    """Which data `rows` of one collective were answered behind the data of the same number the other way.

    Neither of an exchange both of whose ways are said to be: damaged bytes can say so.
    """
    pairs = _by_pair(messages.src, messages.dst, messages, rows)
    found = []
    for (src, dst), theirs in sorted(pairs.items()):
        for number, (row, back) in enumerate(zip(theirs, pairs.get((dst, src), ()), strict=False)):
            answer = answers[row]
            if answer == NOT_ANSWERED or messages.connection[answer] != messages.connection[back]:
                continue
            if messages.offset[answer] >= messages.offset[back] + messages.nbytes[back]:
                found.append(Turn(src=src, dst=dst, number=number))
    ways = {(turn.src, turn.dst, turn.number) for turn in found}
    return tuple(turn for turn in found if (turn.dst, turn.src, turn.number) not in ways)
