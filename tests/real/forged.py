"""A job of four hosts under two leaves, and what others send into it that does not belong there."""

import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Self

from scapy.utils import checksum

from gradwire.emu.replay.sums import Floats
from gradwire.planning.fabrics.fabric import AGGREGATOR_IP, AGGREGATOR_MAC, BROADCAST_IP, Egress, interface
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Child, Node, Tree
from gradwire.traces.framing.aggregation import FIRST_PORT, NO_PEAK, Header, PacketKind, encode
from tests.made_tree_plans import summed, tree_plan
from tests.made_workers import numbers
from tests.real.members import ALL_PROTOCOLS, Members, raw

HOSTS = ("h0", "h1", "h3", "h4")  # h2 and h5, one at each leaf, are outside
OUTSIDE = ("h2", "h5")
SLOTS, ELEMENTS, N = 8, 64, 64 * 400
ALL_MAC = "ff:ff:ff:ff:ff:ff"
VLAN_5, PRIORITY = b"\x81\x00\x00\x05", b"\x81\x00\xe0\x00"
MORE_FRAGMENTS = 0x2000
BIG = struct.pack(f"!{ELEMENTS}i", *[1 << 20] * ELEMENTS)


def two_level_plan(loss: str = "0%") -> Plan:
    below = (Child(1), Child(2))
    nodes = (
        Node("spine0", (Child(1), Child(2))),
        Node("leaf0", below, parent_port=4),
        Node("leaf1", below, parent_port=4),
    )
    ranks = (0, 1, 2, 3)
    tree = Tree(1, ranks, ranks, FIRST_PORT, SLOTS, ELEMENTS, nodes)
    schedule = summed(tree, 4, (4 * N,))
    plan = tree_plan("leaf-spine:leaves=2,spines=1,hosts=3,rate=100M", schedule, [tree], loss)
    return replace(plan, placement=HOSTS)


def data(seed: int, n: int = N) -> dict[int, Floats]:
    return {rank: numbers(10 * seed + rank, n, ELEMENTS) for rank in range(4)}


def frame(
    payload: bytes,
    *,
    udp_port: int,
    source: str = AGGREGATOR_IP,
    to: str = AGGREGATOR_IP,
    to_mac: str = AGGREGATOR_MAC,
    tag: bytes = b"",
    flags: int = 0,
) -> bytes:
    """A datagram in its Ethernet frame; `tag` comes before the type, `flags` are IP's, with the offset."""
    udp = struct.pack("!HHHH", udp_port, udp_port, 8 + len(payload), 0)
    length = 20 + len(udp) + len(payload)
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 7, flags, 64, 17, 0) + addresses
    checked = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    macs = bytes.fromhex((to_mac + AGGREGATOR_MAC).replace(":", ""))
    return macs + tag + b"\x08\x00" + checked + udp + payload


def header(kind: int, chunk: int, count: int = 0, *, epoch: int = 0, job: int = 1, version: int = 1) -> bytes:
    """Of a contribution only the numbers would show; a result's peak is more than anybody's."""
    seen = (1 << 64) - 1 if kind == PacketKind.STATUS else 0
    peak = NO_PEAK if kind == PacketKind.CONTRIBUTION else 100
    return encode(Header(kind, job, epoch, count, chunk, peak, seen, version))


def under_way(members: Members, random: Random) -> int:
    """A chunk of the window, or near it."""
    return max(0, members.workers[0].counts().received + random.randint(-2, 2 * SLOTS))


