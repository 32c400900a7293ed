"""HTTP/2 and gRPC conversations that a test writes itself, frame by frame; `hpack` encodes the headers."""

from collections.abc import Sequence
from pathlib import Path

from hpack import Encoder

from gradwire.traces.framing.http2 import PREFACE, Flag, FrameType
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import Connection, Stream, assemble, connections
from tests.made_captures import ACK, HEADERS_NBYTES, PSH, SYN, Record, pcap, stream, tcp

CLIENT, SERVER = ("10.0.0.2", 40_000), ("10.0.0.1", 2222)
END, HEAD = Flag.END_STREAM, Flag.END_HEADERS
AUTHORITY = "10.0.0.1:2222"


def frame(kind: FrameType, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + payload


def settings() -> bytes:
    return frame(FrameType.SETTINGS, 0, 0, bytes.fromhex("000400400000"))


def data(call: int, payload: bytes, flags: int = 0) -> bytes:
    return frame(FrameType.DATA, flags, call, payload)


def message(nbytes: int, fill: bytes = b"\x3f") -> bytes:
    return b"\0" + nbytes.to_bytes(4, "big") + fill * nbytes


def in_chunks(call: int, content: bytes, chunk: int, flags: int = 0) -> bytes:
    pieces = [content[at : at + chunk] for at in range(0, len(content), chunk)]
    return b"".join(data(call, p, flags if n == len(pieces) - 1 else 0) for n, p in enumerate(pieces))


class Asks:
    """A client's header blocks in the order of gRPC's own library: path, authority, what is always so."""

    def __init__(self, *, huffman: bool = False) -> None:
        self._encoder, self._huffman = Encoder(), huffman

    def block(self, path: str) -> bytes:
        fields = [(":path", path), (":authority", AUTHORITY), (":method", "POST"), (":scheme", "http")]
        always = [
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-c/51.0.0 (linux)"),
        ]
        return self._encoder.encode(fields + always, huffman=self._huffman)

    def headers(self, call: int, path: str) -> bytes:
        return frame(FrameType.HEADERS, HEAD, call, self.block(path))


class Answers:
    """A server's headers and trailers."""

    def __init__(self) -> None:
        self._encoder = Encoder()

    def headers(self, call: int) -> bytes:
        fields = [(":status", "200"), ("content-type", "application/grpc")]
        return frame(FrameType.HEADERS, HEAD, call, self._encoder.encode(fields, huffman=False))

    def trailers(self, call: int) -> bytes:
        return frame(
            FrameType.HEADERS, HEAD | END, call, self._encoder.encode([("grpc-status", "0")], huffman=False)
        )


def conversation(
    path: Path,
    asked: Sequence[bytes],
    answered: Sequence[bytes],
    *,
    visible: int = 65535,
    segment: int = 1448,
    opened: bool = True,
) -> Connection:
    """A connection as captured: each entry is written at once, a millisecond after the one before, and leaves
    as packets of up to `segment` bytes, of each of which `visible` are kept."""
    records = _side(CLIENT, SERVER, asked, SYN, segment, opened) + _side(
        SERVER, CLIENT, answered, SYN | ACK, segment, opened
    )
    records.sort(key=lambda record: record.time_ns)
    cut = [Record(r.time_ns, r.frame[: HEADERS_NBYTES + visible], len(r.frame)) for r in records]
    path.write_bytes(pcap(cut))
    return connections(assemble([read_capture(path)]))[0]


def from_client(path: Path, writes: Sequence[bytes], visible: int = 65535, segment: int = 1448) -> Stream:
    """One direction, after the preface."""
    return conversation(path, [PREFACE + settings(), *writes], [], visible=visible, segment=segment).streams[
        0
    ]


def from_server(path: Path, writes: Sequence[bytes], visible: int = 65535, segment: int = 1448) -> Stream:
    found = conversation(
        path, [PREFACE + settings()], [settings(), *writes], visible=visible, segment=segment
    )
    return next(stream for stream in found.streams if not stream.opener)


def _side(
    src: tuple[str, int],
    dst: tuple[str, int],
    writes: Sequence[bytes],
    flags: int,
    segment: int,
    opened: bool,
) -> list[Record]:
    records = stream(src, dst, [], 1, flags) if opened else []
    seq = 1
    for number, write in enumerate(writes):
        for at in range(0, len(write), segment):
            last = at + segment >= len(write)
            piece = write[at : at + segment]
            packet = tcp(src, dst, seq, piece, ACK | PSH if last else ACK)
            records.append(Record((number + 1) * 1_000_000 + at, packet))
            seq += len(piece)
    return records
