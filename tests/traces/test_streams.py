"""Streams from packets: repeats, disorder, wrap-around, several vantages."""

from pathlib import Path
from random import Random

import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction, own_address
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.streams import Stream, assemble
from tests.made_captures import ACK, RST, SYN, Record, pcap, tcp

A, B, C = ("10.0.0.1", 4000), ("10.0.0.2", 5000), ("10.0.0.3", 6000)
A_TO_B = Direction("10.0.0.1", 4000, "10.0.0.2", 5000)


@pytest.fixture
def capture(tmp_path: Path) -> "Capture":
    return Capture(tmp_path)


class Capture:
    """Writes records to numbered files and reads them back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, *records: Record, snaplen: int = 65535) -> Packets:
        self.count += 1
        path = self.folder / f"{self.count}.pcap"
        path.write_bytes(pcap(records, snaplen=snaplen))
        return read_capture(path)


def data(time_ns: int, seq: int, payload: bytes) -> Record:
    return Record(time_ns, tcp(A, B, seq, payload))


def only(streams: dict[Direction, Stream]) -> Stream:
    (stream,) = streams.values()
    return stream


def test_a_retransmitted_packet_counts_as_such_and_its_bytes_keep_their_first_time(
    capture: "Capture",
) -> None:
    stream = only(assemble([capture(data(1, 0, b"abcd"), data(2, 4, b"efgh"), data(9, 0, b"abcd"))]))
    assert stream.retransmitted_at.tolist() == [0]
    assert stream.n_packets == 3
    assert stream.nbytes == 8
    assert stream.sent.first_seen_ns([0, 3, 4]).tolist() == [1, 1, 2]


def test_packets_out_of_order_are_no_retransmissions(capture: "Capture") -> None:
    stream = only(assemble([capture(data(1, 4, b"efgh"), data(2, 0, b"abcd"))]))
    assert stream.visible.read(0, 8) == b"abcdefgh"
    assert len(stream.retransmitted_at) == 0
    assert stream.sent.first_seen_ns([0, 7]).tolist() == [2, 1]
    assert stream.sent.in_order.first_seen_ns([3, 7]).tolist() == [2, 2]


def test_sequence_numbers_may_wrap(capture: "Capture") -> None:
    isn = 2**32 - 3
    stream = only(
        assemble(
            [
                capture(
                    Record(0, tcp(A, B, isn, flags=SYN)), data(1, isn + 1, b"abcd"), data(2, isn + 5, b"ef")
                )
            ]
        )
    )
    assert stream.opener is True
    assert stream.visible.read(0, 6) == b"abcdef"


def test_the_answer_to_a_syn_does_not_open(capture: "Capture") -> None:
    stream = only(assemble([capture(Record(0, tcp(A, B, 9, flags=SYN | ACK)), data(1, 10, b"ab"))]))
    assert stream.opener is False
    assert stream.nbytes == 2


def test_without_a_syn_the_stream_starts_at_the_first_byte_seen(capture: "Capture") -> None:
    stream = only(assemble([capture(data(1, 5000, b"efgh"), data(2, 4996, b"abcd"))]))
    assert stream.opener is None
    assert stream.visible.read(0, 8) == b"abcdefgh"


def test_a_packet_in_both_hosts_files_is_one_packet_timed_at_its_source(capture: "Capture") -> None:
    at_a = capture(data(10, 0, b"abcd"), Record(12, tcp(B, A, 0, b"r")))
    at_b = capture(
        data(15, 0, b"abcd"),
        Record(11, tcp(B, A, 0, b"r")),
        Record(30, tcp(B, C, 0, b"x")),
        Record(31, tcp(C, B, 0, b"y")),
    )
    also_a = Record(40, tcp(A, C, 0, b"z")), Record(41, tcp(C, A, 0, b"z"))
    at_a = capture(data(10, 0, b"abcd"), Record(12, tcp(B, A, 0, b"r")), *also_a)
    for files in ([at_a, at_b], [at_b, at_a]):
        stream = assemble(files)[A_TO_B]
        assert stream.n_packets == 1
        assert stream.sent.first_seen_ns(0) == 10
        assert stream.received.first_seen_ns(0) == 15


def test_the_sources_file_is_known_by_its_host_even_when_clocks_differ(capture: "Capture") -> None:
    other = Record(90, tcp(A, C, 0, b"z")), Record(91, tcp(C, A, 0, b"z"))
    at_a = capture(data(1_000, 0, b"abcd"), Record(1_001, tcp(B, A, 0, b"r")), *other)
    beyond = Record(5, tcp(B, C, 0, b"z")), Record(6, tcp(C, B, 0, b"z"))
    at_b = capture(data(7, 0, b"abcd"), Record(8, tcp(B, A, 0, b"r")), *beyond)
    stream = assemble([at_b, at_a])[A_TO_B]
    assert stream.sent.first_seen_ns(0) == 1_000
    assert stream.received.first_seen_ns(0) == 7


def test_what_one_capture_dropped_is_taken_from_the_other(capture: "Capture") -> None:
    first = capture(data(1, 0, b"abcd"), data(3, 8, b"ijkl"))
    second = capture(data(2, 0, b"abcd"), data(4, 4, b"efgh"), data(5, 8, b"ijkl"))
    stream = only(assemble([first, second]))
    assert stream.unseen_nbytes == 0
    assert stream.visible.read(0, 12) == b"abcdefghijkl"
    assert stream.sent.first_seen_ns([0, 4, 8]).tolist() == [1, 4, 3]


def test_bytes_that_no_capture_has_are_counted(capture: "Capture") -> None:
    stream = only(assemble([capture(data(1, 0, b"abcd"), data(3, 8, b"ijkl"))]))
    assert stream.unseen_nbytes == 4
    assert stream.visible.read(2, 9) == b"cd"


def test_ports_that_are_used_again_are_another_connection(capture: "Capture") -> None:
    old = Record(0, tcp(A, B, 99, flags=SYN)), data(1, 100, b"old")
    new = Record(2, tcp(A, B, 7_000_000, flags=SYN)), data(3, 7_000_001, b"new!")
    streams = assemble([capture(*old, *new)])
    assert {d.number: s.visible.read(0, 9) for d, s in streams.items()} == {0: b"old", 1: b"new!"}


def test_both_directions_of_a_reused_connection_get_the_same_number(capture: "Capture") -> None:
    """Also where a file saw no SYN of it, and where a connection was refused in between."""
    refused = Record(10, tcp(A, B, 500, flags=SYN)), Record(11, tcp(B, A, 0, flags=RST | ACK))
    again = Record(20, tcp(A, B, 900, flags=SYN)), Record(21, tcp(B, A, 70, flags=SYN | ACK))
    first = Record(0, tcp(A, B, 99, flags=SYN)), Record(1, tcp(B, A, 7, flags=SYN | ACK))
    talk = data(22, 901, b"ask"), Record(23, tcp(B, A, 71, b"answer"))
    begun = data(2, 100, b"one"), Record(3, tcp(B, A, 8, b"two"))
    streams = assemble([capture(*first, *begun, *refused, *again, *talk), capture(begun[0], *talk)])
    read = {(d.src == A[0], d.number): s.visible.read(0, 9) for d, s in streams.items()}
    assert read == {(True, 0): b"one", (False, 0): b"two", (True, 2): b"ask", (False, 2): b"answer"}


def test_a_repeated_syn_begins_no_other_connection(capture: "Capture") -> None:
    syn = tcp(A, B, 99, flags=SYN)
    streams = assemble([capture(Record(0, syn), Record(5, syn), data(6, 100, b"ab"))])
    assert [direction.number for direction in streams] == [0]


def test_a_capture_cut_into_several_files_is_one_point(capture: "Capture") -> None:
    """Overlapping or not: a packet that two files of one host have counts once, all others count."""
    answers = [Record(t, tcp(C, A, t)) for t in (1, 40)], [Record(41, tcp(A, C, 9))]
    first, second, third = data(10, 0, b"abcd"), data(20, 4, b"efgh"), data(30, 8, b"ijkl")
    one = capture(*answers[0], Record(2, tcp(A, C, 1)), Record(3, tcp(B, A, 1)), first, second)
    two = capture(second, third, Record(31, tcp(B, A, 1)), *answers[0][1:], *answers[1])
    stream = assemble([one, two])[A_TO_B]
    assert stream.n_packets == 3
    assert stream.near_src == (0, 1)
    assert len(stream.retransmitted_at) == 0
    assert stream.visible.read(0, 12) == b"abcdefghijkl"


def test_a_hosts_own_file_is_known_in_spite_of_flooded_packets(capture: "Capture") -> None:
    own = [Record(1, tcp(A, B, 0)), Record(2, tcp(B, A, 0)), Record(3, tcp(A, C, 0)), Record(4, tcp(C, A, 0))]
    flooded = Record(5, tcp(B, C, 0))
    assert own_address(capture(*own, flooded)) == "10.0.0.1"
    assert own_address(capture(*own, flooded, Record(6, tcp(C, B, 0)))) is None


def test_a_file_of_what_one_host_sent_is_that_hosts(capture: "Capture") -> None:
    assert own_address(capture(Record(1, tcp(A, B, 0)), Record(2, tcp(A, C, 0)))) == "10.0.0.1"


def test_two_hosts_alone_leave_open_whose_file_it_is(capture: "Capture") -> None:
    assert own_address(capture(Record(1, tcp(A, B, 0)), Record(2, tcp(B, A, 0)))) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_without_repeats_is_what_was_sent_and_not_lost(capture: "Capture", seed: int) -> None:
    draw = Random(seed)
    first_seq = draw.choice([1000, (1 << 32) - 50])  # the second wraps around
    whole = draw.randbytes(400)
    records = [Record(0, tcp(A, B, first_seq - 1, flags=SYN))] * draw.randint(0, 1)
    kept: list[tuple[int, int, int]] = []
    at = 0
    for time_ns in range(1, 9):
        nbytes = draw.randint(1, 50)
        if draw.random() < 0.8 or not (kept or records):
            records.append(data(time_ns, first_seq + at, whole[at : at + nbytes]))
            kept.append((time_ns, at, at + nbytes))
        at += nbytes
    stream = only(assemble([capture(*records)]))
    begin = 0 if records[0].time_ns == 0 else kept[0][1]
    assert stream.first_seq == (first_seq + begin) % (1 << 32)
    assert stream.opener is (True if records[0].time_ns == 0 else None)
    assert (stream.n_packets, stream.first_ns) == (len(kept), kept[0][0])
    assert stream.nbytes == kept[-1][2] - begin
    assert stream.unseen_nbytes == stream.nbytes - sum(end - start for _, start, end in kept)
    assert len(stream.retransmitted_at) == 0
    for time_ns, start, end in kept:
        assert stream.visible.read(start - begin, end - start) == whole[start:end]
        assert stream.sent.first_seen_ns([start - begin, end - begin - 1]).tolist() == [time_ns] * 2
