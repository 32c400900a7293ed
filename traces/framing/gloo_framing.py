"""gloo, PyTorch's TCP transport on CPUs, as a framing: see `traces.framing.gloo` for the wire format."""

from collections.abc import Sequence

import numpy as np

from gradwire.traces.framing.beginnings import Beginnings, Mask
from gradwire.traces.framing.frames import Fit, Found, Frame, Hidden, MessageKind, Reading
from gradwire.traces.framing.gloo import COLLECTIVES, HELLO_NBYTES, PREAMBLE_NBYTES, Opcode, unpack_slot
from gradwire.traces.framing.gloo_decode import GlooDecoded, GlooFrame, decode
from gradwire.traces.framing.gloo_hidden import Recovered, recover
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.streams import Connection
from gradwire.traces.workload import MAX_RANKS

_KINDS = {
    Opcode.SEND_BUFFER: MessageKind.DATA,
    Opcode.DATA: MessageKind.DATA,
    Opcode.SEND_READY: MessageKind.SEND_READY,
    Opcode.RECV_READY: MessageKind.RECV_READY,
}


class Gloo:
    """Messages that the snaplen hides are recovered from what both ends announce, where that is certain."""

    name = "gloo"
    is_training = True

    def fit(self, connection: Connection) -> Fit | None:
        """A preamble where one must be, or nothing but the opener's greeting."""
        readable = [one for stream in connection.streams if (one := decode(stream)) is not None]
        if readable:
            n_frames = sum(len(one.frames) for one in readable)
            return Fit(1.0, f"{n_frames} preambles of 48 bytes that gloo would write")
        if _only_greets(connection):
            return Fit(0.5, f"{HELLO_NBYTES} bytes from the opener, a rank's number, and nothing else")
        return None

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where no preamble can be in any stream, or what must be the first one is none."""
        start = np.where(seen.opens, HELLO_NBYTES, 0)
        length, opcode = seen.number_at(start), seen.number_at(start + 8)
        is_none = (length < PREAMBLE_NBYTES) | (opcode > Opcode.RECV_READY)
        is_read = seen.n_visible >= start + PREAMBLE_NBYTES
        is_short = seen.nbytes < start + PREAMBLE_NBYTES
        only_greets = seen.opens & (seen.nbytes == HELLO_NBYTES)
        knows_start = seen.opens | seen.answers
        return seen.all_of(knows_start & (is_short | (is_read & is_none)) & ~only_greets)

    def read(self, connections: Sequence[Connection]) -> Found:
        decoded: dict[Direction, GlooDecoded] = {}
        for connection in connections:
            for stream in connection.streams:
                one = decode(stream)
                if one is not None:
                    decoded[stream.direction] = one
        readings = tuple(_reading(one) for one in recover(decoded))
        return Found(readings, {host: frozenset(said) for host, said in _greetings(connections).items()})


def _only_greets(connection: Connection) -> bool:
    (opener,) = connection.streams[:1] or (None,)
    if opener is None or not opener.opener or len(connection.streams) > 1 or opener.nbytes != HELLO_NBYTES:
        return False
    return int.from_bytes(opener.visible.read(0, HELLO_NBYTES), "little") < MAX_RANKS


def _greetings(connections: Sequence[Connection]) -> dict[str, set[int]]:
    """What each host that opened a gloo connection said in its first 8 bytes: its rank.

    gloo numbers its pairs in the order of the ranks, and the opener names the pair it wants, its own
    (Context::createAndConnectAllPairs and Device::connectAsInitiator in gloo/transport/tcp); a later
    process group of the same job counts on.  A connection on which nothing else is ever sent counts
    too: it shows a host of the job with which there is no traffic.
    """
    said: dict[str, set[int]] = {}
    for connection in connections:
        for stream in connection.streams:
            if stream.opener and stream.nbytes >= HELLO_NBYTES:
                number = int.from_bytes(stream.visible.read(0, HELLO_NBYTES), "little")
                said.setdefault(stream.direction.src, set()).add(number)
                said.setdefault(stream.direction.dst, set())
    return said


def _reading(found: Recovered) -> Reading:
    return Reading(
        stream=found.stream,
        frames=tuple(map(_frame, found.frames)),
        hidden=tuple(Hidden(gap.start, gap.end) for gap in found.unresolved),
    )


def _frame(frame: GlooFrame) -> Frame:
    slot = unpack_slot(frame.slot)
    return Frame(
        offset=frame.offset,
        nbytes=frame.nbytes,
        kind=_KINDS[frame.opcode],
        operation=COLLECTIVES.get(slot.prefix, "send"),
        tag=slot.tag,
        payload_nbytes=frame.length,
        recovered=frame.recovered,
    )
