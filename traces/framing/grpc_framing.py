"""gRPC over HTTP/2, as TensorFlow's parameter servers speak it, as a framing.

A message is data if it is of a method that moves tensors, or large; what else the calls say (requests,
status, graphs, keep-alive) is control.  One whose request was not captured has the method of those of its
size.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gradwire.traces.framing.beginnings import Beginnings, Mask
from gradwire.traces.framing.frames import SEND, UNKNOWN_TAG, Fit, Found, Frame, Hidden, MessageKind, Reading
from gradwire.traces.framing.grpc import GrpcMessage, GrpcSide, read_side
from gradwire.traces.framing.grpc_hidden import FilledRest, Filler, shape_of
from gradwire.traces.framing.http2 import HEADER_NBYTES, PREFACE, TYPE_AT, FrameType
from gradwire.traces.framing.http2_decode import decode
from gradwire.traces.packets.streams import Connection
from gradwire.traces.units import show_count

# The responses of these carry tensors, however small (tensorflow/core/protobuf/worker_service.proto).
TENSOR_METHODS = frozenset({"RecvTensor", "RecvBuf"})
# Functions and graphs, which are sent once, can be large too (tensorflow/core/protobuf/*_service.proto).
SETUP_SERVICES = (
    "/tensorflow.eager.EagerService/",
    "/tensorflow.MasterService/",
    "/tensorflow.CoordinationService/",
)
MIN_DATA_NBYTES, MIN_SETUP_DATA_NBYTES = 1 << 12, 1 << 16
_FIT_PARTS = 256  # looked at to judge a connection
_READ, _FRAMED, _UNREADABLE = 1.0, 0.9, 0.3


class _Likes:
    """The messages that were read, by size: those of which less was captured are compared with them."""

    def __init__(self, dialogues: Iterable["_Dialogue"]) -> None:
        self._paths: defaultdict[tuple[bool, int], set[str]] = defaultdict(set)
        self._sizes: defaultdict[tuple[bool, str | None], set[int]] = defaultdict(set)
        for dialogue in dialogues:
            for side in dialogue.sides:
                for message in side.messages:
                    self._note(message, dialogue.paths.get(message.call), dialogue.is_answer(side))

    def _note(self, message: GrpcMessage, path: str | None, is_answer: bool) -> None:
        if message.is_read:
            self._sizes[is_answer, path].add(message.nbytes)
            if path is not None:
                self._paths[is_answer, message.nbytes].add(path)

    def path(self, nbytes: int, is_answer: bool) -> str | None:
        """The path of all messages of this size, if they agree."""
        paths = self._paths.get((is_answer, nbytes), set())
        return next(iter(paths)) if len(paths) == 1 else None

    def sizes(self, paths: set[str], is_answer: bool) -> set[int]:
        """Those of these paths' messages; no path: of all."""
        return {
            nbytes
            for (of_answer, path), some in self._sizes.items()
            if of_answer == is_answer and (not paths or path in paths)
            for nbytes in some
        }


@dataclass(frozen=True)
class _Dialogue:
    """Both directions of a connection, and the path of each call that could be read."""

    sides: tuple[GrpcSide, ...]
    paths: dict[int, str]

    def is_answer(self, side: GrpcSide) -> bool:
        """Whether a side is the server's; where the opening was not captured, that which asks for no path."""
        return not side.paths if side.stream.opener is None else not side.stream.opener

    def missing(self, side: GrpcSide) -> tuple[int, set[str]]:
        """How many calls there may be of which no message of a side was read, and their paths, if known.

        Clients number calls 1, 3, 5... (RFC 9113, 5.1.1).
        """
        found = {message.call for message in side.messages}
        calls = {call for one in self.sides for call in one.calls}
        n_hidden = sum(_most_hidden(one) for one in self.sides if not self.is_answer(one))
        lowest = 1 if side.stream.opener is not None else min(calls, default=1)
        n_told = (max(calls, default=lowest - 2) - lowest) // 2 + 1
        paths = {path for call, path in self.paths.items() if call not in found}
        return min(n_told, len(calls) + n_hidden) - len(found) + n_hidden, paths


def _most_hidden(side: GrpcSide) -> int:
    """How many messages the gaps of a side have room for, by the least that was read."""
    least = shape_of(side).wire_nbytes(min((message.nbytes for message in side.messages), default=0))
    return sum(rest.end - rest.start for rest in side.rests) // least


