"""How long a host takes between "data is here" and "the next send leaves", inside collectives.

Between two steps of a collective nothing is computed but a sum: what passes between an arrival at the
interface and the send that it sets off is the kernel's, the scheduler's and the library's time.  As much is
spent between the end of one collective and the program, and between the program and the beginning of the
next, where it would pass for computing.
"""

import numpy as np
import numpy.typing as npt

from traces.framing.messages import Messages

# The first sends of a collective at a rank the program sets off, not an arrival: gloo keeps two under way.
FIRST_SENDS = 2
LEAST_STEPS = 20
LONGEST = 0.05  # of all steps are left out: those waited for something else, which the captures do not show


def turnarounds_ns(messages: Messages, which: npt.NDArray[np.bool_]) -> dict[int, int]:
    """The mean turnaround of each rank that shows enough of them; `which` are the rows of collectives."""
    found = {}
    data = which & messages.is_data & ~messages.recovered
    for rank in range(len(messages.addresses)):
        sent = np.flatnonzero(data & (messages.src == rank))
        steps = _steps_ns(messages, sent, np.flatnonzero(which & (messages.dst == rank)))
        if len(steps) >= LEAST_STEPS:
            kept = np.sort(steps)[: max(1, int(len(steps) * (1 - LONGEST)))]
            found[rank] = int(kept.mean())
    return found


def _steps_ns(
    messages: Messages, sent: npt.NDArray[np.int64], arrived: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """From the last arrival of the same collective to a send, where something arrived since the send
    before.
    """
    if not len(sent) or not len(arrived):
        return np.empty(0, np.int64)
    key = messages.operation.astype(np.int64) << 40 | messages.tag
    sent = sent[np.lexsort((messages.first_ns[sent], key[sent]))]
    arrived = arrived[np.argsort(messages.received_ns[arrived], kind="stable")]
    times_ns, collective = messages.first_ns[sent], key[sent]
    last = np.searchsorted(messages.received_ns[arrived], times_ns, "right") - 1
    begins = np.flatnonzero(np.diff(collective, prepend=collective[0] - 1))
    place = np.arange(len(sent)) - np.repeat(begins, np.diff(begins, append=len(sent)))
    before = arrived[np.maximum(last, 0)]
    is_step = (place >= FIRST_SENDS) & (last >= 0) & (key[before] == collective)
    is_step &= messages.received_ns[before] > np.roll(times_ns, 1)
    steps: npt.NDArray[np.int64] = (times_ns - messages.received_ns[before])[is_step]
    return steps
