"""Messages that nothing was captured of, by the room that they took."""

from collections import Counter

import pytest

from gradwire.traces.framing.grpc import GrpcSide, Rest
from gradwire.traces.framing.grpc_hidden import Filler, shape_of
from gradwire.traces.packets.streams import Stream
from tests.made_http2 import Answers, from_server, in_chunks, message

CHUNK = 16_384
HEADERS, TRAILERS, SIZES = 12, 10, {61, 1_048, 10_268, 65_566}


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return from_server(tmp_path_factory.mktemp("made") / "a.pcap", [b"x"])


def a_side(stream: Stream) -> GrpcSide:
    side = GrpcSide(stream, headers=Counter({HEADERS: 9}), trailers=Counter({TRAILERS: 9}))
    side.chunk_nbytes = CHUNK
    return side


def wire_nbytes(*sizes: int) -> int:
    """By the closed form: of each message the frames of headers, of data and of trailers."""
    frames = [(size + 5 + CHUNK - 1) // CHUNK for size in sizes]
    return sum(sizes) + len(sizes) * (HEADERS + 5 + TRAILERS) + 9 * sum(frames)


@pytest.mark.parametrize(
    "sent", [[1_048], [65_566, 1_048, 1_048], [10_268, 65_566], [61, 1_048, 10_268, 65_566]]
)
@pytest.mark.parametrize("control", [0, 13, 17])
def test_the_messages_that_fill_a_gap_are_found(stream: Stream, sent: list[int], control: int) -> None:
    room = wire_nbytes(*sent) + control
    filled = Filler(a_side(stream), [SIZES], 20).fill(Rest(1_000, 1_000 + room))
    assert sorted(one.nbytes for one in filled.messages) == sorted(sent)
    assert filled.unknown_from == 1_000 + room
    assert all(1_000 <= one.start < one.end <= 1_000 + room for one in filled.messages)


@pytest.mark.parametrize("room", [0, 13, 17, 26, 30])
def test_trailers_and_control_frames_are_no_messages(stream: Stream, room: int) -> None:
    rest = Rest(0, room + 2 * TRAILERS, n_ended=2)
    assert Filler(a_side(stream), [SIZES], 20).fill(rest) == ((), rest.end)


def test_what_no_choice_fills_stays_unknown(stream: Stream) -> None:
    assert Filler(a_side(stream), [SIZES], 20).fill(Rest(0, 5_000)) == ((), 0)


def test_no_more_messages_are_found_than_calls_are_missing(stream: Stream) -> None:
    rest = Rest(0, wire_nbytes(1_048, 1_048))
    assert len(Filler(a_side(stream), [SIZES], 2).fill(rest).messages) == 2
    assert Filler(a_side(stream), [SIZES], 1).fill(rest).messages == ()


def test_messages_smaller_than_control_frames_are_no_more_than_calls_are_missing(stream: Stream) -> None:
    """Room for two of them, which three control frames could take as well, where one call is missing."""
    assert wire_nbytes(1) < 3 * 17
    assert Filler(a_side(stream), [{1}], 1).fill(Rest(0, wire_nbytes(1, 1))).messages == ()


def test_of_several_choices_only_what_they_share_is_certain(stream: Stream) -> None:
    """10,000 and 10,004 together are twice 10,002: which two were sent is not known, the large one is."""
    sizes = {10_000, 10_002, 10_004, 65_566}
    rest = Rest(0, wire_nbytes(65_566, 10_000, 10_004))
    filled = Filler(a_side(stream), [sizes], 9).fill(rest)
    assert [one.nbytes for one in filled.messages] == [65_566]
    assert filled.unknown_from == wire_nbytes(65_566)


def test_a_choice_with_one_frame_more_is_as_good(stream: Stream) -> None:
    """1,013 bytes are also 1,000 and a window update."""
    filler = Filler(a_side(stream), [{1_000, 1_013, 65_566}], 9)
    assert filler.fill(Rest(0, wire_nbytes(1_013))).messages == ()


def test_many_small_sizes_fill_anything_so_nothing_is_said(stream: Stream) -> None:
    filled = Filler(a_side(stream), [set(range(10, 74))], 64).fill(Rest(0, 2_000))
    assert filled.messages == ()


def test_a_stream_of_gaps_that_nothing_fills_ends_in_time(stream: Stream) -> None:
    filler = Filler(a_side(stream), [{2**n + 7 for n in range(6, 30)}], 16)
    assert all(not filler.fill(Rest(0, 10**8 + 7 * n)).messages for n in range(300))


def test_trailers_that_were_never_captured_are_what_gaps_behind_messages_hold(stream: Stream) -> None:
    side = a_side(stream)
    side.trailers.clear()
    side.rests += [Rest(0, 10, 1)] * 5 + [Rest(0, 23, 1)] * 9 + [Rest(0, 9, 1)]
    assert shape_of(side).trailers == 10


def test_frames_as_they_are_written_have_the_size_of_the_closed_form() -> None:
    answers = Answers()
    first = [answers.headers(1), answers.trailers(1)]
    assert len(first) == 2
    written = answers.headers(3) + in_chunks(3, message(65_566), CHUNK) + answers.trailers(3)
    assert len(written) == wire_nbytes(65_566) - HEADERS - TRAILERS + len(
        answers.headers(5) + answers.trailers(5)
    )
