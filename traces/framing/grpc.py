"""gRPC's messages in one direction of an HTTP/2 connection (grpc/doc/PROTOCOL-HTTP2.md).

A call is one HTTP/2 stream; a message in it is a prefix of 5 bytes, a flag and the length, and that many
bytes, cut into DATA frames anywhere.  Where frames are hidden, a message whose prefix was captured still
has a known length: what of it was not seen must be in the gaps.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from gradwire.traces.framing.http2 import HEADER_NBYTES, FrameType, content
from gradwire.traces.framing.http2_decode import Part, header_block
from gradwire.traces.framing.http2_headers import MAX_BLOCK_NBYTES, Paths
from gradwire.traces.packets.streams import Stream

PREFIX_NBYTES = 5
DEFAULT_CHUNK_NBYTES = 1 << 14  # of a DATA frame: what every peer takes (RFC 9113, 6.5.2)
MAX_SLIP_NBYTES = 8 * HEADER_NBYTES  # by which a message's part in a gap may be mistaken, for frames there
MAX_TORN = 64  # messages that may go on in one gap: those touched last


class GrpcMessage(NamedTuple):
    """`nbytes` are its own, after the prefix; it lies in [start, end) of the TCP stream, from the header of
    its first DATA frame on, perhaps with frames of other calls between.  `is_read`: its prefix was captured.
    """

    call: int
    start: int
    end: int
    nbytes: int
    is_read: bool


class Rest(NamedTuple):
    """Bytes [start, end) of a gap that belong to no message of which anything was captured.

    `n_ended` calls had just sent their last message, so that their trailers are here; `n_begun` had sent
    headers and no message yet, and of that nothing was captured.  `is_first`: no call had ended before.
    """

    start: int
    end: int
    n_ended: int = 0
    n_begun: int = 0
    is_first: bool = False


@dataclass
class GrpcSide:
    """What one direction sent: messages in order of their ends, gaps' rests, and of calls the paths.

    `calls` are the calls of captured frames; `paths` come from requests, where they can be read.
    `chunk_nbytes` is the largest DATA frame; `headers` and `trailers` count frames by their sizes.
    """

    stream: Stream
    messages: list[GrpcMessage] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    calls: set[int] = field(default_factory=set)
    paths: dict[int, str] = field(default_factory=dict)
    headers: Counter[int] = field(default_factory=Counter)
    trailers: Counter[int] = field(default_factory=Counter)
    chunk_nbytes: int = 0


@dataclass
class _Open:
    """A message that has begun; `total` is its length, None if the prefix is not (yet) known."""

    start: int
    end: int
    prefix: bytes = b""
    total: int | None = None
    n_gaps: int = 0  # that there were before it
    seen: int = 0
    is_blind: bool = False  # the prefix was not captured
    pieces: list[tuple[int, int]] = field(default_factory=list)  # its frames, if it is blind


def read_side(stream: Stream, parts: Sequence[Part]) -> GrpcSide:
    """The messages of one direction from all its frames and gaps."""
    return _Reader(stream, parts).read(parts)


class _Reader:
    """The state of one direction while it is read."""

    def __init__(self, stream: Stream, parts: Sequence[Part]) -> None:
        self._side = GrpcSide(stream)
        self._open: dict[int, _Open] = {}  # those touched last are last
        self._paths = Paths()
        self._to_come: defaultdict[int, int] = defaultdict(int)  # bytes of a call's DATA that are to be read
        self._n_ended = 0
        self._n_gaps = 0
        self._n_gaps_before: dict[int, int] = {}  # the next message of a call
        self._begun: set[int] = set()  # calls with headers and no data yet
        self._is_first = True
        for part in parts:
            if part.header is not None and part.header.type is FrameType.DATA:
                start, end = content(stream, part.start, part.header)
                self._to_come[part.header.stream_id] += end - start
                self._side.chunk_nbytes = max(self._side.chunk_nbytes, part.header.nbytes)

    def read(self, parts: Sequence[Part]) -> GrpcSide:
        for number, part in enumerate(parts):
            if part.header is None:
                self._gap(part)
                continue
            call = part.header.stream_id
            if call:
                self._side.calls.add(call)
            if part.header.type is FrameType.DATA:
                self._n_ended = 0
                self._begun.discard(call)
                self._data(part, call)
            elif part.header.type is FrameType.HEADERS:
                self._headers(parts, number, call)
            if part.header.ends_stream or part.header.type is FrameType.RST_STREAM:
                self._end(call)
        for call, message in list(self._open.items()):
            if message.total is not None:  # the capture ends before it does
                message.end = self._side.stream.nbytes + max(1, message.total - message.seen)
            self._finish(call, self._open.pop(call))
        return self._side

    def _headers(self, parts: Sequence[Part], number: int, call: int) -> None:
        block, is_whole = header_block(self._side.stream, parts, number, MAX_BLOCK_NBYTES)
        path = self._paths.read(block, is_whole=is_whole)
        if path is not None:
            self._side.paths[call] = path
        is_last = (head := parts[number].header) is not None and head.ends_stream
        (self._side.trailers if is_last else self._side.headers)[parts[number].nbytes] += 1
        self._begun.add(call)
        self._n_gaps_before[call] = self._n_gaps

    def _data(self, part: Part, call: int) -> None:
        assert part.header is not None
        start, end = content(self._side.stream, part.start, part.header)
        self._to_come[call] -= end - start
        message = self._open.pop(call, None)
        is_doubtful = message is not None and (message.is_blind or self._is_torn(message))
        if message is not None and is_doubtful and self._fits_exactly(start, end):
            self._finish(call, message)
            message = None
        while start < end or message is not None:
            if message is None:
                message = _Open(part.start, start, n_gaps=self._n_gaps_before.get(call, -1))
            start = self._take(message, start, end)
            message.end = start
            if message.is_blind:
                message.pieces.append((part.start, end))
            if message.total is None or message.seen < message.total:
                self._open[call] = message
                return
            if self._is_torn(message) and end - start < MAX_SLIP_NBYTES:
                start = message.end = end  # what was thought to be in the gap is here
            self._finish(call, message)
            self._n_gaps_before[call] = self._n_gaps  # the next one begins here
            message = None

    def _take(self, message: _Open, start: int, end: int) -> int:
        """Give a message what it lacks of the content [start, end); where that ends."""
        if message.total is None and not message.is_blind:
            wanted = min(PREFIX_NBYTES - len(message.prefix), end - start)
            piece = self._side.stream.visible.read(start, wanted)
            is_sure = not self._is_torn(message) or self._fits_exactly(start, end)
            if is_sure and len(piece) == wanted and (message.prefix + piece)[:1] <= b"\x01":
                message.prefix += piece
                start += wanted
                if len(message.prefix) == PREFIX_NBYTES:
                    message.total = int.from_bytes(message.prefix[1:], "big")
            else:
                message.is_blind = True
                message.seen = len(message.prefix)
        if message.total is None and not message.is_blind:
            return start
        taken = end - start if message.total is None else min(end - start, message.total - message.seen)
        message.seen += taken
        return start + taken

    def _fits_exactly(self, start: int, end: int) -> bool:
        """Whether the content [start, end) is one whole message by its own prefix."""
        prefix = self._side.stream.visible.read(start, PREFIX_NBYTES)
        return (
            len(prefix) == PREFIX_NBYTES
            and prefix[0] <= 1
            and int.from_bytes(prefix[1:], "big") == end - start - PREFIX_NBYTES
        )

    def _gap(self, gap: Part) -> None:
        """Share a gap out to the messages that lack something, those touched last first."""
        self._paths.miss()
        self._n_gaps += 1
        at = gap.start
        n_begun = sum(not self._to_come[call] for call in self._begun)
        self._begun.clear()
        chunk = self._side.chunk_nbytes or DEFAULT_CHUNK_NBYTES
        for call in list(islice(reversed(self._open), MAX_TORN)):
            message = self._open[call]
            if message.total is None and message.end == at and not self._to_come[call]:
                self._side.rests.append(
                    Rest(message.start, gap.end, self._n_ended, n_begun + 1, self._is_first)
                )
                del self._open[call]
                at = gap.end
                break
            if message.total is None:
                continue
            lacking = message.total - message.seen - self._to_come[call]
            room = gap.end - at
            n_frames = -(-min(lacking, room) // chunk)
            if lacking <= 0 or room <= HEADER_NBYTES:
                continue
            taken = min(lacking, room - HEADER_NBYTES * n_frames)
            message.seen += max(0, taken)
            at = message.end = min(gap.end, at + taken + HEADER_NBYTES * n_frames)
            if message.seen >= message.total:
                self._finish(call, self._open.pop(call))
        if at < gap.end:
            self._side.rests.append(Rest(at, gap.end, self._n_ended, n_begun, self._is_first))
        self._n_ended = 0
        self._is_first = False

    def _end(self, call: int) -> None:
        message = self._open.pop(call, None)
        if message is not None:
            self._finish(call, message)
        self._n_ended = 0
        self._begun.discard(call)
        self._is_first = False

    def _is_torn(self, message: _Open) -> bool:
        """Whether a part of it may be, or is, in a gap."""
        return message.n_gaps < self._n_gaps

    def _finish(self, call: int, message: _Open) -> None:
        if message.is_blind and self._is_torn(message):
            self._side.rests += [Rest(start, end) for start, end in message.pieces]
            return
        nbytes = message.seen - PREFIX_NBYTES if message.total is None else message.total
        found = GrpcMessage(call, message.start, message.end, max(0, nbytes), not message.is_blind)
        self._side.messages.append(found)
        self._n_ended += 1
