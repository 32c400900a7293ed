"""Fragments in streams that the tests write: whole, cut short, begun in the middle, and hostile."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.mpi_btl import What
from gradwire.traces.framing.mpi_decode import MpiDecoded, MpiGap, header_nbytes
from gradwire.traces.packets.capture import read_capture
from tests.made_captures import SYN, pcap, stream
from tests.made_mpi import (
    ALLREDUCE,
    BACK,
    FORTH,
    A,
    B,
    close,
    decoded_in,
    fin,
    match,
    put,
    put_request,
    rndv,
    talk,
)

FRAGMENTS = [
    match(7, b"abc"),
    rndv(ALLREDUCE, 500, 1, 2),
    put(0xA0, 500),
    fin(9, 500),
    put_request(3, 4, 5, 6),
]
KINDS = [What.MATCH, What.RNDV, What.PUT, What.FIN, What.PUT_REQUEST]


def kinds(decoded: MpiDecoded) -> list[What]:
    return [placed.fragment.what for placed in decoded.placed]


def test_whole_payloads_give_every_fragment_and_every_byte(tmp_path: Path) -> None:
    found = decoded_in(talk(tmp_path / "a.pcap", [(10, b"".join(FRAGMENTS) + close())], [(20, match(1))]))
    assert kinds(found[FORTH]) == [*KINDS, What.CLOSE]
    assert [placed.offset for placed in found[FORTH].placed] == [24, 49, 89, 613, 645, 709]
    assert found[FORTH].placed[-1].end == found[FORTH].stream.nbytes
    assert found[FORTH].gaps == ()
    assert kinds(found[BACK]) == [What.MATCH]
    assert [one.process and one.process.number for one in found.values()] == [0, 1]


def test_the_first_62_bytes_of_each_packet_are_enough(tmp_path: Path) -> None:
    parts = [(10 * i, data) for i, data in enumerate(FRAGMENTS, 1)]
    assert kinds(decoded_in(talk(tmp_path / "a.pcap", parts, [], visible=62))[FORTH]) == KINDS


def test_a_capture_that_begins_in_a_message_finds_the_next(tmp_path: Path) -> None:
    parts = [(1, b"\x3f" * 700), *[(10 * i, data) for i, data in enumerate(FRAGMENTS, 1)]]
    found = decoded_in(talk(tmp_path / "a.pcap", parts, [], visible=62, hello=False))[FORTH]
    assert kinds(found) == KINDS
    assert found.gaps == (MpiGap(0, 700),)
    assert found.process is None


def test_what_lies_between_readable_fragments_is_a_gap(tmp_path: Path) -> None:
    parts = [(10, FRAGMENTS[1]), (20, FRAGMENTS[2] + FRAGMENTS[3]), (30, FRAGMENTS[0])]
    found = decoded_in(talk(tmp_path / "a.pcap", parts, [], visible=62))[FORTH]
    assert kinds(found) == [What.RNDV, What.PUT, What.MATCH]
    assert found.gaps == (MpiGap(24 + 40 + 524, 24 + 40 + 524 + 32),)


def test_nothing_is_looked_for_after_the_connections_end(tmp_path: Path) -> None:
    parts = [(10, match(1) + close() + match(2)), (20, match(3))]
    found = decoded_in(talk(tmp_path / "a.pcap", parts, []))[FORTH]
    assert kinds(found) == [What.MATCH, What.CLOSE]
    assert found.gaps == (MpiGap(54, 98, open_end=True),)


@pytest.mark.parametrize("parts", [[b"GET / HTTP/1.1\r\n" + b"x" * 60], [match(1) + match(2)]])
def test_a_connection_seen_from_its_start_must_greet(tmp_path: Path, parts: list[bytes]) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(stream(A, B, [(i + 1, data) for i, data in enumerate(parts)], 1, SYN)))
    assert decoded_in(read_capture(path)) == {}


def test_one_fragment_alone_is_no_evidence(tmp_path: Path) -> None:
    assert decoded_in(talk(tmp_path / "a.pcap", [(1, match(1))], [], hello=False)) == {}


@pytest.mark.parametrize(("pad", "header"), [(b"", 14), (b"\0\0", 16)])
def test_the_builds_header_is_told_by_the_sizes(tmp_path: Path, pad: bytes, header: int) -> None:
    words = [(i + 1, match(1, b"x" * size, pad=pad)) for i, size in enumerate((8192, 400, 0, 7))]
    for messages in (words, words[:2]):
        found = decoded_in(talk(tmp_path / "a.pcap", messages, []))
        assert header_nbytes(list(found.values())) == header


def assert_in_bounds(decoded: MpiDecoded) -> None:
    """Fragments and gaps follow each other without overlap, and account for every byte of the stream."""
    parts = [(p.offset, p.end) for p in decoded.placed] + [(g.start, g.end) for g in decoded.gaps]
    parts.sort()
    assert parts[0][0] == (24 if decoded.process else 0)
    assert all(end == start for (_, end), (start, _) in pairwise(parts))
    assert parts[-1][1] >= decoded.stream.nbytes
    assert len(parts) <= decoded.stream.nbytes


LENGTHS = st.sampled_from([0, 1, 13, 14, 2**16, 2**31 - 1, 2**32 - 1])


@given(
    data=st.lists(st.binary(min_size=1, max_size=120), max_size=5),
    cuts=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=6),
    length=LENGTHS,
    visible=st.integers(0, 130),
    hello=st.booleans(),
)
def test_mutated_streams_are_decoded_in_bounds(
    tmp_path_factory: pytest.TempPathFactory,
    data: list[bytes],
    cuts: list[tuple[int, int]],
    length: int,
    visible: int,
    hello: bool,
) -> None:
    wire = bytearray(
        b"".join(FRAGMENTS) * 2 + b"\x41\1\0\0" + length.to_bytes(4, "little") + b"\x41" + FRAGMENTS[0]
    )
    for at, value in cuts:
        wire[at % len(wire)] = value
    parts = [(i + 2, piece) for i, piece in enumerate([bytes(wire[:300]), bytes(wire[300:]), *data])]
    path = tmp_path_factory.mktemp("fuzz") / "a.pcap"
    for decoded in decoded_in(talk(path, parts, parts[::-1], visible=visible, hello=hello)).values():
        if decoded.stream.nbytes > 24:
            assert_in_bounds(decoded)
