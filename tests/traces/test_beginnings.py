"""What framings rule out of many connections at once, against what they say of each."""

import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from gradwire.traces.framing.beginnings import beginnings
from gradwire.traces.framing.framings import BUILT_IN, RulesOut, choose, choose_all
from gradwire.traces.framing.gloo import Opcode, encode_preamble
from gradwire.traces.framing.http2 import PREFACE
from gradwire.traces.framing.mpi_btl import MAGIC
from gradwire.traces.framing.plain import MIN_NBYTES
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import Connection, assemble, connections
from tests.made_captures import ACK, SYN, Record, pcap, tcp

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
PREAMBLE = encode_preamble(Opcode.SEND_READY, 7, 64)
HANDSHAKE = struct.pack("<II", 9, 1) + MAGIC.ljust(16, b"\0")
GREETING = struct.pack("!IIIIIIIB", 5, 1, 5, 0, 0, 0, 40, 1).ljust(64, b"\0") + bytes(40)
BEGINNINGS = (
    b"", b"\1" + bytes(7), PREAMBLE, bytes(8) + PREAMBLE * 2, HANDSHAKE, HANDSHAKE + bytes(40), GREETING,
    PREFACE + SETTINGS, SETTINGS, b"GET / HTTP/1.1\r\n", bytes(70), b"x" * (MIN_NBYTES - 50),
)  # fmt: skip


def connection(draw: Random, port: int) -> list[Record]:
    """One that begins with some of BEGINNINGS, perhaps changed, perhaps cut off, perhaps without its SYN."""
    client, server = ("10.0.0.1", port), ("10.0.0.2", draw.choice([29500, 80]))
    at = draw.randrange(10**9)
    found = []
    knows_opening = draw.random() < 0.7
    for src, dst, flags in ((client, server, SYN), (server, client, SYN | ACK)):
        if knows_opening:
            found.append(Record(at, tcp(src, dst, 99, flags=flags)))
        octets = bytearray(draw.choice(BEGINNINGS))
        if octets and draw.random() < 0.5:
            octets[draw.randrange(min(len(octets), 60))] ^= 1 << draw.randrange(8)
        octets = octets[: draw.choice([len(octets), draw.randrange(100)])]
        cut = draw.choice([0, draw.randrange(100)])  # in two packets
        lost = draw.random() < 0.1  # the first of these
        cuts = [0, min(cut, len(octets)), *range(cut + 30_000, len(octets), 30_000), len(octets)]
        parts = [(100 + begin, octets[begin:end]) for begin, end in pairwise(cuts)]
        for seq, part in parts[lost:]:
            at += 1000
            found.append(Record(at, tcp(src, dst, seq, bytes(part))))
    return found


def some_connections(folder: Path, seed: int) -> list[Connection]:
    draw = Random(seed)
    records = sorted(
        (record for port in range(1000, 1060) for record in connection(draw, port)), key=lambda r: r.time_ns
    )
    path = folder / "made.pcap"
    path.write_bytes(pcap(records, snaplen=draw.choice([96, 128, 65535])))
    return connections(assemble([read_capture(path)]))


@pytest.mark.parametrize("seed", range(40))
def test_what_a_framing_rules_out_does_not_fit_it(tmp_path: Path, seed: int) -> None:
    found = some_connections(tmp_path, seed)
    seen = beginnings(found)
    for framing in BUILT_IN:
        assert isinstance(framing, RulesOut)
        for one, is_out in zip(found, framing.rules_out(seen).tolist(), strict=True):
            assert not is_out or framing.fit(one) is None, (framing.name, one)
    assert choose_all(found) == tuple(map(choose, found))


def test_short_requests_of_something_else_are_ruled_out(tmp_path: Path) -> None:
    client = ("10.0.0.1", 4000)
    server = ("10.0.0.2", 80)
    records = [
        Record(1, tcp(client, server, 0, flags=SYN)),
        Record(2, tcp(server, client, 0, flags=SYN | ACK)),
        Record(
            3,
            tcp(client, server, 1, b"GET / HTTP/1.1\r\nHost: a.example\r\nAccept: text/html, text/plain\r\n"),
        ),
        Record(
            4, tcp(server, client, 1, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n")
        ),
    ]
    path = tmp_path / "short.pcap"
    path.write_bytes(pcap(records))
    seen = beginnings(connections(assemble([read_capture(path)])))
    for framing in BUILT_IN:
        assert isinstance(framing, RulesOut)
        assert framing.rules_out(seen).tolist() == [True]
