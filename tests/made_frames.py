"""Made-up packets, aimed at the made-up rules more often than not.  Values only."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from hypothesis import strategies as st

from tests.made_rules import ADDRESSES, ETH_TYPES, IPV4, L4_PORTS, MACS, PORTS, TCP, UDP, Fields, one

_ICMP, _OSPF = 1, 89
_VLAN_TAG = bytes.fromhex("81000005")
_IPV4 = struct.Struct("!BBHHHBBHII")
_DO_NOT, _MORE, _LATER = 0x4000, 0x2000, 0x0007
_FRAGMENTS = (0, 0, 0, 0, _DO_NOT, _MORE, _LATER, _MORE | _LATER)


@dataclass(frozen=True)
class Frame:
    """A packet and the port that it comes in at."""

    in_port: int
    octets: bytes
    description: str

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis shows it: a packet may have 1,500 octets."""
        printer.text(f"<{len(self.octets)} octets into port {self.in_port}: {self.description}>")


@dataclass(frozen=True)
class Headers:
    """What a packet is made of; fields that a packet does not have are not looked at."""

    in_port: int
    eth_src: str
    eth_dst: str
    eth_type: int
    ip_proto: int
    ipv4_src: str
    ipv4_dst: str
    sport: int
    dport: int


@st.composite
def headers(draw: st.DrawFn, match: Fields = ()) -> Headers:
    """Headers that the match matches, the rest of them drawn."""
    wanted = dict(match)

    def choose(values: Sequence[Any], *names: str) -> Any:
        drawn = draw(one(values))
        return next((wanted[name] for name in names if name in wanted), drawn)

    return Headers(
        choose(PORTS, "in_port"),
        choose((*MACS[:2], "02:00:00:00:00:0c"), "eth_src"),
        choose(MACS, "eth_dst"),
        choose((IPV4, IPV4, IPV4, *ETH_TYPES, 0x88B7), "eth_type"),
        choose((TCP, UDP, UDP, _ICMP, _OSPF), "ip_proto"),
        choose(ADDRESSES, "ipv4_src"),
        choose(ADDRESSES, "ipv4_dst"),
        choose(L4_PORTS, "tcp_src", "udp_src"),
        choose(L4_PORTS, "tcp_dst", "udp_dst"),
    )


@st.composite
def frames(draw: st.DrawFn, known: Sequence[Fields]) -> Frame:
    """A whole packet, aimed at one of the known matches more often than not."""
    is_aimed = known and draw(st.integers(0, 3)) > 0
    made = draw(headers(draw(one(known)) if is_aimed else ()))
    payload = bytes(draw(one((0, 1, 18, 60, 1400))))
    described = "raw"
    if made.eth_type == IPV4:
        described, payload = draw(ipv4_packets(made, payload))
    addresses = _mac(made.eth_dst) + _mac(made.eth_src)
    if draw(st.integers(0, 9)) == 0:
        described, addresses = f"VLAN 5, {described}", addresses + _VLAN_TAG
    octets = addresses + made.eth_type.to_bytes(2, "big") + payload
    return Frame(made.in_port, octets, f"{described} {made}")


@st.composite
def ipv4_packets(draw: st.DrawFn, made: Headers, payload: bytes) -> tuple[str, bytes]:
    """An honest IPv4 packet: header with or without options, whole or one of its fragments."""
    options = bytes(draw(one((0, 0, 0, 4, 40))))
    fragment = draw(one(_FRAGMENTS))
    if fragment & _LATER:
        content = bytes(range(200, 216)) + payload
    elif made.ip_proto == TCP:
        content = struct.pack("!HHIIBBHHH", made.sport, made.dport, 7, 8, 0x50, 0x10, 999, 0, 0) + payload
    elif made.ip_proto == UDP:
        content = struct.pack("!HHHH", made.sport, made.dport, 8 + len(payload), 0) + payload
    else:
        content = b"\x08\x00\x00\x00\x00\x01\x00\x01" + payload
    header = _IPV4.pack(
        0x45 + len(options) // 4,
        0,
        20 + len(options) + len(content),
        77,
        fragment,
        64,
        made.ip_proto,
        0,
        int(IPv4Address(made.ipv4_src)),
        int(IPv4Address(made.ipv4_dst)),
    )
    checked = b"".join((header[:10], _checksum(header + options), header[12:], options))
    padding = bytes(draw(one((0, 0, 6))))
    return f"fragment {fragment:#x}, {len(options)} octets of options,", checked + content + padding


def _checksum(header: bytes) -> bytes:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
