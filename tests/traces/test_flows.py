"""Flows: round trips, windows and delays from packets that the tests write, totals against tshark."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from gradwire.traces.analysis.flowloops import Pieces, Spans, TcpPackets, round_trips
from gradwire.traces.analysis.flows import FlowFigures, flows
from gradwire.traces.analysis.percentiles import Percentiles, percentiles
from gradwire.traces.framing.framings import choose
from gradwire.traces.framing.messages import collect
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import assemble, connections
from gradwire.traces.reader import open_trace
from gradwire.traces.trace import CaptureFile, Losses, Trace
from tests.made_captures import Record, pcap

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)


def packet(
    time_ns: int,
    forth: bool,
    seq: int,
    ack: int,
    nbytes: int = 0,
    flags: str = "A",
    window: int = 100,
    **more: int,
) -> Record:
    src, dst = (A, B) if forth else (B, A)
    options = [("WScale", more["shift"])] if "shift" in more else []
    header = TCP(sport=src[1], dport=dst[1], seq=seq, ack=ack, flags=flags, window=window, options=options)
    return Record(time_ns, bytes(Ether() / IP(src=src[0], dst=dst[0]) / header / (b"x" * nbytes)))


def trace_of(folder: Path, *files: list[Record]) -> Trace:
    captures = []
    for number, records in enumerate(files):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap(records))
        captures.append(read_capture(path))
    choices = tuple(map(choose, connections(assemble(captures))))
    first_ns = min(int(packets.time_ns.min()) for packets in captures)
    file = CaptureFile(Path("a.pcap"), None, 0, 0, first_ns, first_ns, False, 0, 0, None)
    return Trace(
        "a", "none", (file,), tuple(captures), choices, collect([], ()), Losses(0, 0, 0, 0, 0, 0, 0), ()
    )


def one(folder: Path, *files: list[Record]) -> FlowFigures:
    (found,) = (flow for flow in flows(trace_of(folder, *files)) if flow.src == A[0])
    return found


HANDSHAKE = [
    packet(0, True, 99, 0, flags="S", shift=3),
    packet(10, False, 499, 100, flags="SA", shift=7),
    packet(20, True, 100, 500),
]


def test_a_round_trip_lasts_from_a_segment_to_the_ack_of_its_end(tmp_path: Path) -> None:
    sent = [packet(100, True, 100, 500, 10), packet(110, True, 110, 500, 10), packet(200, True, 120, 500, 10)]
    acks = [packet(150, False, 500, 120), packet(160, False, 500, 125), packet(290, False, 500, 130)]
    flow = one(tmp_path, [*HANDSHAKE, *sent[:2], *acks[:2], sent[2], acks[2]])
    assert flow.rtt_ns == Percentiles(n=2, min=40, p50=40, p90=90, p99=90, max=90)  # 150-110 and 290-200
    assert (flow.packets, flow.payload_nbytes) == (5, 30)


def test_a_repeated_segment_gives_no_round_trip_and_counts_as_such(tmp_path: Path) -> None:
    sent = [packet(100, True, 100, 500, 10), packet(180, True, 100, 500, 10)]
    flow = one(tmp_path, [*HANDSHAKE, *sent, packet(190, False, 500, 110)])
    assert flow.rtt_ns is None
    assert flow.retransmitted == 1
    assert flow.payload_nbytes == 10


def test_a_second_ack_of_the_same_byte_is_no_second_round_trip(tmp_path: Path) -> None:
    acks = [packet(150, False, 500, 110), packet(950, False, 500, 110)]
    flow = one(tmp_path, [*HANDSHAKE, packet(100, True, 100, 500, 10), *acks])
    assert flow.rtt_ns == Percentiles(1, 50, 50, 50, 50, 50)


def test_windows_are_those_that_the_receiver_offers_scaled_as_its_syn_says(tmp_path: Path) -> None:
    ack = packet(150, False, 500, 110, window=3)
    flow = one(tmp_path, [*HANDSHAKE, packet(100, True, 100, 500, 10), ack])
    assert flow.window_nbytes == percentiles(np.array([3 << 7]))


def test_windows_are_not_scaled_unless_both_sides_offer_it(tmp_path: Path) -> None:
    syn = packet(0, True, 99, 0, flags="S")
    ack = packet(150, False, 500, 110, window=3)
    flow = one(tmp_path, [syn, *HANDSHAKE[1:], packet(100, True, 100, 500, 10), ack])
    assert flow.window_nbytes == percentiles(np.array([3]))


def test_without_a_syn_the_windows_are_unknown(tmp_path: Path) -> None:
    flow = one(tmp_path, [packet(100, True, 100, 500, 10), packet(150, False, 500, 110)])
    assert flow.window_nbytes is None


def test_delay_is_from_the_sources_file_to_the_destinations(tmp_path: Path) -> None:
    other = Ether() / IP(src="10.0.0.3", dst=A[0]) / TCP(sport=1, dport=2)
    back = Ether() / IP(src=A[0], dst="10.0.0.3") / TCP(sport=2, dport=1)
    extra = [Record(1, bytes(other)), Record(2, bytes(back))]  # so that the first file is known as A's
    third = Ether() / IP(src="10.0.0.3", dst=B[0]) / TCP(sport=1, dport=2)
    third_back = Ether() / IP(src=B[0], dst="10.0.0.3") / TCP(sport=2, dport=1)
    more = [Record(1, bytes(third)), Record(2, bytes(third_back))]
    times = [(100, 107), (200, 203)]
    at_a = [packet(t, True, 100 + 10 * i, 500, 10) for i, (t, _) in enumerate(times)]
    at_b = [packet(t, True, 100 + 10 * i, 500, 10) for i, (_, t) in enumerate(times)]
    ack = [packet(300, False, 500, 120)]
    flow = one(tmp_path, [*extra, *at_a, *ack], [*more, *at_b, *ack])
    assert flow.delay_ns == Percentiles(n=2, min=3, p50=3, p90=7, p99=7, max=7)
    assert flow.duration_ns == 203 - 100


def test_out_of_order_packets_are_counted(tmp_path: Path) -> None:
    sent = [packet(100, True, 100, 0, 10), packet(101, True, 120, 0, 10), packet(102, True, 110, 0, 10)]
    flow = one(tmp_path, [*HANDSHAKE, *sent])
    assert flow.out_of_order == 1
    assert flow.retransmitted == 0


def test_a_reset_flow_is_marked(tmp_path: Path) -> None:
    sent = [packet(100, True, 100, 500, 10), packet(101, True, 110, 500, flags="RA")]
    assert one(tmp_path, [*HANDSHAKE, *sent]).reset
    assert not one(tmp_path, [*HANDSHAKE, *sent[:1]]).reset


def test_packets_and_payload_of_each_flow_are_what_tshark_counts() -> None:
    """In one host's file of a real run: frames and bytes that it sent in each conversation."""
    path = SAMPLES / "ddp_gloo_8" / "h3.pcap"
    trace = open_trace([path.parent])
    own = next(file.host for file in trace.files if file.path == path)
    seen: dict[tuple[str, ...], list[int]] = {}
    fields = ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len", "frame.len")
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-T", "fields"]
    command += [word for field in fields for word in ("-e", field)]
    for line in subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).splitlines():
        *ends, payload, wire = line.split("\t")
        total = seen.setdefault(tuple(ends), [0, 0, 0])
        for i, value in enumerate((1, int(payload), int(wire))):
            total[i] += value
    ours = {
        (flow.src, str(flow.sport), flow.dst, str(flow.dport)): flow
        for flow in flows(trace)
        if flow.src == own
    }
    assert len(ours) > 4
    for key, flow in ours.items():
        n_packets, n_payload, n_wire = seen[key]
        assert (flow.packets, flow.wire_nbytes) == (n_packets, n_wire)
        assert flow.payload_nbytes <= n_payload
        if not flow.retransmitted:
            assert flow.payload_nbytes == n_payload


