"""What every framing makes of a connection's bytes: messages, and evidence that it is the right framing.

A framing is how an application marks where its messages begin and end in TCP's stream of bytes: gloo's
preambles, Open MPI's fragments, HTTP/2's frames.  Each is one module;
`traces.framing.framings` finds and chooses them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from gradwire.traces.packets.streams import Connection, Stream

UNKNOWN_TAG = -1  # the messages do not say which instance of a collective they belong to
UNKNOWN_OPERATION = "unknown"  # data whose header was not captured: it may belong to any collective
SEND, ALLREDUCE, ALLGATHER, BROADCAST, BARRIER = "send", "allreduce", "allgather", "broadcast", "barrier"


class MessageKind(IntEnum):
    """Payload; a notice by its sender or its receiver that a message of its bytes is to come; neither."""

    DATA = 0
    SEND_READY = 1
    RECV_READY = 2
    CONTROL = 3


class Frame(NamedTuple):
    """One message in one direction of a connection.

    It takes `nbytes` of the stream from `offset` on, headers included; `payload_nbytes` are the
    application's (for notices: the announced size).  `operation` is the collective that it belongs to by its
    usual name, `send` for point-to-point, or what the application calls it.  `tag` numbers the instance.
    `recovered`: its header itself was not captured.
    """

    offset: int
    nbytes: int
    kind: MessageKind
    operation: str
    tag: int
    payload_nbytes: int
    recovered: bool = False


class Hidden(NamedTuple):
    """Bytes [start, end) of a stream that hold whole messages, unknown ones."""

    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """The messages of one stream, in its order."""

    stream: Stream
    frames: tuple[Frame, ...]
    hidden: tuple[Hidden, ...] = ()


@dataclass(frozen=True)
class Fit:
    """How sure it is that a connection speaks a framing, 0 to 1, and why: for people."""

    confidence: float
    evidence: str


@dataclass(frozen=True)
class Found:
    """All that a framing reads from its connections.

    `said` are the ranks that hosts gave themselves, by address: an empty set for a host of the job that
    gave none.  `notes` are for people.
    """

    readings: tuple[Reading, ...]
    said: Mapping[str, frozenset[int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Framing(Protocol):
    """`fit` judges one connection (None: certainly not); `read` is given all that were found to fit.

    Both must survive anything that a file may hold, in time and memory that grow with it at most linearly.
    `is_training` is False for what only sets a job up or watches it.  A framing may also have a method
    `rules_out`, which says of many connections at once that `fit` would be None, as the built-in ones have.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_training(self) -> bool: ...

    def fit(self, connection: Connection, /) -> Fit | None: ...

    def read(self, connections: Sequence[Connection], /) -> Found: ...
