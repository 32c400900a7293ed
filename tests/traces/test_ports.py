"""When a host's port was busy, from packets that a token bucket spaces and from a sample with logs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction, by_direction
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.ports import Data, port_of, ports, when_let_go_ns
from gradwire.traces.recognition.recognise import find_job
from tests.made_captures import Record, pcap, tcp

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


def test_packets_that_are_years_apart_do_not_overflow() -> None:
    left_ns = np.arange(5, dtype=np.int64) * 10**18
    port = port_of(left_ns, np.array([1_000, 1_000, 1_000, 1_000, 65_535], np.int64))
    assert port is not None
    assert port.busy_since_ns(10**18) == 10**18
    assert (port.free_ns >= port.left_ns).all()


@pytest.mark.parametrize(("is_virtual", "came_ms"), [(False, [100, 104, 106]), (True, [100, 100, 104])])
def test_what_leaves_behind_a_message_came_no_earlier_than_that(is_virtual: bool, came_ms: list[int]) -> None:
    """Segments for peer 1, of one message until 2 ms, of another at 100, 104, 106, 120; the port is busy."""
    left_ns = np.arange(0, 130, 2, dtype=np.int64) * 1_000_000
    made = port_of(left_ns, np.full(len(left_ns), 25_000, np.int64))
    assert made is not None
    to_peer_ns = np.array([0, 2, 100, 104, 106, 120], np.int64) * 1_000_000
    port = replace(made, data={1: Data(to_peer_ns, np.zeros(6, np.int64))}, is_virtual=is_virtual)
    at_ms = [102, 105, 110]
    assert [port.came_ns(at * 1_000_000, {1: 100_000_000}) / 1e6 for at in at_ms] == came_ms
    waits = replace(port, data={1: Data(to_peer_ns, to_peer_ns - 500_000)})
    assert [waits.came_ns(at * 1_000_000, {1: 100_000_000}) / 1e6 for at in at_ms] == [102, 105, 110]
    assert port.came_ns(102_000_000, {}) == 102_000_000


HERE, THERE = ("10.0.0.1", 5000), ("10.0.0.2", 5001)
FIRST = 2**32 - 1500  # the numbers wrap around on the way
Sent = tuple[float, int]
Answered = tuple[float, int, int]


def let_go_ms(
    folder: Path,
    sent: Sequence[Sent],
    answered: Sequence[Answered],
    *,
    is_open: bool = False,
    forgets: bool = False,
) -> list[float]:
    """Segments of 1,000 bytes that left at such ms, each with its place, and acknowledgements of so many
    bytes that came at such ms, each with the kB that it offers.
    """
    data = [Record(round(at * MS), tcp(HERE, THERE, FIRST + 1000 * place, bytes(1000))) for at, place in sent]
    answers = [
        Record(round(at * MS), tcp(THERE, HERE, 7, ack=FIRST + nbytes, window=offered_kb))
        for at, nbytes, offered_kb in answered
    ]
    records = sorted([*data, *answers], key=lambda record: record.time_ns)
    (folder / "one.pcap").write_bytes(pcap(records))
    packets = read_capture(folder / "one.pcap")
    (rows_of,) = by_direction([packets])
    out, back = Direction(*HERE, *THERE), Direction(*THERE, *HERE)
    found = when_let_go_ns(packets, rows_of[out], rows_of[back], 10, is_open=is_open, forgets=forgets)
    return [float(ns) / MS for ns in found]


WIDE = 60
IN_ORDER: list[Answered] = [(0.5, 0, WIDE), (5, 1000, WIDE), (6, 2000, WIDE), (7, 3000, WIDE)]


def test_a_window_that_was_shown_lets_as_much_go_again(tmp_path: Path) -> None:
    """Three segments were under way at once.  The fourth takes the first acknowledgement, the fifth the
    second, whenever they left.
    """
    sent = [(1, 0), (2, 1), (3, 2), (20, 3), (21, 4)]
    assert let_go_ms(tmp_path, sent, IN_ORDER) == [1, 2, 3, 5, 6]
    assert let_go_ms(tmp_path, sent, IN_ORDER, is_open=True) == [0.5] * 5


def test_receivers_room_lets_go_when_it_is_offered(tmp_path: Path) -> None:
    """For three, as all begins; for none when they are acknowledged; for a fourth at 15 ms, a fifth at 16."""
    sent = [(1, 0), (2, 1), (3, 2), (20, 3), (21, 4)]
    answered = [(0.5, 0, 3), (5, 1000, 2), (7, 3000, 0), (15, 3000, 1), (16, 3000, 2)]
    assert let_go_ms(tmp_path, sent, answered, is_open=True) == [0.5, 0.5, 0.5, 15, 16]


def test_a_window_is_forgotten_when_packets_were_lost_or_long_ago(tmp_path: Path) -> None:
    sent = [(1, 0), (2, 1), (3, 2), (20, 1), (21, 3)]
    answered = [(0.5, 0, WIDE), (5, 1000, WIDE), (20.5, 3000, WIDE)]
    for is_open in (False, True):
        assert let_go_ms(tmp_path, sent, answered, is_open=is_open)[3:] == [20, 20.5]  # one at a time again
    sent = [(1, 0), (2, 1), (3, 2), (300, 3), (301, 4)]
    assert let_go_ms(tmp_path, sent, IN_ORDER, forgets=True)[3:] == [300, 301]
    assert let_go_ms(tmp_path, sent, IN_ORDER)[3:] == [5, 6]


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
