"""When messages entered their sources' ports, where captures say how long their packets queued."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import NOT_KNOWN, Packets
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.entered import entries
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.trace import Trace
from tests.made_captures import ACK, SYN, Record, pcap, tcp

SLOW_PS = Path(__file__).parents[2] / "traces" / "samples" / "slow_ps_2srv_4wk_star20M"
MS = 1_000_000
CONTRADICTS = "how long packets queued contradicts when they left: not used"


def captured(path: Path, *sent: tuple[int, int, int, int]) -> Packets:
    """Packets from one rank to another at a time, each with how long it queued."""
    frames = [
        Record(at_ns, tcp((f"10.0.0.{src + 1}", 4000), (f"10.0.0.{dst + 1}", 5000), 1, b"payload"))
        for src, dst, at_ns, _ in sent
    ]
    path.write_bytes(pcap(frames))
    return replace(read_capture(path), queued_ns=np.array([queued_ns for *_, queued_ns in sent]))


def trace_of(*captures: Packets) -> Trace:
    """Of the ranks at 10.0.0.1 and so on."""
    trace = open_trace([SLOW_PS])
    assert trace.addresses == tuple(f"10.0.0.{rank + 1}" for rank in range(6))
    return replace(trace, captures=captures)


def message(src: int, dst: int, begun_ns: int) -> Operation:
    return Operation("message", "send", 1, 7, src, dst, {src: begun_ns}, {src: begun_ns, dst: begun_ns})


def entered_ns(trace: Trace, some: list[Operation]) -> dict[int, int]:
    found, notes = entries(trace, some)
    assert not notes
    return {number: one.entered_ns for number, one in found.items()}


def test_a_message_entered_the_port_when_its_first_packet_did(tmp_path: Path) -> None:
    trace = trace_of(captured(tmp_path / "h0.pcap", (0, 1, 100, 40), (0, 2, 101, 40), (0, 1, 200, 50)))
    some = [message(0, 2, 101), message(0, 1, 100), message(0, 1, 200)]
    assert entered_ns(trace, some) == {0: 61, 1: 60, 2: 150}


def test_of_other_times_ranks_and_collectives_it_is_not_known(tmp_path: Path) -> None:
    packets = captured(tmp_path / "h0.pcap", (0, 1, 100, 30), (0, 2, 100, NOT_KNOWN), (0, 30, 100, 5))
    not_these = [message(0, 1, 99), message(0, 1, 101), message(1, 0, 100), message(0, 2, 100)]
    collective = Operation("allreduce", "allreduce", 1, 7, 0, 1, {0: 100, 1: 100}, {0: 200, 1: 200})
    assert entered_ns(trace_of(packets), [*not_these, collective, message(0, 1, 100)]) == {5: 70}
    assert entered_ns(trace_of(replace(packets, queued_ns=None)), [message(0, 1, 100)]) == {}


def test_a_hosts_capture_may_be_in_several_files_in_any_order(tmp_path: Path) -> None:
    parts = [((0, 1, 300, 3), (0, 1, 400, 4)), ((0, 1, 100, 0), (0, 1, 200, 2)), ((2, 1, 100, 0),)]
    captures = [captured(tmp_path / f"{number}.pcap", *part) for number, part in enumerate(parts)]
    some = [message(0, 1, at_ns) for at_ns in (100, 200, 300, 400)]
    assert entered_ns(trace_of(*captures), some) == {0: 100, 1: 198, 2: 297, 3: 396}


@pytest.mark.parametrize(
    ("later_ns", "is_used"), [(2 * MS, True), (3 * MS, True), (3 * MS + 1, False), (1000 * MS, False)]
)
def test_what_left_later_had_not_entered_before(tmp_path: Path, later_ns: int, is_used: bool) -> None:
    """More than a millisecond before another that left ahead of it, or than the capture begins."""
    path = tmp_path / "h0.pcap"
    behind = captured(path, (0, 1, 5 * MS, 0), (0, 2, 7 * MS, later_ns))
    before = captured(path, (3, 0, 3 * MS, NOT_KNOWN), (0, 1, 5 * MS, later_ns))
    for packets in (behind, before):
        found, notes = entries(trace_of(packets), [message(0, 1, 5 * MS)])
        assert bool(found) == is_used
        assert notes == ([] if is_used else [f"{path}: {CONTRADICTS}"])


def test_one_time_that_cannot_be_costs_one_packet(tmp_path: Path) -> None:
    queued = [(0, 1, n * MS, MS // 2 if n != 150 else 90 * MS) for n in range(1, 202)]
    trace = trace_of(captured(tmp_path / "h0.pcap", *queued))
    found = entered_ns(trace, [message(0, 1, n * MS) for n in range(1, 202)])
    assert [n + 1 for n in range(201) if n not in found] == [150]


def test_of_connections_that_were_seen_to_begin_it_is_known_when_their_window_had_room(
    tmp_path: Path,
) -> None:
    """Of 20 bytes 14 are on their way, so the third packet has room when the first is acknowledged."""
    ends = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
    begun = [Record(0, tcp(*ends, 0, flags=SYN)), Record(1, tcp(*ends[::-1], 99, flags=SYN | ACK, ack=1))]
    begun += [Record(2, tcp(*ends[::-1], 100, ack=1, window=20))]
    sent = [Record(at_ns, tcp(*ends, 1 + 7 * n, b"payload")) for n, at_ns in enumerate((10, 20, 50))]
    acknowledged = Record(40, tcp(*ends[::-1], 100, ack=8, window=20))
    records = sorted([*begun, *sent, acknowledged], key=lambda record: record.time_ns)

    def offered_ns(some: list[Record]) -> list[int]:
        (tmp_path / "h0.pcap").write_bytes(pcap(some))
        packets = read_capture(tmp_path / "h0.pcap")
        packets = replace(packets, queued_ns=np.where(packets.payload_nbytes > 0, 0, NOT_KNOWN))
        found, _ = entries(trace_of(packets), [message(0, 1, at_ns) for at_ns in (10, 20, 50)])
        return [one.offered_ns for one in found.values()]

    assert offered_ns(records) == [2, 2, 40]
    assert offered_ns(records[2:]) == [0, 0, 0]


def test_a_job_begins_messages_when_these_entered_their_ports() -> None:
    """Of a sample without such knowledge: every worker's packets are said to have queued for 1.5 ms, so what
    it pushed first was ready as much earlier, and of the second push no range is left.
    """
    plain = open_trace([SLOW_PS])
    known = replace(plain, captures=tuple(_all_queued(packets) for packets in plain.captures))
    compared = 0
    before, after = find_job(plain), find_job(known)
    for operation, (was, *_), (now, *_) in zip(before.operations, before.starts, after.starts, strict=True):
        if operation.src >= 2 and was.readiness is None and was.gap_ns > 2 * MS and was.after == now.after:
            assert now.computed_ns == was.gap_ns - MS * 3 // 2
            compared += 1
        if operation.src >= 2 and now.readiness is not None and was.readiness is not None:
            assert now.readiness.least_ns == now.readiness.most_ns
            compared += 1
    assert compared > 50


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 10, 300, 4000]), st.booleans())
def test_whatever_an_index_says_a_job_is_recognised_or_refused_in_a_line(
    seed: int, most_ms: int, in_order: bool
) -> None:
    """`in_order`: as a port would send them."""
    random = np.random.default_rng(seed)

    def queued(packets: Packets) -> Packets:
        entered_ns = packets.time_ns - random.integers(0, most_ms * MS, len(packets))
        if in_order:
            entered_ns = np.maximum.accumulate(np.maximum(entered_ns, packets.time_ns[0]))
        return replace(packets, queued_ns=np.maximum(packets.time_ns - entered_ns, 0))

    plain = open_trace([SLOW_PS])
    try:
        workload_of(find_job(replace(plain, captures=tuple(map(queued, plain.captures)))))
    except BadTrace as error:
        assert "\n" not in str(error)  # noqa: PT017 - whether it is refused is not known beforehand


def _all_queued(packets: Packets) -> Packets:
    """But what would have entered before the capture began."""
    could = packets.time_ns - packets.time_ns.min() > 2 * MS
    return replace(packets, queued_ns=np.where(could, MS * 3 // 2, NOT_KNOWN))
