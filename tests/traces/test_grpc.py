"""gRPC's messages in HTTP/2 frames, whole and torn."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.grpc import GrpcSide, read_side
from gradwire.traces.framing.http2 import Flag, FrameType
from gradwire.traces.framing.http2_decode import decode
from gradwire.traces.packets.streams import Stream
from tests.made_http2 import END, Answers, Asks, data, frame, from_client, from_server, in_chunks, message

PATH = "/ps.Worker/Push"
PING = frame(FrameType.PING, 0, 0, b"12345678")


def side(stream: Stream) -> GrpcSide:
    return read_side(stream, list(decode(stream)))


def sizes(found: GrpcSide) -> list[int]:
    return [one.nbytes for one in found.messages]


def test_a_message_in_several_frames_is_one_and_so_are_several_in_one_frame(tmp_path: Path) -> None:
    asks = Asks()
    writes = [
        asks.headers(1, PATH) + in_chunks(1, message(40_000), 16_384, END),
        asks.headers(3, PATH) + data(3, message(10) + message(0) + message(20), END),
    ]
    found = side(from_client(tmp_path / "a.pcap", writes))
    assert sizes(found) == [40_000, 10, 0, 20]
    assert found.rests == []
    assert found.paths == {1: PATH, 3: PATH}
    assert [one.end - one.start for one in found.messages[:1]] == [40_000 + 5 + 3 * 9]


def test_messages_of_two_calls_between_each_other_are_told_apart(tmp_path: Path) -> None:
    asks, one, other = Asks(), message(300), message(500)
    write = asks.headers(1, PATH) + asks.headers(3, PATH) + data(1, one[:100]) + data(3, other[:3])
    write += data(1, one[100:], END) + data(3, other[3:], END)
    found = side(from_client(tmp_path / "a.pcap", [write]))
    assert {message.call: message.nbytes for message in found.messages} == {1: 300, 3: 500}


def test_padding_is_not_a_part_of_a_message(tmp_path: Path) -> None:
    padded = frame(FrameType.DATA, END | Flag.PADDED, 1, bytes([7]) + message(50) + bytes(7))
    found = side(from_client(tmp_path / "a.pcap", [Asks().headers(1, PATH) + padded]))
    assert sizes(found) == [50]


@pytest.mark.parametrize("visible", [74, 62, 60])
def test_a_message_is_known_by_its_prefix_though_its_later_frames_are_hidden(
    tmp_path: Path, visible: int
) -> None:
    """Three frames of data, of which the headers of two are in the middle of packets."""
    answers = Answers()
    first = answers.headers(1) + data(1, message(2), 0) + answers.trailers(1)
    writes = [first] + [
        answers.headers(call) + in_chunks(call, message(10_000), 4_096) + answers.trailers(call)
        for call in (3, 5)
    ]
    found = side(from_server(tmp_path / "a.pcap", writes, visible))
    assert sizes(found)[-2:] == [10_000, 10_000]
    trailers = len(answers.trailers(7))
    assert [rest.end - rest.start for rest in found.rests[-2:]] == [trailers, trailers]
    assert found.rests[-1].n_ended == 1


def test_a_gap_before_the_rest_of_a_message_holds_something_else(tmp_path: Path) -> None:
    asks, one = Asks(), message(300)
    head, hidden = asks.headers(1, PATH) + data(1, one[:100]), PING * 4
    writes = [head + hidden, data(1, one[100:], END), PING]
    found = side(from_client(tmp_path / "a.pcap", writes, visible=len(head) + 3))
    assert sizes(found) == [300]
    assert [rest.end - rest.start for rest in found.rests] == [len(hidden)]


def test_a_body_whose_prefix_is_hidden_has_the_size_of_its_frame(tmp_path: Path) -> None:
    """The data's header is the last that is captured; the next packet shows where the frame ends."""
    asks = Asks()
    head = asks.headers(1, PATH)
    write = head + data(1, message(200), END)
    stream = from_client(tmp_path / "a.pcap", [write, PING], visible=len(head) + 9)
    found = side(stream)
    assert [(one.nbytes, one.is_read) for one in found.messages] == [(200, False)]


