"""Reads of a stream: noted of whole packets, and answered alike by trimmed ones with an index."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.messageindex import MessageIndex, decode, encode
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.reads import Streams, index_of, recorded, supplemented
from gradwire.traces.packets.streams import assemble
from tests.made_captures import HEADERS_NBYTES, SYN, Record, pcap, stream, tcp

A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
FORTH = Direction(*A, *B)
SHA = "0" * 64
NEAR_WRAP = 2**32 - 40  # so that sequence numbers wrap within the streams

parts = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8)
asked = st.lists(st.tuples(st.integers(0, 260), st.integers(0, 60)), max_size=12)
lost = st.sets(st.integers(1, 8), max_size=3)


def captured(path: Path, records: list[Record], visible: int = 65_535) -> Packets:
    cut = [Record(r.time_ns, r.frame[: HEADERS_NBYTES + visible], len(r.frame)) for r in records]
    path.write_bytes(pcap(cut))
    return read_capture(path)


def packets_of(octets: list[bytes], flags: int = SYN) -> list[Record]:
    return stream(A, B, [(i * 1000 + 1000, part) for i, part in enumerate(octets)], NEAR_WRAP, flags)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(octets=parts, asked=asked, visible=st.integers(0, 30), lost=lost)
def test_every_read_of_the_whole_is_answered_by_the_trimmed_with_its_index(
    tmp_path: Path, octets: list[bytes], asked: list[tuple[int, int]], visible: int, lost: set[int]
) -> None:
    records = [record for number, record in enumerate(packets_of(octets)) if number not in lost]
    whole = recorded(assemble([captured(tmp_path / "whole.pcap", records)]))
    if not whole:
        return
    said = [whole[FORTH].visible.read(offset, nbytes) for offset, nbytes in asked]
    kept = assemble([captured(tmp_path / "cut.pcap", records, visible)])
    index = decode(encode(index_of(SHA, kept, whole)))
    back = supplemented(kept, [index])[FORTH]
    assert [back.visible.read(offset, nbytes) for offset, nbytes in asked] == said
    assert list(back.visible.starts_from(0)) == list(kept[FORTH].visible.starts_from(0))
    shown = {b for a, to in zip(*kept[FORTH].visible.ranges(), strict=True) for b in range(a, to)}
    read = {b for (a, _), one in zip(asked, said, strict=True) for b in range(a, a + len(one))}
    in_index = {
        b
        for one in index.streams
        for a, n in zip(one.offset.tolist(), one.nbytes.tolist(), strict=True)
        for b in range(a, a + n)
    }
    assert in_index == read - shown  # what is needed, and nothing else of the payload


def test_an_index_whose_stream_was_seen_from_its_syn_serves_one_that_was_not(tmp_path: Path) -> None:
    """Offsets then count from another byte."""
    records = packets_of([b"a" * 10, b"b" * 10, b"c" * 10])
    whole = recorded(assemble([captured(tmp_path / "whole.pcap", records)]))
    assert whole[FORTH].visible.read(15, 10) == b"bbbbbccccc"
    index = index_of(SHA, assemble([captured(tmp_path / "cut.pcap", records, 4)]), whole)
    later = assemble([captured(tmp_path / "later.pcap", records[2:], 4)])
    assert supplemented(later, [index])[FORTH].visible.read(5, 10) == b"bbbbbccccc"
    assert later[FORTH].visible.read(5, 10) == b""


def with_pieces(kept: Streams, *pieces: tuple[int, bytes]) -> Streams:
    from tests.traces.test_messageindex import part

    first_seq = kept[FORTH].first_seq
    indexes = [MessageIndex(SHA, (part(FORTH, first_seq, piece),)) for piece in pieces]
    return supplemented(kept, indexes)


def test_packets_are_believed_before_an_index_and_the_first_index_before_the_second(tmp_path: Path) -> None:
    kept = assemble([captured(tmp_path / "a.pcap", packets_of([b"abcdefgh"]), 4)])
    back = with_pieces(kept, (2, b"XXXX"), (4, b"YYYY"))[FORTH]
    assert back.visible.read(0, 9) == b"abcdXXYY"


def test_a_piece_outside_its_stream_is_left_out(tmp_path: Path) -> None:
    kept = assemble([captured(tmp_path / "a.pcap", packets_of([b"abcdefgh"]), 4)])
    back = with_pieces(kept, (4, b"efghi"), (1 << 49, b"z"))[FORTH]
    assert back.visible.read(4, 9) == b""
    assert back.visible.read(1 << 49, 1) == b""


def test_an_index_of_other_streams_changes_nothing(tmp_path: Path) -> None:
    kept = assemble([captured(tmp_path / "a.pcap", [Record(1, tcp(A, B, 5, b"abc"))])])
    from tests.traces.test_messageindex import INDEX, part

    other = MessageIndex(SHA, (part(FORTH.reverse, 0, (0, b"x")), INDEX.streams[1]))
    assert supplemented(kept, [other])[FORTH] is kept[FORTH]
