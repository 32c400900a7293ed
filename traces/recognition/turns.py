"""Exchanges in which the two directions took turns: one rank answered only after its own data.

In MPI a large message waits for its receiver's answer to its announcement.  The answer takes its place in
what the receiver sends the sender, so behind its own data of the same exchange if it has handed those over
first: then nothing is sent both ways at once.  The offsets in the TCP stream show it, whatever the times are.
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import Messages
from gradwire.traces.workload import Turn

Rows = npt.NDArray[np.int64]
NOT_ANSWERED = -1


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
