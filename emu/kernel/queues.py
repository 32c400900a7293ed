"""What the shaped queues of all ports, hosts' ports too, have sent and dropped.

It takes microseconds a port, and no process.  HTB counts packets as the wire carries them, a super-segment as
its segments with a header each; the interface's own counters do not.  One request per interface, or one for
all, and no /sys (which shows another network namespace unless it was mounted in this one).
"""

import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradwire.emu.kernel.namespaces import inside
from gradwire.emu.kernel.rtnetlink import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_ECHO,
    NLM_F_REQUEST,
    TCMSG,
    attributes,
    encoded,
    ends_dump,
    messages,
    netlink_socket,
)

_RTM_NEWQDISC, _RTM_GETQDISC = 36, 38
_FLAGS = NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO  # without ECHO the answer goes to listeners only
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_STATS2 = 1, 7
_NOQUEUE = b"noqueue\0"
_TCA_STATS_BASIC, _TCA_STATS_QUEUE, _TCA_STATS_PKT64 = 1, 3, 8
_BASIC = struct.Struct("=QI")  # bytes, packets
_QUEUE = struct.Struct("=III")  # length, backlog, drops
_ANSWER_NBYTES = 65536


@dataclass(frozen=True, slots=True)
class Transmitted:
    """What a port's queueing discipline sent, and what it dropped (a super-segment counts once); and what
    waits in it now.
    """

    packets: int
    nbytes: int
    dropped: int
    queued_nbytes: int = 0


def transmitted(netlink: socket.socket, ifindex: int) -> Transmitted | None:
    """None if the interface is missing or its root does not count (`noqueue`)."""
    request = TCMSG.pack(socket.AF_UNSPEC, ifindex, 0, _TC_H_ROOT, 0)
    netlink.send(encoded(_RTM_GETQDISC, _FLAGS, ifindex, request))
    counters = None
    while True:  # the acknowledgement, which comes last, ends it
        for kind, sequence, body in messages(netlink.recv(_ANSWER_NBYTES)):
            if kind == _RTM_NEWQDISC:
                counters = _statistics(body[TCMSG.size :])
            elif sequence == ifindex:
                return counters


def _statistics(body: bytes) -> Transmitted | None:
    by_type = attributes(body)
    if by_type.get(_TCA_KIND) == _NOQUEUE or _TCA_STATS2 not in by_type:
        return None
    statistics = attributes(by_type[_TCA_STATS2])
    nbytes, packets = _BASIC.unpack_from(statistics[_TCA_STATS_BASIC])
    if _TCA_STATS_PKT64 in statistics:  # only where 32 bits did not hold them
        packets = int.from_bytes(statistics[_TCA_STATS_PKT64], sys.byteorder)
    _, backlog_nbytes, dropped = _QUEUE.unpack_from(statistics[_TCA_STATS_QUEUE])
    return Transmitted(packets, nbytes, dropped, backlog_nbytes)


def read_queues(netlink: socket.socket) -> list[bytes]:
    """What the kernel says of the queues of all interfaces of the socket's namespace, for `parse_queues`."""
    netlink.send(
        encoded(_RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 0, TCMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
    )
    answers = [netlink.recv(_ANSWER_NBYTES)]
    while not ends_dump(answers[-1]):
        answers.append(netlink.recv(_ANSWER_NBYTES))
    return answers


def parse_queues(answers: Sequence[bytes]) -> Iterator[tuple[int, Transmitted]]:
    """The index of each shaped interface, and what its root has counted."""
    for answer in answers:
        for kind, _, body in messages(answer):
            if kind != _RTM_NEWQDISC:
                continue
            _, ifindex, _, parent, _ = TCMSG.unpack_from(body)
            if parent == _TC_H_ROOT and (counted := _statistics(body[TCMSG.size :])) is not None:
                yield ifindex, counted


class Queues:
    """The ports in this network namespace, and in those of the processes `pids`."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._namespaces = [_ports()]
        for pid in pids:
            with inside(pid):
                self._namespaces.append(_ports())

    def counted(self) -> dict[str, Transmitted]:
        """By interface, since it was shaped; what is not shaped is left out."""
        return {
            names[ifindex]: counted
            for netlink, names in self._namespaces
            for ifindex, counted in parse_queues(read_queues(netlink))
            if ifindex in names
        }

    def dropped(self) -> dict[str, int]:
        """Packets by interface, likewise."""
        return {name: sent.dropped for name, sent in self.counted().items()}


def _ports() -> tuple[socket.socket, Mapping[int, str]]:
    return netlink_socket(), dict(socket.if_nameindex())