class Grpc:
    """Any port; messages hidden by the snaplen are recovered from sizes read elsewhere, where sure."""

    name = "grpc"
    is_training = True

    def fit(self, connection: Connection) -> Fit | None:
        """The client's preface, or frames of HTTP/2 where packets begin, and gRPC's prefixes in them."""
        parts = [list(islice(decode(stream), _FIT_PARTS)) for stream in connection.streams]
        if any(
            not some and stream.opener is not None
            for some, stream in zip(parts, connection.streams, strict=True)
        ):
            return None
        sides = [
            read_side(stream, some) for stream, some in zip(connection.streams, parts, strict=True) if some
        ]
        if not sides:
            return None
        messages = [message for side in sides for message in side.messages]
        n_read = sum(message.is_read for message in messages)
        if n_read:
            return Fit(
                _READ, f"HTTP/2, and {show_count(n_read, 'message')} in it with gRPC's prefix of 5 bytes"
            )
        if messages:
            return Fit(_UNREADABLE, f"HTTP/2, but none of {len(messages)} bodies begins as gRPC's would")
        return Fit(_FRAMED, "HTTP/2's frames, without any message")

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where a side that the capture saw from its beginning on does not begin as HTTP/2 does: the client
        with its preface, the server with a frame of SETTINGS.
        """
        n_preface = len(PREFACE)
        is_preface = (seen.head[:, :n_preface] == np.frombuffer(PREFACE, np.uint8)).all(axis=1)
        is_no_client = seen.opens & ((seen.nbytes < n_preface) | (seen.n_visible >= n_preface) & ~is_preface)
        is_settings = seen.head[:, TYPE_AT] == FrameType.SETTINGS
        is_no_server = seen.answers & (
            (seen.nbytes < HEADER_NBYTES) | (seen.n_visible >= HEADER_NBYTES) & ~is_settings
        )
        return seen.any_of(is_no_client | is_no_server)

    def read(self, connections: Sequence[Connection]) -> Found:
        dialogues = [_dialogue(connection) for connection in connections]
        likes = _Likes(dialogues)
        readings = tuple(_reading(dialogue, side, likes) for dialogue in dialogues for side in dialogue.sides)
        return Found(readings, notes=tuple(_notes(readings)))


def _dialogue(connection: Connection) -> _Dialogue:
    sides = tuple(read_side(stream, list(decode(stream))) for stream in connection.streams)
    return _Dialogue(sides, {call: path for side in sides for call, path in side.paths.items()})


def _reading(dialogue: _Dialogue, side: GrpcSide, likes: _Likes) -> Reading:
    found, hidden = _recovered(dialogue, side, likes)
    is_answer = dialogue.is_answer(side)
    frames = [
        _frame(message, dialogue.paths.get(message.call) or likes.path(message.nbytes, is_answer), is_answer)
        for message in (*side.messages, *found)
    ]
    return Reading(side.stream, tuple(sorted(frames)), tuple(sorted(hidden)))


def _recovered(dialogue: _Dialogue, side: GrpcSide, likes: _Likes) -> tuple[list[GrpcMessage], list[Hidden]]:
    """Messages found in the gaps of a side, and what is still hidden."""
    n_missing, paths = dialogue.missing(side)
    read_sizes = {message.nbytes for message in side.messages if message.is_read}
    likely = likes.sizes(paths, dialogue.is_answer(side))
    filler = Filler(side, (likely & read_sizes, likely | read_sizes), n_missing)
    filled = [filler.fill(rest) for rest in side.rests]
    if sum(len(one.messages) for one in filled) > n_missing:  # then not all of them can be right
        filled = [FilledRest((), rest.start) for rest in side.rests]
    ends = [min(rest.end, side.stream.nbytes) for rest in side.rests]
    return [message for one in filled for message in one.messages], [
        Hidden(one.unknown_from, end) for one, end in zip(filled, ends, strict=True) if one.unknown_from < end
    ]


def _frame(message: GrpcMessage, path: str | None, is_answer: bool) -> Frame:
    method = (path or "").rpartition("/")[2]
    least = MIN_SETUP_DATA_NBYTES if (path or "").startswith(SETUP_SERVICES) else MIN_DATA_NBYTES
    is_data = message.nbytes >= least or (is_answer and method in TENSOR_METHODS)
    return Frame(
        offset=message.start,
        nbytes=message.end - message.start,
        kind=MessageKind.DATA if is_data else MessageKind.CONTROL,
        operation=method or SEND,
        tag=UNKNOWN_TAG,
        payload_nbytes=message.nbytes,
        recovered=not message.is_read,
    )


def _notes(readings: Iterable[Reading]) -> Iterable[str]:
    data = [frame for reading in readings for frame in reading.frames if frame.kind is MessageKind.DATA]
    unnamed = sum(frame.operation == SEND for frame in data)
    recovered = sum(frame.recovered for frame in data)
    if recovered:
        yield f"{recovered} of {len(data)} gRPC messages with data were found by what their gaps can hold"
    if unnamed:
        yield (
            f"{unnamed} of {len(data)} gRPC messages with data are called `{SEND}`: their requests' method "
            "names were not captured; begin before the job does, with tcpdump -s 256 or more"
        )
