"""Fragments that the snaplen hides: what is recovered must be what was sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing import mpi_hidden
from gradwire.traces.framing.frames import Frame, Hidden, MessageKind
from tests.made_mpi import (
    ALLREDUCE,
    BACK,
    BARRIER,
    FORTH,
    Part,
    decoded_in,
    fin,
    found_in,
    frames_in,
    match,
    put,
    put_request,
    rndv,
    talk,
)


def same(path: Path, forth: list[Part], back: list[Part]) -> dict[bool, list[Frame]]:
    """The frames of the first direction by whether they were recovered: as read from whole payloads."""
    whole = frames_in(talk(path, forth, back))[FORTH]
    cut = frames_in(talk(path, forth, back, visible=62))[FORTH]
    assert [frame._replace(recovered=False) for frame in cut] == list(whole)
    return {flag: [frame for frame in cut if frame.recovered is flag] for flag in (False, True)}


ROUND: list[Part] = [(10, rndv(ALLREDUCE, 500, 0xA))]
ANSWER: list[Part] = [(20, put_request(0xA, 0xC, 0xB, 500))]


def test_a_fin_behind_its_data_is_found(tmp_path: Path) -> None:
    forth = [*ROUND, (30, put(0xB, 500) + fin(0xC, 500)), (40, match(BARRIER, seq=2))]
    (found,) = same(tmp_path / "a.pcap", forth, ANSWER)[True]
    assert (found.kind, found.nbytes, found.operation) == (MessageKind.CONTROL, 32, "allreduce")


def test_a_request_that_waited_for_data_is_found_before_its_fin(tmp_path: Path) -> None:
    forth = [
        *ROUND,
        (30, put(0xB, 500) + put_request(0xD, 0xE, 0xF, 70) + fin(0xC, 500)),
        (60, match(1, seq=2)),
    ]
    back = [*ANSWER, (25, rndv(ALLREDUCE, 70, 0xD, 1, 1)), (70, put(0xF, 70))]
    assert [f.kind for f in same(tmp_path / "a.pcap", forth, back)[True]] == [
        MessageKind.RECV_READY,
        MessageKind.CONTROL,
    ]


def test_a_message_that_was_asked_for_is_found_with_its_tag(tmp_path: Path) -> None:
    second = rndv(ALLREDUCE, 700, 0x1A, 2)
    third = [(70, rndv(ALLREDUCE, 9, 0x2A, 3)), (90, put(0x2B, 9))]
    forth = [*ROUND, (30, put(0xB, 500) + fin(0xC, 500) + second), (60, put(0x1B, 700)), *third]
    back = [*ANSWER, (50, put_request(0x1A, 0x1C, 0x1B, 700)), (80, put_request(0x2A, 0x2C, 0x2B, 9))]
    found = same(tmp_path / "a.pcap", forth, back)[True]
    assert [(f.kind, f.operation, f.payload_nbytes) for f in found] == [
        (MessageKind.CONTROL, "allreduce", 0),
        (MessageKind.DATA, "allreduce", 700),
    ]


def test_eager_messages_of_known_sizes_are_found_by_their_numbers(tmp_path: Path) -> None:
    one = [match(ALLREDUCE, b"x" * size, seq) for seq, size in enumerate((800, 800, 800, 900, 800), 1)]
    forth = [(10, one[0]), (20, one[1] + one[2]), (30, one[3]), (40, one[4])]
    (found,) = same(tmp_path / "a.pcap", forth, [])[True]
    assert (found.operation, found.payload_nbytes) == ("allreduce", 800)


def test_two_ways_to_fill_a_gap_are_no_answer(tmp_path: Path) -> None:
    """Two FINs take as much of the stream as one request."""
    forth = [
        (10, rndv(1, 500, 0xA, 1) + rndv(1, 500, 0x1A, 2)),
        (30, put(0xB, 500)),
        (40, put(0x1B, 500) + fin(0xC, 500) + fin(0x1C, 500)),
        (60, match(1, seq=3)),
    ]
    asked = put_request(0xA, 0xC, 0xB, 500) + put_request(0x1A, 0x1C, 0x1B, 500)
    back = [(20, asked), (25, rndv(1, 70, 0xD, 1, 1))]
    records = talk(
        tmp_path / "a.pcap", [(10, rndv(1, 500, 0xA, 1)), (11, rndv(1, 500, 0x1A, 2)), *forth[1:]], back
    )
    assert all(one.gaps == () for one in decoded_in(records).values())
    forth[:1] = [(10, rndv(1, 500, 0xA, 1)), (11, rndv(1, 500, 0x1A, 2))]
    back[:1] = [(20, put_request(0xA, 0xC, 0xB, 500)), (21, put_request(0x1A, 0x1C, 0x1B, 500))]
    readings = {
        r.stream.direction: r for r in found_in(talk(tmp_path / "b.pcap", forth, back, visible=62)).readings
    }
    start = 24 + 80 + 2 * 524
    assert readings[FORTH].hidden == (Hidden(start, start + 64),)
    assert readings[BACK].hidden == ()


def test_what_nothing_explains_stays_hidden_with_its_place(tmp_path: Path) -> None:
    forth = [
        (10, match(1, b"x" * 100, 1)),
        (20, match(1, b"x" * 70, 2) + match(1, b"x" * 71, 3)),
        (30, match(1, b"", 4)),
    ]
    found = found_in(talk(tmp_path / "a.pcap", forth, [], visible=62))
    start = 24 + 122 + 92
    assert found.readings[0].hidden == (Hidden(start, start + 93),)


def test_the_search_ends_however_much_may_be_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    ways = mpi_hidden._ways

    def counted(*args: Any) -> Iterator[Any]:
        nonlocal tried
        for way in ways(*args):
            tried += 1
            yield way

    monkeypatch.setattr(mpi_hidden, "_ways", counted)
    forth: list[Part] = []
    back: list[Part] = []
    for i in range(400):
        forth += [(100 * i, rndv(1, 40 + i, i, 2 * i)), (100 * i + 50, put(i, 40 + i) + b"\0" * 999)]
        back += [(100 * i + 20, put_request(i, i, i, 40 + i)), (100 * i + 30, rndv(1, 40, 500 + i, i))]
    found_in(talk(tmp_path / "a.pcap", forth, back, visible=62))
    assert 0 < tried <= 2 * mpi_hidden.TRIALS + mpi_hidden.TRIALS_EACH * 2000


@given(
    rounds=st.lists(st.tuples(st.integers(100, 3000), st.booleans(), st.booleans()), min_size=1, max_size=8),
    last=st.booleans(),
)
def test_what_is_recovered_is_what_was_sent(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, bool, bool]], last: bool
) -> None:
    """Rendezvous one after the other, both ways; FINs leave with the data or with what comes next."""
    packets: dict[bool, list[Part]] = {True: [], False: []}
    sequence = {True: 0, False: 0}
    behind: dict[bool, bytes] = {True: b"", False: b""}
    for i, (size, forward, together) in enumerate(rounds):
        time, number = 100 * i + 10, i + 1
        sequence[forward] += 1
        packets[forward].append((time, behind[forward] + rndv(ALLREDUCE, size, number, sequence[forward])))
        behind[forward] = b""
        asked = put_request(number, number, number, size)
        packets[not forward].append((time + 20, behind[not forward] + asked))
        behind[not forward] = b""
        done = fin(number, size)
        packets[forward].append((time + 40, put(number, size) + (done if together else b"")))
        if not together:
            behind[forward] = done
    for forward in (True, False):
        tail = behind[forward] + (match(BARRIER, b"", sequence[forward] + 1) if last else b"")
        if tail:
            packets[forward].append((5000, tail))
    path = tmp_path_factory.mktemp("talk") / "a.pcap"
    whole = frames_in(talk(path, packets[True], packets[False]))
    found = found_in(talk(path, packets[True], packets[False], visible=62))
    for reading in found.readings:
        frames = {frame._replace(recovered=False) for frame in reading.frames}
        assert frames <= set(whole[reading.stream.direction])
        missing = set(whole[reading.stream.direction]) - frames
        assert sum(f.nbytes for f in missing if f.kind is not MessageKind.DATA) <= sum(
            h.end - h.start for h in reading.hidden
        )


def test_one_put_has_only_one_fin(tmp_path: Path) -> None:
    """So a request behind it is not taken for two of them."""
    forth = [
        *ROUND,
        (30, put(0xB, 500) + put_request(0xD, 0xE, 0xF, 70)),
        (40, fin(0xC, 500)),
        (60, match(1, seq=2)),
    ]
    back = [*ANSWER, (25, rndv(ALLREDUCE, 70, 0xD, 1, 1)), (70, put(0xF, 70))]
    assert [f.kind for f in same(tmp_path / "a.pcap", forth, back)[True]] == [MessageKind.RECV_READY]


def test_numbers_used_again_do_not_hide_that_a_header_is_missing(tmp_path: Path) -> None:
    """The last RNDV, of the same number, was never answered: the capture ended."""
    second = rndv(ALLREDUCE, 700, 0xA, 2)
    forth = [
        *ROUND,
        (30, put(0xB, 500) + fin(0xC, 500) + second),
        (60, put(0x1B, 700)),
        (70, rndv(ALLREDUCE, 9, 0xA, 3)),
    ]
    back = [*ANSWER, (50, put_request(0xA, 0x1C, 0x1B, 700))]
    found = same(tmp_path / "a.pcap", forth, back)[True]
    assert [(f.kind, f.payload_nbytes) for f in found] == [(MessageKind.CONTROL, 0), (MessageKind.DATA, 700)]


def test_what_is_found_of_one_direction_tells_what_the_other_hides(tmp_path: Path) -> None:
    """The answer to the first RNDV lies in a gap of the other direction, so the next one seems to be its."""
    second = rndv(ALLREDUCE, 700, 0xA, 2)
    forth = [
        *ROUND,
        (25, put_request(0xD, 0xE, 0xF, 300)),
        (40, put(0xB, 500) + fin(0xC, 500) + second),
        (60, put(0x1B, 700)),
        (70, match(BARRIER, seq=3)),
    ]
    back = [
        (5, rndv(ALLREDUCE, 300, 0xD, 1, 1)),
        (30, put(0xF, 300) + put_request(0xA, 0xC, 0xB, 500) + fin(0xE, 300)),
        (50, put_request(0xA, 0x1C, 0x1B, 700)),
    ]
    cut = talk(tmp_path / "a.pcap", forth, back, visible=62)
    recovered_here = [(f.kind, f.payload_nbytes) for f in frames_in(cut)[FORTH] if f.recovered]
    assert (MessageKind.DATA, 700) in recovered_here
    assert not any(reading.hidden for reading in found_in(cut).readings)
