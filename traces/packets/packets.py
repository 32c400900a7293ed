"""Packets as columns: the result of reading a capture file of any format.  Values only."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
ETHERNET = 1  # link types as in the pcap file's header (tcpdump.org/linktypes.html)


class BadCapture(Exception):
    """A file that cannot be read as a capture; the text says which, what it is and what to do."""


@dataclass(frozen=True)
class Interface:
    """Where packets were captured.  `snaplen` 0: unlimited; `dropped`: by the capture, None if unknown."""

    name: str = ""
    link_type: int = ETHERNET
    snaplen: int = 0
    dropped: int | None = None


@dataclass(frozen=True)
class Mistimed:
    """A packet whose time cannot be right: the `number`-th of its file (from 1), whose bytes begin at `at`.

    `time_ns` is what the file says, `beside_ns` the time of the packet after it (before it, if it is last).
    """

    number: int
    at: int
    time_ns: int
    beside_ns: int


@dataclass(frozen=True)
class Packets:
    """All packets of one file; every array has one entry per packet, in the file's order.

    `src` and `dst` are positions in `addresses`; times are ns since 1970.  What is not TCP or UDP over IP
    has `protocol` 0 and neither addresses nor ports that mean anything; a later fragment counts as such.
    `payload_nbytes` is what the packet carried above TCP or UDP on the wire, `visible_nbytes` how much of it
    is in the file, from byte `payload_at` of `data` on.  The packet itself begins at `frame_at`, its IP
    header `network_offset` bytes later (0: none).  `interface` is a position in `interfaces`.  `window` is as
    in the header, not scaled; `window_shift` is the scale that a SYN offers (RFC 7323), else NO_SHIFT.
    `ip_id` is 0 for IPv6.  `ip_version` is 4 or 6, 0 for what is not IP (raw IP has its
    header at offset 0).  `queued_ns` is how long each had queued in its sender's port when it left, or
    NOT_KNOWN; None if that was not measured.

    Why the reading ended before the file did is in `fault`, "" if it did not.  `n_cut` counts packets that
    have `protocol` 0 only because the capture cut their headers off, `n_copies` those that
    were left out as copies of others, `n_mistimed` those that were left out because their time cannot
    be right; the first few of these are in `mistimed`.
    """

    path: Path
    data: npt.NDArray[np.uint8]
    truncated: bool
    addresses: tuple[str, ...]
    time_ns: npt.NDArray[np.int64]
    wire_nbytes: npt.NDArray[np.int32]
    captured_nbytes: npt.NDArray[np.int32]
    frame_at: npt.NDArray[np.int64]
    network_offset: npt.NDArray[np.uint8]
    ip_version: npt.NDArray[np.uint8]
    protocol: npt.NDArray[np.uint8]
    ip_id: npt.NDArray[np.uint16]
    src: npt.NDArray[np.uint32]
    dst: npt.NDArray[np.uint32]
    sport: npt.NDArray[np.uint16]
    dport: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint8]
    seq: npt.NDArray[np.uint32]
    ack: npt.NDArray[np.uint32]
    window: npt.NDArray[np.uint16]
    window_shift: npt.NDArray[np.uint8]
    payload_nbytes: npt.NDArray[np.int32]
    visible_nbytes: npt.NDArray[np.int32]
    payload_at: npt.NDArray[np.int64]
    interface: npt.NDArray[np.uint16]
    interfaces: tuple[Interface, ...] = field(default=(Interface(),))
    fault: str = ""
    n_cut: int = 0
    n_copies: int = 0
    n_mistimed: int = 0
    mistimed: tuple[Mistimed, ...] = ()
    queued_ns: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.time_ns)


Result = TypeVar("Result")


def once(function: Callable[[Packets], Result]) -> Callable[[Packets], Result]:
    """The function, which computes its result once for the same packets; nobody may change that result.

    It is kept with the packets, as `functools.cached_property` does.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(packets: Packets) -> Result:
        known = vars(packets)
        if name not in known:
            known[name] = function(packets)
        result: Result = known[name]
        return result

    return kept


def only_rows(packets: Packets, keep: npt.NDArray[np.bool_]) -> Packets:
    """The packets for which `keep` is true; the bytes of the file stay whole."""
    columns = {
        one.name: getattr(packets, one.name)[keep]
        for one in fields(packets)
        if one.name != "data" and isinstance(getattr(packets, one.name), np.ndarray)
    }
    return replace(packets, **columns)


NO_SHIFT = 255
NOT_KNOWN = -1
