"""Bursts of traffic whose framing is not known."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.frames import SEND, UNKNOWN_TAG, MessageKind
from gradwire.traces.framing.plain import MIN_NBYTES, Plain, bursts
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import Connection, Stream, assemble, connections
from tests.made_captures import ACK, PSH, SYN, Record, pcap, stream, tcp

A, B = ("10.0.0.1", 999), ("10.0.0.2", 5_555)
MS, US = 1_000_000, 1_000


def sent(path: Path, packets: list[tuple[int, int, bool]], head: bytes = b"") -> Connection:
    """Each (pause before it in ns, payload bytes, whether PSH) as one packet from A to B."""
    records, seq, now = stream(A, B, [], 1, SYN), 1, 0
    for pause_ns, nbytes, is_pushed in packets:
        now += pause_ns
        payload = (head + b"\x3f" * nbytes)[:nbytes]
        records.append(Record(now, tcp(A, B, seq, payload, ACK | PSH if is_pushed else ACK)))
        head, seq = b"", seq + nbytes
    path.write_bytes(pcap(records))
    return connections(assemble([read_capture(path)]))[0]


def burst(n_packets: int, pause_ns: int) -> list[tuple[int, int, bool]]:
    """A write of this many full packets, after a pause."""
    return [(pause_ns if n == 0 else 12 * US, 1_448, n == n_packets - 1) for n in range(n_packets)]


def sizes(one: Stream) -> list[int]:
    return [frame.payload_nbytes for frame in bursts(one)]


@pytest.mark.parametrize("pause_ns", [MS, 40 * MS, 900 * MS])
def test_bursts_between_pauses_are_messages_whatever_the_pause(tmp_path: Path, pause_ns: int) -> None:
    counts = [40, 7, 40, 7, 40]
    found = sent(tmp_path / "a.pcap", [packet for n in counts for packet in burst(n, pause_ns)])
    assert sizes(found.streams[0]) == [n * 1_448 for n in counts]
    frames = bursts(found.streams[0])
    assert {(f.kind, f.operation, f.tag, f.recovered) for f in frames} == {
        (MessageKind.DATA, SEND, UNKNOWN_TAG, False)
    }


def test_a_stall_inside_a_write_does_not_cut_it(tmp_path: Path) -> None:
    """A lost packet costs 200 ms; but the write had not ended there."""
    packets = [packet for _ in range(4) for packet in burst(30, 50 * MS)]
    packets[45] = (200 * MS, 1_448, False)
    found = sent(tmp_path / "a.pcap", packets)
    assert sizes(found.streams[0]) == [30 * 1_448] * 4


def test_without_pauses_all_is_one_message(tmp_path: Path) -> None:
    found = sent(tmp_path / "a.pcap", [(12 * US, 1_448, True)] * 100)
    assert sizes(found.streams[0]) == [144_800]
    fit = Plain().fit(found)
    assert fit is not None and fit.evidence == "a guess: 145 kB without two kinds of pauses to cut by"


def test_packets_at_a_steady_pace_are_messages_of_their_own(tmp_path: Path) -> None:
    found = sent(tmp_path / "a.pcap", [(10 * MS, 700, True)] * 100)
    assert sizes(found.streams[0]) == [700] * 100


def test_the_evidence_has_the_pauses(tmp_path: Path) -> None:
    packets = [(40 * MS if n % 50 == 0 else 12 * US, 1_448, True) for n in range(200)]
    fit = Plain().fit(sent(tmp_path / "a.pcap", packets))
    assert fit is not None and fit.confidence <= 0.1
    assert fit.evidence == (
        "a guess: 4 bursts of 72.4 kB on average, between pauses of 40 ms; "
        "inside them pauses of 0.012 ms (medians)"
    )


def test_every_guess_is_told_as_one(tmp_path: Path) -> None:
    found = Plain().read([sent(tmp_path / "a.pcap", burst(50, MS) + burst(50, 40 * MS))])
    assert found.notes == (
        ("framing unknown: 2 messages are bursts between pauses of their senders in 1 connection, a guess"),
    )


@pytest.mark.parametrize(
    "head", [b"SSH-2.0-OpenSSH_9.2\r\n", b"GET /data.tar HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n"]
)
def test_shells_and_downloads_are_no_training(tmp_path: Path, head: bytes) -> None:
    assert Plain().fit(sent(tmp_path / "a.pcap", burst(100, MS), head)) is None


def test_a_connection_of_few_bytes_is_no_training(tmp_path: Path) -> None:
    few = [(MS, MIN_NBYTES // 2, True), (MS, MIN_NBYTES // 2 - 1, True)]
    assert Plain().fit(sent(tmp_path / "a.pcap", few)) is None
    assert Plain().fit(sent(tmp_path / "a.pcap", [*few, (MS, 1, True)])) is not None


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2_000), st.booleans()), min_size=1, max_size=30)
)
def test_messages_follow_each_other_and_take_all_bytes(
    tmp_path_factory: pytest.TempPathFactory, packets: list[tuple[int, int, bool]]
) -> None:
    one = sent(tmp_path_factory.mktemp("made") / "a.pcap", packets).streams[0]
    found = bursts(one)
    assert found[0].offset == 0 and found[-1].offset + found[-1].nbytes == one.nbytes
    assert all(a.offset + a.nbytes == b.offset for a, b in pairwise(found))


@pytest.mark.parametrize(("visible", "is_told"), [(30, True), (62, False)])
def test_headers_too_short_to_tell_a_framing_are_said(tmp_path: Path, visible: int, is_told: bool) -> None:
    records = stream(A, B, [], 1, SYN)
    for n in range(60):
        packet = tcp(A, B, 1 + 1_448 * n, b"\x3f" * 1_448, ACK)
        records.append(Record(n * MS, packet[: len(packet) - 1_448 + visible], len(packet)))
    (tmp_path / "a.pcap").write_bytes(pcap(records))
    (found,) = connections(assemble([read_capture(tmp_path / "a.pcap")]))
    notes = Plain().read([found]).notes
    assert any("no packet more than 30 bytes of payload" in note for note in notes) is is_told
