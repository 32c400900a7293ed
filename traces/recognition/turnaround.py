"""How long a host takes from the arrival of data to its next send, inside collectives.

Between two steps of a collective nothing is computed but a sum: what passes between an arrival at the
interface and the send that it sets off is the kernel's, the scheduler's and the library's time.  As much is
spent between the end of one collective and the program, and between the program and the beginning of the
next, where it would pass for computing.
"""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import UNKNOWN_TAG
from gradwire.traces.framing.messages import Messages

# The first sends of a collective at a rank the program sets off, not an arrival: gloo keeps two under way,
# MPI, whose messages have no tags, one.
FIRST_SENDS, FIRST_UNTAGGED = 2, 1
LEAST_STEPS = 20
LONGEST = 0.05  # of all steps are left out: those waited for something else, which the captures do not show

Times = npt.NDArray[np.int64]


def turnarounds_ns(
    messages: Messages, which: npt.NDArray[np.bool_], begun_ns: Mapping[int, Collection[int]]
) -> dict[int, int]:
    """The mean turnaround of each rank that shows enough of them.

    `which` are the rows of collectives, `begun_ns` has for each rank when its operations began, for not all
    messages say to which they belong.
    """
    found = {}
    data = which & messages.is_data & ~messages.recovered
    for rank in range(len(messages.addresses)):
        sent = np.flatnonzero(data & (messages.src == rank))
        begins = np.isin(messages.first_ns[sent], np.array([*begun_ns.get(rank, ())], np.int64))
        steps = _steps_ns(messages, sent, np.flatnonzero(which & (messages.dst == rank)), begins)
        if len(steps) >= LEAST_STEPS:
            kept = np.sort(steps)[: max(1, int(len(steps) * (1 - LONGEST)))]
            found[rank] = int(kept.mean())
    return found


def _steps_ns(messages: Messages, sent: Times, arrived: Times, begins: npt.NDArray[np.bool_]) -> Times:
    """From the last arrival of the same collective to a send, where something arrived since the send before
    and none of the rank's own sends was still leaving, which this one would have had to wait for.

    `begins` says which of the sends begin an operation.
    """
    if not len(sent) or not len(arrived):
        return np.empty(0, np.int64)
    key = messages.operation.astype(np.int64) << 40 | messages.tag
    by_time = np.argsort(messages.first_ns[sent], kind="stable")
    sent, begins = sent[by_time], begins[by_time]
    left_ns = np.append(0, np.maximum.accumulate(messages.last_ns[sent])[:-1])  # all before it
    by_key = np.argsort(key[sent], kind="stable")
    sent, begins, left_ns = sent[by_key], begins[by_key], left_ns[by_key]
    arrived = arrived[np.argsort(messages.received_ns[arrived], kind="stable")]
    times_ns, collective = messages.first_ns[sent], key[sent]
    last = np.searchsorted(messages.received_ns[arrived], times_ns, "right") - 1
    first = np.flatnonzero(begins | (np.diff(collective, prepend=collective[0] - 1) != 0))
    place = np.arange(len(sent)) - np.repeat(first, np.diff(first, append=len(sent)))
    before = arrived[np.maximum(last, 0)]
    n_first = np.where(messages.tag[sent] == UNKNOWN_TAG, FIRST_UNTAGGED, FIRST_SENDS)
    is_step = (place >= n_first) & (last >= 0) & (key[before] == collective)
    is_step &= messages.received_ns[before] > np.roll(times_ns, 1)
    is_step &= left_ns <= messages.received_ns[before]
    steps: Times = (times_ns - messages.received_ns[before])[is_step]
    return steps