def test_a_message_that_the_capture_ends_in_reaches_beyond_it(tmp_path: Path) -> None:
    stream = from_client(tmp_path / "a.pcap", [Asks().headers(1, PATH) + data(1, message(9_000)[:4_000])])
    found = side(stream)
    assert sizes(found) == [9_000]
    assert found.messages[0].end > stream.nbytes


def test_lengths_that_lie_take_neither_memory_nor_time(tmp_path: Path) -> None:
    longest = b"\0" + b"\xff" * 4 + b"x"
    write = Asks().headers(1, PATH) + data(1, longest)
    endless = (b"\xff\xff\xff\0\0" + b"\x7f\xff\xff\xff") + b"y" * 100
    stream = from_client(tmp_path / "a.pcap", [write, PING, endless])
    assert sizes(side(stream))[0] == (1 << 32) - 1


def test_a_flood_of_continuations_of_calls_and_of_empty_messages_is_linear(tmp_path: Path) -> None:
    flood = frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.CONTINUATION, 0, 1, b"") * 5_000
    calls = b"".join(frame(FrameType.HEADERS, 4, 2**31 - 1 - 2 * n, b"\x82") for n in range(5_000))
    empty = Asks().headers(1, PATH) + data(1, message(0) * 5_000)
    found = side(from_client(tmp_path / "a.pcap", [flood, calls, empty], segment=60_000))
    assert len(found.calls) == 5_001
    assert sizes(found) == [0] * 5_000


Writes = st.lists(
    st.tuples(st.integers(0, 3_000), st.integers(1, 2_000), st.booleans()), min_size=1, max_size=6
)


@given(Writes, st.integers(45, 2_000), st.integers(50, 1_448))
def test_no_byte_counts_twice_and_what_is_read_is_right(
    writes: list[tuple[int, int, bool]], visible: int, segment: int
) -> None:
    """Whatever is hidden, every message whose prefix was read is one that was sent, and has its own bytes."""
    answers = Answers()
    parts = [
        answers.headers(2 * n + 1)
        + in_chunks(2 * n + 1, message(nbytes, b"\x3f"), chunk)
        + (answers.trailers(2 * n + 1) if is_ended else b"")
        for n, (nbytes, chunk, is_ended) in enumerate(writes)
    ]
    with TemporaryDirectory() as folder:
        stream = from_server(Path(folder) / "a.pcap", parts, visible, segment)
        found = side(stream)
    read = {one.call: one.nbytes for one in found.messages if one.is_read}
    assert read.items() <= {2 * n + 1: nbytes for n, (nbytes, _, _) in enumerate(writes)}.items()
    whole = [one for one in found.messages if one.end <= stream.nbytes]
    assert (
        sum(one.nbytes for one in whole) + sum(rest.end - rest.start for rest in found.rests) <= stream.nbytes
    )
    assert all(rest.start < rest.end <= stream.nbytes for rest in found.rests)


@given(st.binary(max_size=400), st.integers(0, 399), st.integers(0, 255), st.integers(9, 400))
def test_bytes_changed_anywhere_break_nothing(noise: bytes, place: int, byte: int, visible: int) -> None:
    asks = Asks()
    good = asks.headers(1, PATH) + in_chunks(1, message(150), 60, END) + asks.headers(3, PATH) + noise
    bad = good[:place] + bytes([byte]) + good[place + 1 :]
    with TemporaryDirectory() as folder:
        stream = from_client(Path(folder) / "a.pcap", [bad, PING], max(visible, 33), 200)
        found = side(stream)
    assert all(0 <= one.nbytes < 1 << 32 for one in found.messages)
