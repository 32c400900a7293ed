"""Messages as columns: every application send that was found in the packets, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traces.framing.gloo import COLLECTIVES, Opcode, unpack_slot
from traces.framing.gloo_hidden import Recovered

KINDS = {
    Opcode.SEND_BUFFER: "data",
    Opcode.DATA: "data",
    Opcode.SEND_READY: "send-ready",
    Opcode.RECV_READY: "recv-ready",
}


@dataclass(frozen=True)
class Messages:
    """Rows in the order of `first_ns`; `src` and `dst` are positions in `addresses` (ranks, once
    known).

    `offset` is where it begins in its TCP stream.  `nbytes` is the payload's size, for the two notices
    the announced one.  `first_ns` and `last_ns` are when its first and last byte were first seen near
    the source; `received_ns` is when it and all before it had been seen near the destination.  `prefix`
    and `tag` are gloo's (prefix 0: send/recv). `whole`: the last byte was seen.  `recovered`: its
    preamble was not captured.  `retransmitted` counts packets that repeated its bytes.
    """

    addresses: tuple[str, ...]
    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    opcode: npt.NDArray[np.uint8]
    prefix: npt.NDArray[np.uint8]
    tag: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    nbytes: npt.NDArray[np.int64]
    first_ns: npt.NDArray[np.int64]
    last_ns: npt.NDArray[np.int64]
    received_ns: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    recovered: npt.NDArray[np.bool_]
    retransmitted: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.src)

    @property
    def is_data(self) -> npt.NDArray[np.bool_]:
        return self.opcode <= Opcode.DATA

    def where(self, rows: npt.NDArray[Any]) -> "Messages":
        """The chosen rows: a mask, or their numbers in the wanted order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})


COLUMNS = tuple(field.name for field in fields(Messages) if field.name != "addresses")


def collect(streams: Sequence[Recovered], addresses: tuple[str, ...]) -> Messages:
    """The messages of all streams, of which there is at least one; `addresses` must hold every end of
    them.
    """
    index = {address: number for number, address in enumerate(addresses)}
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in COLUMNS}
    for found in streams:
        for name, column in _columns(found, index).items():
            parts[name].append(column)
    columns: dict[str, Any] = {name: np.concatenate(part) for name, part in parts.items()}
    messages = Messages(addresses, **columns)
    return messages.where(np.argsort(messages.first_ns, kind="stable"))


def reranked(messages: Messages, addresses: tuple[str, ...]) -> Messages:
    """The same messages with `addresses` in another order."""
    position = np.array([addresses.index(address) for address in messages.addresses], np.int32)
    return replace(messages, addresses=addresses, src=position[messages.src], dst=position[messages.dst])


def collective_name(prefix: int) -> str:
    """`allreduce` and so on; `send` for send/recv."""
    return COLLECTIVES.get(prefix, "send")


def _columns(found: Recovered, index: dict[str, int]) -> dict[str, npt.NDArray[Any]]:
    frames, stream = found.frames, found.stream
    count = len(frames)
    offset = np.fromiter((frame.offset for frame in frames), np.int64, count)
    end = offset + np.fromiter((frame.nbytes for frame in frames), np.int64, count)
    slots = [unpack_slot(frame.slot) for frame in frames]
    repeats = np.searchsorted(np.sort(stream.retransmitted_at), [offset, end])
    return {
        "src": np.full(count, index[stream.direction.src], np.int32),
        "dst": np.full(count, index[stream.direction.dst], np.int32),
        "opcode": np.fromiter((frame.opcode for frame in frames), np.uint8, count),
        "prefix": np.fromiter((slot.prefix for slot in slots), np.uint8, count),
        "tag": np.fromiter((slot.tag for slot in slots), np.int64, count),
        "offset": offset,
        "nbytes": np.fromiter((frame.length for frame in frames), np.int64, count),
        "first_ns": stream.sent.first_seen_ns(offset),
        "last_ns": stream.sent.first_seen_ns(end - 1),
        "received_ns": stream.received.in_order.first_seen_ns(end - 1),
        "whole": end <= stream.nbytes,
        "recovered": np.fromiter((frame.recovered for frame in frames), np.bool_, count),
        "retransmitted": (repeats[1] - repeats[0]).astype(np.int32),
    }