def forgeries(members: Members, random: Random) -> Iterator[bytes]:
    """What a host would send that wants into the sum, or wants others to take its own for the sum."""
    fabric, port = members.plan.fabric, members.tree.udp_port
    places = [(AGGREGATOR_IP, AGGREGATOR_MAC), (BROADCAST_IP, ALL_MAC), ("255.255.255.255", ALL_MAC)]
    places += [(fabric.ip(host), fabric.mac(host)) for host in HOSTS]
    places += [(BROADCAST_IP, fabric.mac(host)) for host in HOSTS]
    for to, to_mac in places:
        kind = random.choice(
            (PacketKind.CONTRIBUTION, PacketKind.CONTRIBUTION, PacketKind.RESULT, PacketKind.RESULT)
        )
        payload = header(kind, under_way(members, random), ELEMENTS) + BIG
        if random.random() < 0.3:
            kind = random.choice(
                (PacketKind.STATUS, PacketKind.EPOCH, PacketKind.CONTRIBUTION, PacketKind.RESULT)
            )
            epoch = random.randint(1, 9) if kind == PacketKind.EPOCH else 0
            payload = header(kind, under_way(members, random), epoch=epoch)
        tag = random.choice((b"", b"", b"", VLAN_5, PRIORITY))
        source = random.choice((AGGREGATOR_IP, *(fabric.ip(host) for host in HOSTS)))
        yield frame(payload, udp_port=port, source=source, to=to, to_mac=to_mac, tag=tag)


def lies(members: Members, random: Random) -> Iterator[bytes]:
    """What no member sends that keeps to the rules; of those there is one that a switch could obey."""
    fabric, port = members.plan.fabric, members.tree.udp_port
    chunk = under_way(members, random)
    good = header(PacketKind.CONTRIBUTION, chunk, ELEMENTS) + BIG
    for kind in (PacketKind.RESULT, PacketKind.STATUS, PacketKind.EPOCH):
        head = header(
            kind, chunk, ELEMENTS if kind == PacketKind.RESULT else 0, epoch=kind == PacketKind.EPOCH
        )
        payload = head + BIG * (kind == PacketKind.RESULT)
        yield frame(payload, udp_port=port, to=BROADCAST_IP, to_mac=ALL_MAC)
        yield frame(payload, udp_port=port)
        yield frame(payload, udp_port=port, to=fabric.ip("h1"), to_mac=fabric.mac("h1"))
    for payload in (
        header(PacketKind.CONTRIBUTION, chunk, ELEMENTS, job=2) + BIG,
        header(PacketKind.CONTRIBUTION, chunk, ELEMENTS, version=2) + BIG,
        header(PacketKind.CONTRIBUTION, chunk, ELEMENTS, epoch=1) + BIG,
        header(PacketKind.CONTRIBUTION, chunk, ELEMENTS, epoch=0xFFFF) + BIG,
        header(PacketKind.CONTRIBUTION, chunk + 1000, ELEMENTS) + BIG,
        header(PacketKind.CONTRIBUTION, 0xFFFFFFFF, ELEMENTS) + BIG,
        header(PacketKind.CONTRIBUTION, chunk, ELEMENTS + 1) + BIG + bytes(4),
        header(PacketKind.CONTRIBUTION, chunk, 0xFFFF) + BIG,
        good[:-4],
        good[:-1],
        good + bytes(4),
        good[:20],
        b"",
    ):
        yield frame(payload, udp_port=port)
    for flags in (MORE_FRAGMENTS, 8, MORE_FRAGMENTS | 8):
        yield frame(good, udp_port=port, flags=flags)
    for tag in (VLAN_5, PRIORITY, VLAN_5 + VLAN_5):
        yield frame(good, udp_port=port, tag=tag)


class Replayed:
    """What passed a host's cable, and sends it again either way."""

    def __init__(self, plan: Plan, host: str, random: Random) -> None:
        port = plan.fabric.peers[Egress(host, 0)]
        self._links = [raw(host, ALL_PROTOCOLS), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)]
        self._links[1].bind((interface(port.node, port.port), 0))
        self._seen: list[deque[bytes]] = [deque(maxlen=400), deque(maxlen=400)]
        self._random = random

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.close()

    def again(self, n: int) -> None:
        with suppress(BlockingIOError):
            while True:
                octets, address = self._links[0].recvfrom(1 << 16, socket.MSG_DONTWAIT)
                self._seen[address[2] != socket.PACKET_OUTGOING].append(octets)
        for link, seen in zip(self._links, self._seen, strict=True):
            for octets in self._random.sample(seen, min(n, len(seen))):
                with suppress(BlockingIOError, OSError):
                    link.send(octets)
