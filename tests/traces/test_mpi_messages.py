"""Messages put together from fragments of both directions, in conversations that the tests write."""

from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.frames import UNKNOWN_TAG, Frame, MessageKind
from tests.made_mpi import (
    ALLREDUCE,
    BACK,
    BARRIER,
    FORTH,
    A,
    B,
    ack,
    captured,
    conversation,
    fin,
    frag,
    frames_in,
    match,
    put,
    put_request,
    rndv,
    talk,
)

DATA, READY, CONTROL = MessageKind.DATA, MessageKind.RECV_READY, MessageKind.CONTROL
HELLO = Frame(0, 24, CONTROL, "handshake", UNKNOWN_TAG, 0)


def data_of(frames: tuple[Frame, ...]) -> list[tuple[str, int, int]]:
    return [(f.operation, f.tag, f.payload_nbytes) for f in frames if f.kind is DATA]


def test_an_eager_message_is_one_fragment(tmp_path: Path) -> None:
    frames = frames_in(talk(tmp_path / "a.pcap", [(10, match(BARRIER) + match(33, b"abcd", 2))], []))
    assert frames[FORTH] == (
        HELLO,
        Frame(24, 22, DATA, "barrier", UNKNOWN_TAG, 0),
        Frame(46, 26, DATA, "send", 33, 4),
    )


def test_a_rendezvous_is_one_message_from_its_header_to_its_last_byte(tmp_path: Path) -> None:
    forth = [(10, rndv(ALLREDUCE, 500, 0xA)), (30, put(0xB, 500) + fin(0xC, 500))]
    frames = frames_in(talk(tmp_path / "a.pcap", forth, [(20, put_request(0xA, 0xC, 0xB, 500))]))
    assert frames[FORTH] == (
        HELLO,
        Frame(24, 40 + 524, DATA, "allreduce", UNKNOWN_TAG, 500),
        Frame(24 + 564, 32, CONTROL, "allreduce", UNKNOWN_TAG, 0),
    )
    assert frames[BACK] == (HELLO, Frame(24, 64, READY, "allreduce", UNKNOWN_TAG, 500))


def test_a_message_in_several_parts_has_the_size_of_all(tmp_path: Path) -> None:
    forth = [
        (10, rndv(5, 1000, 0xA, eager=b"e" * 100)),
        (30, put(0xB, 300) + fin(0xC, 300)),
        (40, put(0xD, 200) + fin(0xE, 200)),
        (50, frag(0xA, 600, b"x" * 150) + frag(0xA, 750, b"x" * 250)),
    ]
    asked = put_request(0xA, 0xC, 0xB, 300) + put_request(0xA, 0xE, 0xD, 200, 300) + ack(0xA, 600)
    frames = frames_in(talk(tmp_path / "a.pcap", forth, [(20, asked)]))
    assert data_of(frames[FORTH]) == [("send", 5, 1000)]
    assert frames[FORTH][1].offset + frames[FORTH][1].nbytes == 24 + sum(len(data) for _, data in forth)
    assert [(f.kind, f.payload_nbytes) for f in frames[BACK][1:]] == [
        (READY, 300),
        (READY, 200),
        (READY, 400),
    ]


def test_messages_in_flight_at_once_keep_their_own_data(tmp_path: Path) -> None:
    forth = [
        (10, rndv(1, 400, 0xA, 1) + rndv(2, 700, 0xB, 2)),
        (30, put(0xBB, 700) + fin(0xBC, 700) + put(0xAB, 400) + fin(0xAC, 400)),
    ]
    back = [(20, put_request(0xB, 0xBC, 0xBB, 700) + put_request(0xA, 0xAC, 0xAB, 400))]
    frames = frames_in(talk(tmp_path / "a.pcap", forth, back))
    assert data_of(frames[FORTH]) == [("send", 1, 400), ("send", 2, 700)]
    first, second = [f for f in frames[FORTH] if f.kind is DATA]
    assert second.offset + second.nbytes == 24 + 80 + 724
    assert first.offset + first.nbytes == 24 + 80 + 724 + 32 + 424
    assert [f.tag for f in frames[FORTH] if f.kind is CONTROL] == [UNKNOWN_TAG, 2, 1]


