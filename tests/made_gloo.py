"""gloo conversations that a test writes itself, packet by packet."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gradwire.traces.framing.gloo import HELLO_NBYTES, Opcode, encode_preamble
from gradwire.traces.framing.gloo_decode import GlooDecoded, decode
from gradwire.traces.framing.gloo_hidden import Recovered, recover
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.streams import assemble
from tests.made_captures import ACK, HEADERS_NBYTES, SYN, Record, pcap, stream, tcp

LOW, HIGH = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
DOWN = Direction(*HIGH, *LOW)  # from the one that opens the connection, as gloo's higher address does
UP = DOWN.reverse


class Sent(NamedTuple):
    opcode: Opcode
    slot: int
    length: int

    @property
    def wire(self) -> bytes:
        payload = b"\x3f" * self.length if self.opcode.has_payload else b""
        return encode_preamble(self.opcode, self.slot, self.length) + payload


def conversation(
    path: Path,
    down: Sequence[Sequence[Sent]],
    up: Sequence[Sequence[Sent]],
    *,
    visible: int = 65535,
    hello: bool = True,
    up_first: bool = False,
) -> Packets:
    """A capture of one connection.  Each inner sequence is written at once and leaves as one packet, one per
    microsecond, or all of `up` before `down`; `visible` bytes of each packet's payload are captured."""
    down_parts = [(i * 1000 + 1000, b"".join(m.wire for m in group)) for i, group in enumerate(down)]
    up_parts = [
        (510 + i if up_first else i * 1000 + 1500, b"".join(m.wire for m in group))
        for i, group in enumerate(up)
    ]
    records = (
        _whole(DOWN, [(500, b"h" * HELLO_NBYTES), *down_parts], SYN) if hello else _bare(DOWN, down_parts)
    )
    records += _whole(UP, up_parts, SYN | ACK) if hello else _bare(UP, up_parts)
    records.sort(key=lambda record: record.time_ns)
    cut = [Record(r.time_ns, r.frame[: HEADERS_NBYTES + visible], len(r.frame)) for r in records]
    path.write_bytes(pcap(cut))
    return read_capture(path)


def found_in(packets: Packets) -> dict[Direction, Recovered]:
    decoded = decoded_in(packets)
    return dict(zip(decoded, recover(decoded), strict=True))


def decoded_in(packets: Packets) -> dict[Direction, GlooDecoded]:
    tried = {direction: decode(one) for direction, one in assemble([packets]).items()}
    return {direction: one for direction, one in tried.items() if one is not None}


def _whole(direction: Direction, parts: Sequence[tuple[int, bytes]], flags: int) -> list[Record]:
    src, dst = (direction.src, direction.sport), (direction.dst, direction.dport)
    return stream(src, dst, parts, 1, flags)


def _bare(direction: Direction, parts: Iterable[tuple[int, bytes]]) -> list[Record]:
    """As if the capture had begun later: no SYN, and the stream somewhere in the middle."""
    src, dst = (direction.src, direction.sport), (direction.dst, direction.dport)
    records, seq = [], 77_000
    for time_ns, payload in parts:
        records.append(Record(time_ns, tcp(src, dst, seq, payload)))
        seq += len(payload)
    return records
