"""Joins Open MPI's fragments into MPI messages: which request asked for which data.

A large message's parts are joined by the numbers that both sides give them: a RNDV's request number is in the
PUT requests that answer it, and the address that those name in the PUTs (pml_ob1_recvreq.c and
pml_ob1_sendreq.c).  Numbers are used again by later messages, so all is gone through in the order in which
the sender saw it: what it sent, and what reached it.  Where a header was not captured, the oldest message
that still waits for that many bytes is taken.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gradwire.traces.framing.frames import UNKNOWN_OPERATION, UNKNOWN_TAG, Frame, MessageKind
from gradwire.traces.framing.mpi_btl import HANDSHAKE_NBYTES, Fragment, What, operation_of, payload_nbytes
from gradwire.traces.framing.mpi_decode import MpiDecoded, Placed
from gradwire.traces.packets.directions import Direction

HANDSHAKE, CLOSE, OTHER = "handshake", "close", "other"
_ANSWERS = (What.PUT_REQUEST, What.ACK, What.NACK)
Frames = defaultdict[Direction, list[Frame]]


@dataclass
class _Message:
    """One being put together.

    `begin` and `end` are where it lies in its stream, `payload` what of it goes there and `elsewhere` what
    does not; `left` is what of it has not been seen, `unasked` what its receiver has not asked for.
    """

    direction: Direction
    begin: int
    end: int
    payload: int
    operation: str
    tag: int
    recovered: bool
    left: int = 0
    unasked: int = 0
    elsewhere: int = 0


class _Event(NamedTuple):
    """A fragment at the sender: what reaches it comes before what it sends at the same time."""

    time_ns: int
    is_outgoing: bool
    stream: int
    placed: Placed


@dataclass
class _Ledger:
    """What is under way between two processes, one way, by the numbers in the headers and by sizes."""

    by_request: dict[int, _Message] = field(default_factory=dict)
    waiting: deque[_Message] = field(default_factory=deque)
    by_left: defaultdict[int, deque[_Message]] = field(default_factory=lambda: defaultdict(deque))
    wanted: defaultdict[tuple[int | None, int], deque[tuple[_Message, int | None]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    by_cookie: dict[int, _Message] = field(default_factory=dict)
    latest: _Message | None = None


def frames_of(forth: Sequence[MpiDecoded], back: Sequence[MpiDecoded], match_nbytes: int) -> Frames:
    """What is said about the messages of one process to another: theirs, and the answers that came `back`.

    Both are all streams between the two.  A message's frame begins with its first header and ends with the
    last byte of its data in that stream; each byte of payload is counted once.  Data that took another
    connection is a frame of its own there, and a header all of whose data did is SEND_READY.  A message whose
    data is not all there ends behind the stream.
    """
    frames: Frames = defaultdict(list)
    messages: list[_Message] = []
    ledger = _Ledger()
    ends = {one.stream.direction: one.stream.nbytes for one in forth}
    for event in sorted(_events(forth, back)):
        one = (forth if event.is_outgoing else back)[event.stream]
        direction, placed = one.stream.direction, event.placed
        if not event.is_outgoing:
            frames[direction].append(_answer(placed, ledger))
        elif placed.fragment.what in (What.MATCH, What.RNDV, What.RGET):
            messages.append(_begun(placed, direction, match_nbytes, ledger))
        elif placed.fragment.what in (What.PUT, What.FRAG):
            messages += _carried(placed, direction, match_nbytes, ledger)
        else:
            frames[direction].append(_control(placed, ledger))
    for message in messages:
        frames[message.direction].append(_frame(message, ends[message.direction]))
    for one in forth:
        if one.process is not None:
            said = Frame(0, HANDSHAKE_NBYTES, MessageKind.CONTROL, HANDSHAKE, UNKNOWN_TAG, 0)
            frames[one.stream.direction].append(said)
    return frames


def _events(forth: Sequence[MpiDecoded], back: Sequence[MpiDecoded]) -> Iterator[_Event]:
    for is_outgoing, decoded in ((True, forth), (False, back)):
        for number, one in enumerate(decoded):
            timeline = (one.stream.sent if is_outgoing else one.stream.received).in_order
            kept = [p for p in one.placed if (p.fragment.what in _ANSWERS) is not is_outgoing]
            ends = [p.offset + min(8, p.fragment.nbytes) - 1 for p in kept]
            for time_ns, placed in zip(timeline.first_seen_ns(ends).tolist(), kept, strict=True):
                yield _Event(time_ns, is_outgoing, number, placed)


def _begun(placed: Placed, direction: Direction, match_nbytes: int, ledger: _Ledger) -> _Message:
    fragment = placed.fragment
    carried = payload_nbytes(fragment, match_nbytes)
    left = max(0, (fragment.total or 0) - carried)
    envelope = fragment.envelope
    operation, tag = operation_of(envelope.tag) if envelope else (UNKNOWN_OPERATION, None)
    message = _Message(
        direction=direction,
        begin=placed.offset,
        end=placed.end,
        payload=carried + left,
        operation=operation,
        tag=UNKNOWN_TAG if tag is None else tag,
        recovered=placed.recovered,
        left=left,
        unasked=left,
    )
    if left:
        ledger.waiting.append(message)
        ledger.by_left[left].append(message)
    if fragment.request is not None:
        ledger.by_request[fragment.request] = message
    return message


def _answer(placed: Placed, ledger: _Ledger) -> Frame:
    """The receiver is ready: for a part of a message (PUT request), or for what is left of it (ACK)."""
    fragment = placed.fragment
    message = _asked_message(fragment, ledger)
    asked = fragment.total or (message.unasked if message else 0)
    if message is not None:
        message.unasked = max(0, message.unasked - asked)
        if fragment.what is What.PUT_REQUEST:
            ledger.wanted[fragment.address, asked].append((message, fragment.cookie))
    kind = MessageKind.CONTROL if fragment.what is What.NACK or not asked else MessageKind.RECV_READY
    operation, tag = (message.operation, message.tag) if message else (UNKNOWN_OPERATION, UNKNOWN_TAG)
    return Frame(placed.offset, fragment.nbytes, kind, operation, tag, asked, placed.recovered)


def _asked_message(fragment: Fragment, ledger: _Ledger) -> _Message | None:
    known = ledger.by_request.get(fragment.request) if fragment.request is not None else None
    if known is not None and (known.unasked or fragment.what is not What.PUT_REQUEST):
        return known
    while ledger.waiting and not ledger.waiting[0].unasked:
        ledger.waiting.popleft()
    return ledger.waiting[0] if ledger.waiting else None


def _carried(placed: Placed, direction: Direction, match_nbytes: int, ledger: _Ledger) -> Iterator[_Message]:
    """Give a message its data; what goes another way than it began, or belongs to none, is one of its own."""
    fragment = placed.fragment
    nbytes = payload_nbytes(fragment, match_nbytes)
    message, cookie = _data_message(fragment, nbytes, ledger)
    ledger.latest = message
    if message is not None and cookie is not None:
        ledger.by_cookie[cookie] = message
    if message is None or message.direction != direction or message.left < nbytes:
        operation, tag = (message.operation, message.tag) if message else (UNKNOWN_OPERATION, UNKNOWN_TAG)
        if message is not None:
            taken = min(nbytes, message.left)
            message.left -= taken
            message.payload -= taken
            message.elsewhere += taken
        yield _Message(direction, placed.offset, placed.end, nbytes, operation, tag, placed.recovered)
        return
    message.end = max(message.end, placed.end)
    message.left -= nbytes
    message.recovered |= placed.recovered
    if message.left:
        ledger.by_left[message.left].append(message)


def _data_message(fragment: Fragment, nbytes: int, ledger: _Ledger) -> tuple[_Message | None, int | None]:
    """The message that a PUT or FRAG belongs to, and the number that its FIN will have."""
    if fragment.what is What.FRAG and fragment.request is not None:
        return ledger.by_request.get(fragment.request), None
    for key in ((fragment.address, nbytes), (None, nbytes)):
        if ledger.wanted.get(key):
            found = ledger.wanted[key].popleft()
            if not ledger.wanted[key]:
                del ledger.wanted[key]
            return found
    candidates = ledger.by_left.get(nbytes, deque())
    while candidates:
        message = candidates.popleft()
        if message.left == nbytes:
            return message, None
    return None, None


def _control(placed: Placed, ledger: _Ledger) -> Frame:
    """A FIN says that a PUT is done; the rest is not about messages."""
    names = {What.CLOSE: CLOSE, What.OTHER: OTHER}
    operation, tag = names.get(placed.fragment.what, UNKNOWN_OPERATION), UNKNOWN_TAG
    if placed.fragment.what is What.FIN:
        message = ledger.by_cookie.pop(placed.fragment.cookie or 0, ledger.latest)
        operation, tag = (message.operation, message.tag) if message else (UNKNOWN_OPERATION, UNKNOWN_TAG)
    return Frame(
        placed.offset, placed.fragment.nbytes, MessageKind.CONTROL, operation, tag, 0, placed.recovered
    )


def _frame(message: _Message, stream_nbytes: int) -> Frame:
    end = max(message.end, stream_nbytes + message.left) if message.left else message.end
    is_notice = message.elsewhere > 0 and message.payload == 0
    return Frame(
        offset=message.begin,
        nbytes=end - message.begin,
        kind=MessageKind.SEND_READY if is_notice else MessageKind.DATA,
        operation=message.operation,
        tag=message.tag,
        payload_nbytes=message.elsewhere if is_notice else message.payload,
        recovered=message.recovered,
    )
