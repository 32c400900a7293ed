"""A switch with veth ports in the kernel, its program run packet by packet, and what it sends."""

import select
import socket
import struct
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from gradwire.emu.network.cables import await_carriers
from gradwire.emu.switch.plane.bpf import BpfObject
from gradwire.emu.switch.plane.maps import PROGRAM, Maps, PortState
from gradwire.emu.switch.table.planeoperations import RemovePool, RemoveRule, SetPool, SetRule
from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.pool import Sent
from gradwire.traces.framing.aggregation import FIRST_PORT, Header, PacketKind, encode
from tests.real.timely import PATIENCE_S

STOLEN, SHOT = 4, 2  # TC_ACT_...
MTU = 9000
_AGGREGATOR, _AGGREGATOR_MAC = "10.0.255.254", "02:00:0a:00:ff:fe"
_ALL_HOSTS, _ALL_MAC = "10.0.255.255", "ff:ff:ff:ff:ff:ff"
_RECEIVE_BUFFER_NBYTES = 1 << 24
_SO_RCVBUFFORCE = 33
_ETH_P_ALL = 3
_PIN = Path("/sys/fs/bpf/aggregation")


class Seen(NamedTuple):
    port: int
    frame: bytes


@lru_cache(maxsize=1024)
def headers(is_up: bool, payload_nbytes: int, udp_port: int) -> bytes:
    """Ethernet to UDP as Scapy makes them, of a packet that a switch sends."""
    packet = (
        Ether(src=_AGGREGATOR_MAC, dst=_AGGREGATOR_MAC if is_up else _ALL_MAC)
        / IP(src=_AGGREGATOR, dst=_AGGREGATOR if is_up else _ALL_HOSTS, id=0, ttl=64)
        / UDP(sport=udp_port, dport=udp_port, chksum=0)
        / Raw(bytes(payload_nbytes))
    )
    return bytes(packet)[:42]


def frame_of(sent: Sent, udp_port: int = FIRST_PORT) -> Seen:
    """The whole frame that a packet of the model has on the wire."""
    payload = encode(sent.header) + struct.pack(f"!{len(sent.elements)}i", *sent.elements)
    return Seen(sent.port, headers(sent.header.kind == 1, len(payload), udp_port) + payload)


def contribution(header: Header, elements: Iterable[int], udp_port: int = FIRST_PORT) -> bytes:
    """A neighbour's packet; all but its destination is its own, and must not be passed on."""
    numbers = tuple(elements)
    to = _AGGREGATOR if header.kind == PacketKind.CONTRIBUTION else _ALL_HOSTS
    return host_frame(encode(header) + struct.pack(f"!{len(numbers)}i", *numbers), udp_port, to)


def host_frame(payload: bytes, udp_port: int = FIRST_PORT, to: str = _AGGREGATOR) -> bytes:
    udp = struct.pack("!HHHH", 40_000, udp_port, 8 + len(payload), 0xBEEF)
    ip = struct.pack("!BBHHHBBH4s", 0x45, 8, 28 + len(payload), 77, 0x4000, 3, 17, 0, b"abcd")
    return b"hosts.source" + b"\x08\x00" + ip + socket.inet_aton(to) + udp + payload


class Bench:
    """Ports 1..n of switch 0: interface `s<port>`, whose far end is `h<port>`."""

    def __init__(self, loaded: BpfObject, n_ports: int) -> None:
        for port in range(1, n_ports + 1):
            pair = f"link add s{port} mtu {MTU} type veth peer name h{port} mtu {MTU}".split()
            for arguments in (pair, ["link", "set", f"s{port}", "up"], ["link", "set", f"h{port}", "up"]):
                subprocess.run(["ip", *arguments], check=True)
        self.loaded, self.maps = loaded, Maps(loaded)
        self.ifindex = {port: socket.if_nametoindex(f"s{port}") for port in range(1, n_ports + 1)}
        await_carriers(self.ifindex.values())
        for port, ifindex in self.ifindex.items():
            self.maps.set_port(ifindex, PortState(0, port, 0, port, True))
        self._far = {f"h{port}": port for port in self.ifindex}
        self._tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_NBYTES)
        self._tap.setblocking(False)

    def grant(self, pool: int, rule: Aggregate, udp_port: int = FIRST_PORT) -> None:
        """A pool, and the rules of its children and of its parent."""
        self.maps.apply(0, self.ifindex, SetPool(pool, rule))
        for child, port in self._members(rule):
            match = Match(0x800, ip_proto=17, dport=udp_port, in_port=port)
            own = rule._replace(child=child)
            self.maps.apply(0, self.ifindex, SetRule(match, 400, (own,), pool, pool=pool))

    def revoke(self, pool: int, rule: Aggregate, udp_port: int = FIRST_PORT) -> None:
        for _, port in self._members(rule):
            match = Match(0x800, ip_proto=17, dport=udp_port, in_port=port)
            self.maps.apply(0, self.ifindex, RemoveRule(match))
        self.maps.apply(0, self.ifindex, RemovePool(pool))

    def receive(self, port: int, frame: bytes) -> int:
        """What the program returns for a frame that comes in through the port."""
        return self.loaded.run_program(PROGRAM, frame, self.ifindex[port], (0, 0, 0, 0, 0))

    def attach(self) -> None:
        """Have `carry` bring frames to the program: a test run takes only what a page has room for."""
        self.loaded.pin_program(PROGRAM, _PIN)
        for port in self.ifindex:
            for command in (
                f"qdisc add dev s{port} clsact",
                f"filter add dev s{port} ingress bpf da object-pinned {_PIN}",
            ):
                subprocess.run(["tc", *command.split()], check=True)

    def carry(self, port: int, frame: bytes) -> None:
        """A frame over the cable to the port."""
        self._tap.sendto(frame, (f"h{port}", 0))

    def sent(self, n: int) -> list[Seen]:
        """The next `n` frames that arrive at far ends, in order, and any that are there beyond; fewer only
        after PATIENCE_S without one.
        """
        found: list[Seen] = []
        while len(found) <= n:
            if len(found) < n and not select.select([self._tap], [], [], PATIENCE_S)[0]:
                break
            try:
                frame, (interface, _, kind, *_) = self._tap.recvfrom(1 << 16)
            except BlockingIOError:
                break
            if interface in self._far and kind != socket.PACKET_OUTGOING:
                found.append(Seen(self._far[interface], frame))
        return found

    def _members(self, rule: Aggregate) -> list[tuple[int, int]]:
        """(child, port) of all; FROM_PARENT if there is one."""
        parent = [] if rule.parent_port is None else [(FROM_PARENT, rule.parent_port)]
        return [*enumerate(rule.ports), *parent]
