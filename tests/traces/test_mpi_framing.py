"""The framing as the trace sees it: a real job's messages by closed form, who is who, and what fits."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.frames import Found, MessageKind
from gradwire.traces.framing.framings import choose
from gradwire.traces.framing.mpi_framing import Mpi
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.streams import Connection, assemble, connections
from tests.made_mpi import (
    BACK,
    BARRIER,
    FORTH,
    A,
    B,
    captured,
    conversation,
    fin,
    found_in,
    handshake,
    match,
    put,
    put_request,
    rndv,
    talk,
)

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "mpi_4_tso"
NBYTES, ITERATIONS, RANKS = 262_144, 4, range(4)
PAIRS = [(src, dst) for src in RANKS for dst in RANKS if src != dst]
Sent = Counter[tuple[int, int, int]]


@pytest.fixture(scope="module")
def sample() -> Found:
    return found_in(*(read_capture(SAMPLE / f"h{rank}.pcap") for rank in RANKS))


def sent(found: Found, operation: str) -> Sent:
    """(source, destination, payload) of each message; rank r has the address 10.77.0.(r+1)."""
    rank = {f"10.77.0.{r + 1}": r for r in RANKS}
    return Counter(
        (rank[reading.stream.direction.src], rank[reading.stream.direction.dst], frame.payload_nbytes)
        for reading in found.readings
        for frame in reading.frames
        if frame.kind is MessageKind.DATA and frame.operation == operation
    )


def test_the_samples_allreduces_are_rabenseifners(sample: Found) -> None:
    """Halving, then doubling: with rank XOR 1 half of the bytes, with rank XOR 2 a quarter, each twice.

    Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005.
    """
    expected: Sent = Counter()
    for rank in RANKS:
        for distance in (1, 2):
            expected[rank, rank ^ distance, NBYTES // 2 // distance] = 2 * ITERATIONS
    assert sent(sample, "allreduce") == expected


def test_each_of_the_samples_broadcasts_reaches_all_but_its_root_once(sample: Found) -> None:
    found = sent(sample, "broadcast")
    assert {nbytes for _, _, nbytes in found} == {NBYTES}
    received = Counter(dst for _, dst, _ in found.elements())
    assert received == dict.fromkeys(RANKS, ITERATIONS - 1)  # rank i is the root of iteration i


def test_each_of_the_samples_barriers_is_an_empty_message_to_rank_0_and_back(sample: Found) -> None:
    others = [rank for rank in RANKS if rank]
    expected = {pair: ITERATIONS + 1 for r in others for pair in ((0, r, 0), (r, 0, 0))}
    assert sent(sample, "barrier") == expected


def test_the_sample_hides_eight_headers_and_all_are_found(sample: Found) -> None:
    assert [reading.hidden for reading in sample.readings if reading.hidden] == []
    recovered = Counter(f.kind for reading in sample.readings for f in reading.frames if f.recovered)
    assert recovered == {MessageKind.CONTROL: 7, MessageKind.RECV_READY: 1}


def test_every_byte_of_the_sample_is_accounted_for(sample: Found) -> None:
    for reading in sample.readings:
        frames = sorted((f.offset, f.offset + f.nbytes) for f in reading.frames)
        assert frames[0][0] == 0
        furthest = 0
        for start, end in frames:
            assert start <= furthest
            furthest = max(furthest, end)
        assert furthest == reading.stream.nbytes


def test_every_rendezvous_of_the_sample_is_asked_for_once(sample: Found) -> None:
    asked = {
        (reading.stream.direction.reverse, frame.operation): 0
        for reading in sample.readings
        for frame in reading.frames
        if frame.kind is MessageKind.RECV_READY
    }
    for reading in sample.readings:
        for frame in reading.frames:
            if frame.kind is MessageKind.RECV_READY:
                asked[reading.stream.direction.reverse, frame.operation] += frame.payload_nbytes
    for reading in sample.readings:
        for operation in ("allreduce", "broadcast"):
            data = sum(
                frame.payload_nbytes
                for frame in reading.frames
                if frame.kind is MessageKind.DATA and frame.operation == operation
            )
            assert asked.get((reading.stream.direction, operation), 0) == data


def test_ranks_are_those_that_the_processes_say(sample: Found) -> None:
    assert sample.said == {f"10.77.0.{rank + 1}": {rank} for rank in RANKS}
    assert sample.notes == ()


def test_the_samples_connections_are_told_apart() -> None:
    """Where both sides opened a connection at once, Open MPI gives one up: only a handshake is on that."""
    captures = [read_capture(SAMPLE / f"h{rank}.pcap") for rank in RANKS]
    chosen: Counter[tuple[str | None, int, bool]] = Counter()
    for one in map(choose, connections(assemble(captures))):
        streams = one.connection.streams
        ends = streams[0].direction
        name = None if one.framing is None else one.framing.name
        chosen[name, len(streams), "10.77.0.254" in (ends.src, ends.dst)] += 1
    given_up = chosen.pop(("mpi", 1, False))
    assert chosen == {("mpi", 2, False): len(PAIRS) // 2, ("mpi-control", 2, True): len(RANKS)}
    assert given_up <= len(PAIRS) // 2


def only(packets: Packets) -> Connection:
    (connection,) = connections(assemble([packets]))
    return connection


def test_a_handshake_is_enough(tmp_path: Path) -> None:
    fit = Mpi().fit(only(talk(tmp_path / "a.pcap", [], [])))
    assert fit is not None
    assert (fit.confidence, "process 0 and 1" in fit.evidence) == (1.0, True)


def test_a_run_of_fragments_fits_too_but_less_surely(tmp_path: Path) -> None:
    messages = [(10 * i, match(BARRIER, seq=i, src=3)) for i in range(1, 4)]
    packets = talk(tmp_path / "a.pcap", messages, [], hello=False)
    fit = Mpi().fit(only(packets))
    assert fit is not None
    assert fit.confidence < 1
    assert "3 fragments" in fit.evidence
    assert found_in(packets).said == {A[0]: {3}, B[0]: set()}


def test_a_rank_in_another_communicator_is_not_taken_for_a_rank_of_the_job(tmp_path: Path) -> None:
    messages = [(10 * i, match(BARRIER, seq=i, src=3, ctx=5)) for i in range(1, 4)]
    assert found_in(talk(tmp_path / "a.pcap", messages, [], hello=False)).said == {A[0]: set(), B[0]: set()}


def test_two_jobs_in_one_capture_are_noticed(tmp_path: Path) -> None:
    one = conversation([], [])
    other = [
        type(r)(
            r.time_ns,
            r.frame.replace(handshake(0), handshake(0, job=9)).replace(handshake(1), handshake(1, job=9)),
        )
        for r in conversation([], [], ends=((A[0], 7), (B[0], 8)))
    ]
    (note,) = found_in(captured(tmp_path / "a.pcap", [*one, *other])).notes
    assert "2 jobs" in note


def test_other_traffic_does_not_fit(tmp_path: Path) -> None:
    packets = talk(tmp_path / "a.pcap", [(i, b"\x41" * 80) for i in range(1, 9)], [], hello=False)
    assert Mpi().fit(only(packets)) is None
    for folder in ("ps_1srv_4wk", "ddp_gloo_4_resnet18_tso"):
        packets = read_capture(SAMPLE.parent / folder / "h1.pcap")
        assert [c for c in connections(assemble([packets])) if Mpi().fit(c)] == []


WIRE = [
    match(BARRIER),
    match(7, b"x" * 30, 2),
    rndv(-12, 500, 1, 3),
    put(2, 500),
    fin(3, 500),
    put_request(1, 3, 2, 500),
    rndv(-12, 2**40, 1, 4),
]


@given(
    forth=st.lists(st.sampled_from(WIRE) | st.binary(min_size=1, max_size=80), max_size=12),
    back=st.lists(st.sampled_from(WIRE) | st.binary(min_size=1, max_size=80), max_size=12),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    visible=st.integers(8, 130),
    hello=st.booleans(),
)
def test_whatever_a_connection_holds_is_read_in_bounds(
    tmp_path_factory: pytest.TempPathFactory,
    forth: list[bytes],
    back: list[bytes],
    changes: list[tuple[int, int]],
    visible: int,
    hello: bool,
) -> None:
    parts = []
    for pieces in (forth, back):
        data = bytearray(b"".join(pieces))
        for at, value in changes if data else ():
            data[at % len(data)] = value
        parts.append([(10 * i + 10, bytes(data[i : i + 200])) for i in range(0, len(data), 200)])
    path = tmp_path_factory.mktemp("fuzz") / "a.pcap"
    packets = talk(path, [(1, match(1)), *parts[0]], parts[1], visible=visible, hello=hello)
    for reading in found_in(packets).readings:
        assert reading.stream.direction in (FORTH, BACK)
        assert len(reading.frames) <= reading.stream.nbytes / 8 + 1
        assert all(a.offset <= b.offset for a, b in pairwise(reading.frames))
        assert all(0 <= f.offset < reading.stream.nbytes and f.nbytes > 0 for f in reading.frames)
        assert all(0 <= f.payload_nbytes < 2**48 and f.offset + f.nbytes < 2**48 for f in reading.frames)
        assert all(0 <= h.start < h.end <= reading.stream.nbytes for h in reading.hidden)