def test_numbers_that_are_used_again_mean_the_later_message(tmp_path: Path) -> None:
    forth = [
        part
        for i in (1, 2)
        for part in ((100 * i, rndv(i, 50 * i, 0xA, i)), (100 * i + 50, put(0xB, 50 * i)))
    ]
    back = [(100 * i + 25, put_request(0xA, 0xC, 0xB, 50 * i)) for i in (1, 2)]
    frames = frames_in(talk(tmp_path / "a.pcap", forth, back))
    assert data_of(frames[FORTH]) == [("send", 1, 50), ("send", 2, 100)]
    assert [(f.tag, f.payload_nbytes) for f in frames[BACK][1:]] == [(1, 50), (2, 100)]


def test_a_synchronous_send_has_its_data_in_the_header_fragment(tmp_path: Path) -> None:
    frames = frames_in(talk(tmp_path / "a.pcap", [(10, rndv(5, 3, 0xA, eager=b"abc"))], [(20, ack(0xA, 3))]))
    assert data_of(frames[FORTH]) == [("send", 5, 3)]
    assert frames[BACK][1].kind is CONTROL


def test_one_direction_alone_gives_the_same_messages(tmp_path: Path) -> None:
    forth = [(10, rndv(1, 400, 0xA, 1) + rndv(2, 700, 0xB, 2)), (30, put(0xBB, 700) + put(0xAB, 400))]
    records = [r for r in conversation(forth, []) if r.frame[26:30] == bytes([10, 0, 0, 1])]
    frames = frames_in(captured(tmp_path / "a.pcap", records))
    assert data_of(frames[FORTH]) == [("send", 1, 400), ("send", 2, 700)]


def test_a_message_whose_data_is_not_there_ends_behind_the_stream(tmp_path: Path) -> None:
    frames = frames_in(talk(tmp_path / "a.pcap", [(10, rndv(1, 2**39, 0xA))], []))
    assert data_of(frames[FORTH]) == [("send", 1, 2**39)]
    assert frames[FORTH][1].offset + frames[FORTH][1].nbytes == 24 + 40 + 2**39


def test_data_that_nobody_announced_is_kept_apart(tmp_path: Path) -> None:
    frames = frames_in(talk(tmp_path / "a.pcap", [(10, put(0xB, 9) + put(0xB, 0) + fin(1, 9))], []))
    assert data_of(frames[FORTH]) == [("unknown", UNKNOWN_TAG, 9), ("unknown", UNKNOWN_TAG, 0)]


def test_what_takes_a_second_connection_is_counted_there_and_once(tmp_path: Path) -> None:
    first = conversation([(10, rndv(1, 400, 0xA))], [(20, put_request(0xA, 0xC, 0xB, 400))])
    second = conversation([(30, put(0xB, 400) + fin(0xC, 400))], [], ends=((A[0], 7), (B[0], 8)))
    frames = frames_in(captured(tmp_path / "a.pcap", [*first, *second]))
    assert frames[FORTH][1:] == (Frame(24, 40, MessageKind.SEND_READY, "send", 1, 400),)
    (other,) = (found for direction, found in frames.items() if direction.sport == 7)
    assert [(f.kind, f.tag, f.payload_nbytes) for f in other[1:]] == [(DATA, 1, 400), (CONTROL, 1, 0)]


@given(
    sizes=st.lists(st.integers(0, 750).map(lambda words: 4 * words), min_size=1, max_size=15),
    eager=st.integers(0, 1500),
    parts=st.integers(1, 3),
    visible=st.sampled_from([62, 65535]),
)
def test_every_message_comes_back_with_its_tag_and_size(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], eager: int, parts: int, visible: int
) -> None:
    """Messages up to `eager` go at once, larger ones by rendezvous in `parts`; all have another tag."""
    clock, forth, back = count(10, 10), [], []
    for tag, size in enumerate(sizes):
        if size <= max(4, eager):
            forth.append((next(clock), match(tag, b"x" * size, tag + 1)))
            continue
        forth.append((next(clock), rndv(tag, size, 0xA, tag + 1)))
        cuts = [size * i // parts for i in range(parts + 1)]
        for i, (start, end) in enumerate(pairwise(cuts)):
            back.append((next(clock), put_request(0xA, i, 1000 * i, end - start, start)))
        for i, (start, end) in enumerate(pairwise(cuts)):
            forth.append((next(clock), put(1000 * i, end - start)))
            forth.append((next(clock), fin(i, end - start)))
    path = tmp_path_factory.mktemp("talk") / "a.pcap"
    frames = frames_in(talk(path, forth, back, visible=visible))
    sent = [f for f in frames[FORTH] if f.kind is DATA]
    assert [f.tag for f in sent] == list(range(len(sizes)))
    assert [f.payload_nbytes for f in sent] == sizes
