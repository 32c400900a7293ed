"""Messages of a connection whose framing is unknown: cut at pauses of the sender, and marked as a guess.

What an application writes at once leaves as packets close together, the last of them with PSH (RFC 9293,
3.9.1).  The connection's own distribution of pauses shows which are between messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.beginnings import Beginnings, Mask
from gradwire.traces.framing.frames import SEND, UNKNOWN_TAG, Fit, Found, Frame, MessageKind, Reading
from gradwire.traces.packets.cover import Ints, are_among
from gradwire.traces.packets.streams import Connection, Stream
from gradwire.traces.units import show_count, show_nbytes

MIN_NBYTES = 1 << 16  # of a connection: what carries less trains nothing
MIN_PAUSE_NS, MAX_PAUSE_NS = 50_000, 10**9  # shorter ones are inside messages, longer ones between them
MIN_RATIO = 4  # between the two kinds of pauses, else they are one kind
HEADERS_NBYTES = 62  # of payload: what a snaplen of 128 leaves, enough for the framings' headers
MAX_LOOKED_AT = 1_000  # packets of a stream
_TWO_KINDS, _ONE_KIND = 0.1, 0.05
# How a side of something else begins.
_NOT_TRAINING = (b"SSH-", b"GET ", b"POST ", b"PUT ", b"HEAD ", b"HTTP/1.")


@dataclass(frozen=True)
class Pauses:
    """Where a stream may be cut: `after` are the offsets at which writes ended, `ns` how long it then paused.

    A pause of `threshold_ns` or more is between two messages; `inside_ns` and `between_ns` are the medians of
    both kinds, `are_two_kinds` whether they are far apart.
    """

    after: Ints
    ns: Ints
    threshold_ns: int
    inside_ns: int
    between_ns: int
    are_two_kinds: bool


class Plain:
    """Each burst is a message `send`; its purpose is unknown."""

    name = "plain"
    is_training = True
    most_confidence = _TWO_KINDS

    def fit(self, connection: Connection) -> Fit | None:
        """Anything large that does not begin like SSH or HTTP/1."""
        nbytes = sum(stream.nbytes for stream in connection.streams)
        if nbytes < MIN_NBYTES or any(
            stream.visible.read(0, 8).startswith(_NOT_TRAINING) for stream in connection.streams
        ):
            return None
        largest = max(connection.streams, key=lambda stream: stream.nbytes)
        return _judged(pauses(largest), largest)

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where too little is carried."""
        return np.add.reduceat(seen.nbytes, seen.first) < MIN_NBYTES

    def read(self, connections: Sequence[Connection]) -> Found:
        readings = tuple(
            Reading(stream, bursts(stream)) for connection in connections for stream in connection.streams
        )
        messages = show_count(
            sum(len(one.frames) for one in readings), "message is a burst", "messages are bursts"
        )
        note = (
            f"framing unknown: {messages} between pauses of their senders "
            f"in {show_count(len(connections), 'connection')}, a guess"
        )
        return Found(readings, notes=(note, *_short(connections)))


def _short(connections: Sequence[Connection]) -> list[str]:
    """Whether so little of each packet was captured that a framing may be hidden that would be known."""
    seen = [
        len(stream.visible.read(at, HEADERS_NBYTES))
        for connection in connections
        for stream in connection.streams
        for at in stream.visible.starts_from(0, MAX_LOOKED_AT)
        if at + HEADERS_NBYTES <= stream.nbytes
    ]
    if not seen or max(seen) == HEADERS_NBYTES:
        return []
    few = f"of no packet more than {max(seen)} bytes of payload were captured"
    return [f"{few}, too few to recognise gloo, Open MPI or gRPC: capture with tcpdump -s 128 or more"]


def _judged(found: Pauses, stream: Stream) -> Fit:
    if not found.are_two_kinds:
        return Fit(_ONE_KIND, f"a guess: {show_nbytes(stream.nbytes)} without two kinds of pauses to cut by")
    n_bursts = int((found.ns >= found.threshold_ns).sum()) + 1
    return Fit(
        _TWO_KINDS,
        f"a guess: {n_bursts} bursts of {show_nbytes(stream.nbytes // n_bursts)} on average, between "
        f"pauses of {found.between_ns / 1e6:.3g} ms; inside them pauses of {found.inside_ns / 1e6:.3g} ms "
        "(medians)",
    )


def bursts(stream: Stream) -> tuple[Frame, ...]:
    """The messages of a stream; together they take all of it."""
    found = pauses(stream)
    cuts = [0, *found.after[found.ns >= found.threshold_ns].tolist(), stream.nbytes]
    return tuple(
        Frame(start, end - start, MessageKind.DATA, SEND, UNKNOWN_TAG, end - start)
        for start, end in pairwise(cuts)
        if end > start
    )


def pauses(stream: Stream) -> Pauses:
    """The pauses of a stream behind its writes, and which of them are long.

    Where no packet has PSH any packet may be a write's last.
    """
    cover, time_ns = stream.sent.cover, stream.sent.in_order.time_ns
    ns = np.diff(time_ns)
    after = cover.end[:-1]
    if len(stream.pushed_at):
        is_end = are_among(after, stream.pushed_at)
        ns, after = ns[is_end], after[is_end]
    threshold_ns, are_two_kinds = _threshold(ns)
    is_long = ns >= threshold_ns
    return Pauses(after, ns, threshold_ns, _median(ns[~is_long]), _median(ns[is_long]), are_two_kinds)


def _median(ns: Ints) -> int:
    return int(np.median(ns)) if len(ns) else 0


def _threshold(ns: Ints) -> tuple[int, bool]:
    """The pause that parts short ones from long ones, within the bounds, and whether there are two kinds.

    It is where the variance between the two classes of the pauses' logarithms is greatest (Otsu, IEEE Trans.
    SMC 9(1), 1979, eq. 18), since pauses spread over magnitudes.
    """
    spread = np.log(np.sort(np.maximum(ns, 1)).astype(np.float64))
    if len(spread) < 2 or spread[0] == spread[-1]:
        return MAX_PAUSE_NS if not len(spread) else _bounded(int(np.median(ns))), False
    below = np.arange(1, len(spread), dtype=np.float64)
    sums = np.cumsum(spread)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (len(spread) - below)
    between: npt.NDArray[np.float64] = below * (len(spread) - below) * (high - low) ** 2
    best = int(np.argmax(between))
    if high[best] - low[best] < np.log(MIN_RATIO):
        return _bounded(int(ns.min())), False
    return _bounded(int(np.exp((low[best] + high[best]) / 2))), True


def _bounded(ns: int) -> int:
    return min(max(ns, MIN_PAUSE_NS), MAX_PAUSE_NS)
