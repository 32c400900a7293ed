"""Open MPI conversations that a test writes itself, fragment by fragment, with struct alone."""

import struct
from collections.abc import Sequence
from pathlib import Path

from gradwire.traces.framing.frames import Found, Frame
from gradwire.traces.framing.mpi_decode import MpiDecoded, decode
from gradwire.traces.framing.mpi_framing import Mpi
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.streams import assemble, connections
from tests.made_captures import ACK, HEADERS_NBYTES, SYN, Record, pcap, stream, tcp

A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
FORTH = Direction(*A, *B)
BACK = FORTH.reverse
ALLREDUCE, BARRIER = -12, -16
JOB = 0x64650001
Part = tuple[int, bytes]  # when a packet leaves, in microseconds, and its bytes


def handshake(number: int, order: str = "<", job: int = JOB) -> bytes:
    return struct.pack(order + "II16s", job, number, b"OPAL-TCP-BTL\0")


def match(
    tag: int, payload: bytes = b"", seq: int = 1, src: int = 0, *, pad: bytes = b"", ctx: int = 0
) -> bytes:
    return _send(0x41, struct.pack("<BBHiiH", 0x41, 0, ctx, src, tag, seq) + pad + payload)


def rndv(tag: int, total: int, request: int, seq: int = 1, src: int = 0, eager: bytes = b"") -> bytes:
    return _send(0x42, struct.pack("<BBHiiHxxQQ", 0x42, 0, 0, src, tag, seq, total, request) + eager)


def put_request(request: int, cookie: int, address: int, nbytes: int, offset: int = 0) -> bytes:
    return _send(0x48, struct.pack("<BB6xQQQQQQ", 0x48, 0x44, request, cookie, 7, offset, address, nbytes))


def ack(request: int, offset: int = 0, nbytes: int = 0) -> bytes:
    return _send(0x44, struct.pack("<BB6xQQQQ", 0x44, 0, request, 7, offset, nbytes))


def frag(request: int, offset: int, payload: bytes) -> bytes:
    return _send(0x46, struct.pack("<BB6xQQQ", 0x46, 0, offset, request, 7) + payload)


def put(address: int, nbytes: int) -> bytes:
    return struct.pack("<BBHIQQ", 0x20, 2, 1, nbytes, address, nbytes) + b"\x3f" * nbytes


def fin(cookie: int, nbytes: int) -> bytes:
    return _send(0x49, struct.pack("<BB6xqQ", 0x49, 0, nbytes, cookie))


def close() -> bytes:
    return struct.pack("<BBHI", 0, 4, 0, 0)


def conversation(
    forth: Sequence[Part],
    back: Sequence[Part],
    *,
    visible: int = 65535,
    hello: bool = True,
    ends: tuple[tuple[str, int], tuple[str, int]] = (A, B),
) -> list[Record]:
    """The packets of one connection, each part one packet; `visible` bytes of each packet's payload are kept.

    With `hello` both sides begin with a SYN and the handshake, of processes 0 and 1; without, the capture
    began later.
    """
    both = []
    for src, dst, parts, number, flags in (
        (*ends, forth, 0, SYN),
        (*ends[::-1], back, 1, SYN | ACK),
    ):
        timed = [(time_us * 1000, payload) for time_us, payload in parts]
        if hello:
            both += stream(src, dst, [(1, handshake(number)), *timed], 1, flags)
            continue
        seq = 77_000
        for time_ns, payload in timed:
            both.append(Record(time_ns, tcp(src, dst, seq, payload)))
            seq += len(payload)
    both.sort(key=lambda record: record.time_ns)
    return [Record(r.time_ns, r.frame[: HEADERS_NBYTES + visible], len(r.frame)) for r in both]


def captured(path: Path, records: Sequence[Record]) -> Packets:
    path.write_bytes(pcap(sorted(records, key=lambda record: record.time_ns)))
    return read_capture(path)


def talk(
    path: Path, forth: Sequence[Part], back: Sequence[Part], visible: int = 65535, hello: bool = True
) -> Packets:
    return captured(path, conversation(forth, back, visible=visible, hello=hello))


def decoded_in(packets: Packets) -> dict[Direction, MpiDecoded]:
    tried = {direction: decode(one) for direction, one in assemble([packets]).items()}
    return {direction: one for direction, one in tried.items() if one is not None}


def found_in(*captures: Packets) -> Found:
    return Mpi().read([one for one in connections(assemble(captures)) if Mpi().fit(one) is not None])


def frames_in(*captures: Packets) -> dict[Direction, tuple[Frame, ...]]:
    return {reading.stream.direction: reading.frames for reading in found_in(*captures).readings}


def _send(tag: int, body: bytes) -> bytes:
    return struct.pack("<BBHI", tag, 1, 0, len(body)) + body
