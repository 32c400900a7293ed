"""Decoding streams that the tests write, whole, cut short, and hostile."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.gloo import Opcode, encode_preamble, pack_slot
from gradwire.traces.framing.gloo_decode import GlooGap
from gradwire.traces.packets.capture import read_capture
from tests.made_captures import Record, pcap, stream
from tests.made_gloo import DOWN, UP, Sent, conversation, decoded_in

DATA, SEND, RECV = Opcode.DATA, Opcode.SEND_READY, Opcode.RECV_READY
SLOT = pack_slot(4, 3)
MESSAGES = [Sent(SEND, SLOT, 500), Sent(DATA, SLOT, 500), Sent(DATA, SLOT, 0), Sent(DATA, 2, 77)]


def seen(packets_of: Path, **options: object) -> list[tuple[Opcode, int, int]]:
    packets = conversation(packets_of, [[m] for m in MESSAGES], [], **options)  # type: ignore[arg-type]
    return [(f.opcode, f.slot, f.length) for f in decoded_in(packets)[DOWN].frames]


def test_whole_payloads_give_every_message(tmp_path: Path) -> None:
    packets = conversation(tmp_path / "a.pcap", [MESSAGES], [[Sent(RECV, SLOT, 500)]])
    decoded = decoded_in(packets)
    assert [(f.opcode, f.slot, f.length) for f in decoded[DOWN].frames] == MESSAGES
    assert [f.offset for f in decoded[DOWN].frames] == [8, 56, 604, 652]
    assert [f.opcode for f in decoded[UP].frames] == [RECV]
    assert decoded[DOWN].gaps == ()


def test_the_first_bytes_of_each_packet_are_enough(tmp_path: Path) -> None:
    assert seen(tmp_path / "a.pcap", visible=48) == MESSAGES


def test_a_capture_that_begins_in_the_middle_finds_the_next_message(tmp_path: Path) -> None:
    assert seen(tmp_path / "a.pcap", visible=62, hello=False) == MESSAGES


def test_what_lies_between_readable_preambles_is_a_gap(tmp_path: Path) -> None:
    packets = conversation(tmp_path / "a.pcap", [MESSAGES[:3], MESSAGES[3:]], [], visible=48)
    decoded = decoded_in(packets)[DOWN]
    assert decoded.gaps == (GlooGap(56, 56 + 548 + 48),)
    assert [f.offset for f in decoded.frames] == [8, 652]


def test_the_size_of_a_message_is_known_from_the_first_bytes_of_its_preamble(tmp_path: Path) -> None:
    packets = conversation(tmp_path / "a.pcap", [MESSAGES], [], visible=48 + 14)
    assert decoded_in(packets)[DOWN].gaps[0] == GlooGap(56, 604, is_one=True, opcode=DATA)


def test_other_traffic_is_not_taken_for_gloo(tmp_path: Path) -> None:
    preamble = encode_preamble(DATA, SLOT, 10)
    parts = [(1, b"GET / HTTP/1.1\r\n" + b"x" * 60), (2, preamble + b"y" * 10)]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(stream(("10.0.0.1", 1), ("10.0.0.2", 2), parts, 1, 0x02)))
    assert decoded_in(read_capture(path)) == {}


@given(
    junk=st.lists(st.binary(min_size=1, max_size=120), max_size=6),
    lengths=st.lists(st.sampled_from([0, 1, 48, 2**40, 2**63]), max_size=4),
    visible=st.integers(0, 130),
    hello=st.booleans(),
)
def test_hostile_streams_are_decoded_in_bounds(
    tmp_path_factory: pytest.TempPathFactory, junk: list[bytes], lengths: list[int], visible: int, hello: bool
) -> None:
    parts = [(1, encode_preamble(SEND, SLOT, 5)), *((i + 2, data) for i, data in enumerate(junk))]
    for i, length in enumerate(lengths):
        wild = length.to_bytes(8, "little") + encode_preamble(DATA, SLOT, 9)[8:]
        parts.append((100 + i, wild))
    records = stream(("10.0.0.1", 1), ("10.0.0.2", 2), parts, 1, 0x12 if hello else 0)
    cut = [Record(r.time_ns, r.frame[: 54 + visible], len(r.frame)) for r in records]
    path = tmp_path_factory.mktemp("fuzz") / "a.pcap"
    path.write_bytes(pcap(cut))
    for decoded in decoded_in(read_capture(path)).values():
        ends = [(f.offset, f.offset + f.nbytes) for f in decoded.frames]
        ends += [(g.start, g.end) for g in decoded.gaps]
        ends.sort()
        assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(ends))
        assert len(ends) <= decoded.stream.nbytes
