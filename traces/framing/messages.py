"""Messages as columns: one row for each application send that was found in the packets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import MessageKind, Reading

KIND_NAMES = {kind: kind.name.lower().replace("_", "-") for kind in MessageKind}  # data, send-ready, ...


@dataclass(frozen=True)
class Messages:
    """Rows in the order of `first_ns`; `src` and `dst` are positions in `addresses` (ranks, once known).

    `connection` is a number for the trace's connections, `offset` where the message begins in its TCP stream.
    `nbytes` is the payload's size, for notices the announced one.  `first_ns` and `last_ns` are when its
    first and last byte were first seen near the source; `received_ns` is when it and all before it had been
    seen near the destination.  `kind` is a `MessageKind`, `operation` a position in `operations`, the names
    that the framing gave.  `tag` numbers the instance of an operation (UNKNOWN_TAG: unknown).  `whole`: the
    last byte was seen.  `recovered`: its header was not captured.  `retransmitted` counts packets that
    repeated its bytes.  `socket_nbytes` is what a sender's socket could hold, None where nobody says.
    """

    addresses: tuple[str, ...]
    operations: tuple[str, ...]
    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    connection: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    operation: npt.NDArray[np.int32]
    tag: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    nbytes: npt.NDArray[np.int64]
    first_ns: npt.NDArray[np.int64]
    last_ns: npt.NDArray[np.int64]
    received_ns: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    recovered: npt.NDArray[np.bool_]
    retransmitted: npt.NDArray[np.int32]
    socket_nbytes: int | None = None

    def __len__(self) -> int:
        return len(self.src)

    @property
    def is_data(self) -> npt.NDArray[np.bool_]:
        return np.equal(self.kind, MessageKind.DATA)

    def of(self, operation: str) -> npt.NDArray[np.bool_]:
        """Which rows belong to operations of this name."""
        number = self.operations.index(operation) if operation in self.operations else -1
        return np.equal(self.operation, number)

    def where(self, rows: npt.NDArray[Any]) -> "Messages":
        """The chosen rows: a mask, or their numbers in the wanted order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})


_DTYPES: dict[str, type[np.generic]] = {
    "src": np.int32,
    "dst": np.int32,
    "connection": np.int32,
    "kind": np.uint8,
    "operation": np.int32,
    "tag": np.int64,
    "offset": np.int64,
    "nbytes": np.int64,
    "first_ns": np.int64,
    "last_ns": np.int64,
    "received_ns": np.int64,
    "whole": np.bool_,
    "recovered": np.bool_,
    "retransmitted": np.int32,
}
COLUMNS = tuple(_DTYPES)


def collect(readings: Sequence[tuple[int, Reading]], addresses: tuple[str, ...]) -> Messages:
    """The messages of all streams, each with the number of its connection.

    `addresses` must hold every end of them.
    """
    index = {address: number for number, address in enumerate(addresses)}
    operations = sorted({frame.operation for _, reading in readings for frame in reading.frames})
    named = {name: number for number, name in enumerate(operations)}
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, kind)] for name, kind in _DTYPES.items()}
    for connection, reading in readings:
        for name, column in _columns(reading, connection, index, named).items():
            parts[name].append(column)
    columns: dict[str, Any] = {name: np.concatenate(part) for name, part in parts.items()}
    messages = Messages(addresses, tuple(operations), **columns)
    return messages.where(np.argsort(messages.first_ns, kind="stable"))


def no_messages() -> Messages:
    """Of captures that hold none."""
    return collect([], ())


def reranked(messages: Messages, addresses: tuple[str, ...]) -> Messages:
    """The same messages with `addresses` in another order."""
    position = np.array([addresses.index(address) for address in messages.addresses], np.int32)
    return replace(messages, addresses=addresses, src=position[messages.src], dst=position[messages.dst])


def _columns(
    reading: Reading, connection: int, index: dict[str, int], named: dict[str, int]
) -> dict[str, npt.NDArray[Any]]:
    frames, stream = reading.frames, reading.stream
    count = len(frames)
    offset = np.fromiter((frame.offset for frame in frames), np.int64, count)
    end = offset + np.fromiter((frame.nbytes for frame in frames), np.int64, count)
    repeats = np.searchsorted(np.sort(stream.retransmitted_at), [offset, end])
    return {
        "src": np.full(count, index[stream.direction.src], np.int32),
        "dst": np.full(count, index[stream.direction.dst], np.int32),
        "connection": np.full(count, connection, np.int32),
        "kind": np.fromiter((frame.kind for frame in frames), np.uint8, count),
        "operation": np.fromiter((named[frame.operation] for frame in frames), np.int32, count),
        "tag": np.fromiter((frame.tag for frame in frames), np.int64, count),
        "offset": offset,
        "nbytes": np.fromiter((frame.payload_nbytes for frame in frames), np.int64, count),
        "first_ns": stream.sent.first_seen_ns(offset),
        "last_ns": stream.sent.first_seen_ns(end - 1),
        "received_ns": stream.received.in_order.first_seen_ns(end - 1),
        "whole": end <= stream.nbytes,
        "recovered": np.fromiter((frame.recovered for frame in frames), np.bool_, count),
        "retransmitted": (repeats[1] - repeats[0]).astype(np.int32),
    }
