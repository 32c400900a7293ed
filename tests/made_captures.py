"""Captures that a test writes itself, byte by byte, with struct alone."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Literal

Order = Literal["<", ">"]
NS_MAGIC, US_MAGIC = 0xA1B23C4D, 0xA1B2C3D4
SYN, RST, PSH, ACK = 0x02, 0x04, 0x08, 0x10
HEADERS_NBYTES = 14 + 20 + 20


@dataclass(frozen=True)
class Record:
    time_ns: int
    frame: bytes
    wire_nbytes: int | None = None


def pcap(
    records: Iterable[Record],
    order: Order = "<",
    magic: int = NS_MAGIC,
    link_type: int = 1,
    snaplen: int = 65535,
) -> bytes:
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    unit_ns = 1 if magic == NS_MAGIC else 1000
    for record in records:
        seconds, rest_ns = divmod(record.time_ns, 10**9)
        kept = record.frame[:snaplen]
        wire = len(record.frame) if record.wire_nbytes is None else record.wire_nbytes
        parts += [struct.pack(order + "IIII", seconds, rest_ns // unit_ns, len(kept), wire), kept]
    return b"".join(parts)


def ethernet(ip: bytes, vlans: Sequence[int] = (), ether_type: int = 0x0800) -> bytes:
    tags = b"".join(struct.pack("!HH", 0x8100, vlan) for vlan in vlans)
    return b"\x02" * 12 + tags + struct.pack("!H", ether_type) + ip


@lru_cache(1 << 10)
def _packed(address: str) -> bytes:
    return IPv4Address(address).packed


def ipv4(src: str, dst: str, protocol: int, payload: bytes, total: int | None = None) -> bytes:
    nbytes = 20 + len(payload) if total is None else total
    ends = _packed(src) + _packed(dst)
    return struct.pack("!BBHHHBBH", 0x45, 0, nbytes, 7, 0x4000, 64, protocol, 0) + ends + payload


def tcp(
    src: tuple[str, int],
    dst: tuple[str, int],
    seq: int,
    payload: bytes = b"",
    flags: int = ACK,
    ack: int = 0,
    window: int = 512,
) -> bytes:
    numbers = seq % 2**32, ack % 2**32
    header = struct.pack("!HHIIBBHHH", src[1], dst[1], *numbers, 5 << 4, flags, window, 0, 0)
    return ethernet(ipv4(src[0], dst[0], 6, header + payload))


def udp(src: tuple[str, int], dst: tuple[str, int], payload: bytes) -> bytes:
    header = struct.pack("!HHHH", src[1], dst[1], 8 + len(payload), 0)
    return ethernet(ipv4(src[0], dst[0], 17, header + payload))


def stream(
    src: tuple[str, int], dst: tuple[str, int], parts: Sequence[tuple[int, bytes]], first_seq: int, flags: int
) -> list[Record]:
    """A SYN with `flags`, then each (time, bytes) as one packet, in order."""
    records = [Record(0, tcp(src, dst, first_seq - 1, flags=flags))]
    seq = first_seq
    for time_ns, payload in parts:
        records.append(Record(time_ns, tcp(src, dst, seq, payload)))
        seq += len(payload)
    return records


def split_pcap(data: bytes) -> list[bytes]:
    """The records of a little-endian pcap file, each with its header."""
    at, records = 24, []
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at:end])
        at = end
    return records