@pytest.mark.parametrize("values", [[5], [1, 2, 3], list(range(1, 101))])
def test_percentiles_are_values_that_there_were(values: list[int]) -> None:
    found = percentiles(np.array(values))
    assert found is not None
    assert (found.n, found.min, found.max) == (len(values), min(values), max(values))
    assert {found.p50, found.p90, found.p99} <= set(values)
    assert abs(found.p50 - sorted(values)[len(values) // 2]) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_round_trips_are_those_of_the_first_acks_of_segments_ends(seed: int) -> None:
    """Against each ACK's definition, over the wrap of sequence numbers, with losses and repeats."""
    draw = np.random.default_rng(seed)
    end = np.cumsum(draw.integers(1, 5, 12))
    start, sent_ns = np.concatenate([[0], end[:-1]]), np.sort(draw.integers(0, 100, 12))
    first_seq = int(draw.integers(0, 1 << 32)) if seed % 2 else (1 << 32) - 9
    offsets = draw.integers(-2, int(end[-1]) + 3, 30)
    times = np.sort(draw.choice(200, 30, replace=False))
    repeated = np.unique(draw.choice(start, 3))
    expected: list[int] = []
    for row, offset in enumerate(offsets.tolist()):
        is_new = row == 0 or offset > offsets[:row].max()
        ends_at = np.flatnonzero((end == offset) & ~np.isin(start, repeated) & (sent_ns <= times[row]))
        expected += (times[row] - sent_ns[ends_at]).tolist() if is_new else []
    numbers = ((first_seq + offsets) % (1 << 32)).astype(np.uint32)
    in_second = draw.random(30) < 0.5  # of two files of one point: which has an ACK does not matter
    order, cut = np.argsort(in_second, kind="stable"), int((~in_second).sum())
    zeros = np.zeros(30, np.int64)
    packets = TcpPackets(
        np.arange(30),
        times[order],
        zeros.astype(np.int32),
        np.full(30, 0x10, np.uint8),
        numbers[order],
        zeros.astype(np.uint16),
    )
    delays = np.empty(30, np.int64)
    ends = round_trips(
        packets,
        Spans(np.array([0, 2]), np.array([0, cut]), np.array([cut, 30])),
        Pieces(np.array([0, 12]), start, end, sent_ns),
        np.array([first_seq]),
        np.array([0, len(repeated)]),
        repeated,
        delays,
    )
    assert delays[: ends[0]].tolist() == expected
