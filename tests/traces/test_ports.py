"""When a host's port was busy, from packets that a token bucket spaces and from a sample with logs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.departures import Departures
from gradwire.traces.recognition.ports import HostPort, port_of, ports
from gradwire.traces.recognition.recognise import find_job
from gradwire.traces.tcpmemory import SMALL_QUEUE_SEGMENTS
from gradwire.traces.trace import Trace

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
PUSHES = 6  # the event of a worker's log
RATE = 12.5e6 / 1e9  # bytes per ns
MS = 1_000_000


def test_a_port_is_busy_from_its_first_packet_on_until_the_last_ones_time_is_over() -> None:
    """Five packets of 2 ms, the second early by a burst; then a pause; then one more."""
    left_ns = np.array([0, 1_800_000, 4_000_000, 6_000_000, 8_000_000, 20_000_000], np.int64)
    port = port_of(left_ns, np.full(6, 25_000, np.int64))
    assert port is not None
    assert port.rate == pytest.approx(RATE, rel=0.05)
    assert [port.busy_since_ns(at) for at in (0, 8_000_000, 9_000_000)] == [0, 0, 0]
    assert port.busy_since_ns(19_000_000) == 19_000_000
    assert port.busy_since_ns(20_000_000) == 20_000_000
    assert port.busy_since_ns(-1) == -1


def test_small_packets_alone_show_no_rate() -> None:
    assert port_of(np.arange(10, dtype=np.int64), np.full(10, 66, np.int64)) is None


def test_messages_of_one_packet_show_no_rate_and_those_of_several_their_own() -> None:
    """A rank that sends a packet every 20 ms computes meanwhile; within a message they leave in 2 ms."""
    apart_ns = np.arange(0, 2000, 20, dtype=np.int64) * MS
    nbytes = np.full(len(apart_ns), 25_000, np.int64)
    assert port_of(apart_ns, nbytes, (apart_ns, apart_ns)) is None
    begin_ns = np.arange(0, 100, 20, dtype=np.int64) * MS
    left_ns = (begin_ns[:, None] + np.array([0, 2 * MS])).ravel()
    port = port_of(left_ns, nbytes[: len(left_ns)], (begin_ns, begin_ns + 2 * MS))
    assert port is not None
    assert port.rate == pytest.approx(RATE)
    assert port.busy_since_ns(20 * MS) == 20 * MS


def test_packets_that_a_timer_let_out_late_do_not_show_a_faster_link() -> None:
    """Messages of a short packet and a long one, all back to back; each 50th long one follows at once."""
    nbytes = np.tile(np.array([2_000, 64_000], np.int64), 200)
    left_ns = (np.append(0, np.cumsum(nbytes)[:-1]) / RATE).astype(np.int64)
    begin_ns, end_ns = left_ns[::2].copy(), left_ns[1::2]
    begin_ns[::50] = end_ns[::50] - 5_000
    left_ns[::2] = begin_ns
    port = port_of(left_ns, nbytes, (begin_ns, end_ns))
    assert port is not None
    assert port.rate == pytest.approx(RATE, rel=0.05)


def test_packets_that_are_years_apart_do_not_overflow() -> None:
    left_ns = np.arange(5, dtype=np.int64) * 10**18
    port = port_of(left_ns, np.array([1_000, 1_000, 1_000, 1_000, 65_535], np.int64))
    assert port is not None
    assert port.busy_since_ns(10**18) == 10**18
    assert (port.free_ns >= port.left_ns).all()


def test_what_leaves_behind_a_message_came_no_earlier_than_that() -> None:
    """Segments for peer 1, of one message until 2 ms, of another at 100, 104, 106, 120; the port is busy."""
    left_ns = np.arange(0, 130, 2, dtype=np.int64) * MS
    made = port_of(left_ns, np.full(len(left_ns), 25_000, np.int64))
    assert made is not None
    to_peer = Departures(*(np.array(each, np.int64) * MS for each in ([0, 2, 100, 104, 106, 120],) * 2))
    port = replace(made, data={1: to_peer._replace(came_ns=to_peer.left_ns - 7 * MS)})
    assert [port.came_ns(at * MS, {1: 100 * MS}) / MS for at in (102, 105, 110)] == [100, 100, 110]
    assert [port.came_ns(at * MS, {1: 90 * MS}) / MS for at in (102, 105, 110)] == [97, 99, 110]
    assert replace(made, data={1: to_peer}).came_ns(102 * MS, {1: 90 * MS}) == 102 * MS
    assert port.came_ns(102 * MS, {}) == 102 * MS


def test_the_rate_is_that_of_the_hosts_link() -> None:
    """A sample of parameter servers on links of 20 Mb/s, whose bursts are half a segment."""
    found = ports(open_trace([SAMPLES / "slow_ps_2srv_4wk_star20M"]))
    assert sorted(found) == list(range(6))
    assert [8e9 * port.rate for port in found.values()] == [pytest.approx(20e6, rel=0.15)] * 6


def test_of_a_sample_most_ranges_are_bounded_and_hold_what_the_workers_logged() -> None:
    """Each worker pushes to two servers at once, when its gradients are ready by its log."""
    folder = SAMPLES / "slow_ps_2srv_4wk_star20M"
    job = find_job(open_trace([folder]))
    bounded, inside = [], []
    for operation, starts in zip(job.operations, job.starts, strict=True):
        for one in starts:
            if one.readiness is None or one.rank != operation.src:
                continue
            bounded.append(one.least_wait_ns > 0)
            if one.rank >= 2:  # a worker
                since_ns = max(job.operations[other].done[one.rank] for other in one.after)
                ready_ns = max(ns for ns in pushed_ns(folder, one.rank) if ns <= operation.begun[one.rank])
                most_ns = since_ns + one.readiness.most_ns
                inside.append(since_ns + one.readiness.least_ns - 1_000_000 < ready_ns < most_ns)
    assert len(bounded) > 100
    assert sum(bounded) > 0.8 * len(bounded)
    assert len(inside) > 40
    assert sum(inside) > 0.95 * len(inside)


def pushed_ns(folder: Path, rank: int) -> list[int]:
    events = json.loads((folder / f"log.r{rank}.json").read_text())["events"]
    return [event["t"] for event in events if event["k"] == PUSHES]


def test_what_a_manifest_says_of_hosts_decides_how_ports_are_read(tmp_path: Path) -> None:
    """No congestion window bounds anything there, or three segments of a connection may queue; of other hosts
    nothing is known.
    """
    folder = SAMPLES / "slow_ps_2srv_4wk_star20M"
    for path in folder.glob("*.pcap*"):
        shutil.copy(path, tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())

    def read(said: dict[str, object]) -> tuple[Trace, HostPort]:
        (tmp_path / "manifest.json").write_text(json.dumps(manifest | said))
        trace = open_trace([tmp_path])
        return trace, ports(trace)[2]

    (trace, plain), (_, unbounded) = read({}), read({"host_route": {"initcwnd": 1456}})
    assert (trace.is_emulated, trace.queued_segments, plain.queued_nbytes) == (True, None, 2 * 64 * 1024)
    assert plain.data.keys() == unbounded.data.keys() == {0, 1}
    for peer, data in plain.data.items():
        assert (unbounded.data[peer].came_ns <= data.came_ns).all()
        assert (unbounded.data[peer].came_ns < data.came_ns).any()
        assert (data.came_ns <= data.left_ns).all()
    trace, more = read({"host_sysctls": {"net/ipv4/tcp_limit_output_bytes": "14660"}})
    assert (trace.queued_segments, more.queued_nbytes) == (SMALL_QUEUE_SEGMENTS, 14_660 + 64 * 1024)
    assert all((more.data[peer].came_ns < data.came_ns).any() for peer, data in plain.data.items())
    trace, other = read({"schema": "", "host_route": None})
    assert (trace.is_emulated, other.data) == (False, {})
