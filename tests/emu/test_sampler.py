"""What the kernel prints is read as its manuals say; the texts are those of a real machine."""

import os
import signal
import socket
import struct
import subprocess
import time

import pytest

from gradwire.emu import sampler
from gradwire.emu.kernel.rtnetlink import encoded
from gradwire.emu.sampler import (
    SAMPLE_S,
    Machine,
    QueueReadings,
    Samples,
    StopReadings,
    cpu_idle,
    cpu_stolen,
    long_enough,
    machine,
    parse_machine,
    parse_net_dev,
)
from gradwire.emu.watch import is_stopped

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = """\
cpu  549611 613 73840 745103 5435 7 21450 14460 1000 20
cpu0 274805 306 36920 372551 2717 0 10725 7230 500 10
intr 5438212 0 9
"""
SOFTNET = """\
00a5b81e 00000000 00000026 00000000 00000000 00000000
0094b316 0000001f 00000027 00000000 00000000 00000000
00000001 00000002 00000000 00000000 00000000 00000000
"""
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo: 240863844   77590    0    0    0     0          0         0 240863841   77591    0    0    0     0
edge0-eth3:1 2 3 4 5 6 7 8 9000000000 10 11 12 13 14
"""


def test_cpu_time_is_in_all_but_the_guests_columns_and_the_disk_is_waited_for_idly() -> None:
    read = parse_machine(STAT, SOFTNET)
    assert read.total_ticks == 549611 + 613 + 73840 + 745103 + 5435 + 7 + 21450 + 14460
    assert read.idle_ticks == 745103 + 5435
    assert read.stolen_ticks == 14460
    assert read.user_ticks == 549611 + 613


def test_softnet_drops_are_the_second_column_of_every_cpu_in_hexadecimal() -> None:
    assert parse_machine(STAT, SOFTNET).softnet_dropped == 0x1F + 2


def test_what_this_machine_prints_can_be_read_and_only_grows() -> None:
    before, after = machine(), machine()
    assert 0 < before.idle_ticks + before.stolen_ticks < before.total_ticks <= after.total_ticks
    assert after.softnet_dropped >= before.softnet_dropped >= 0


@pytest.mark.parametrize(
    ("after", "idle", "stolen"),
    [(Machine(1100, 525, 60, 0), 0.25, 0.5), (Machine(1000, 500, 10, 0), 0.0, 0.0)],
)
def test_shares_are_of_the_time_between_two_readings(after: Machine, idle: float, stolen: float) -> None:
    before = Machine(1000, 500, 10, 0)
    assert (cpu_idle(before, after), cpu_stolen(before, after)) == (idle, stolen)


def test_a_single_tick_does_not_decide_what_a_short_time_was_like() -> None:
    """2 ms later one tick of one CPU had passed, and it was not idle; the tenth of a second before was."""
    announced, started, ended = (
        Machine(1000, 500, 10, 0),
        Machine(1020, 519, 10, 0),
        Machine(1021, 519, 11, 0),
    )
    before = long_enough(announced, started, ended)
    assert cpu_idle(before, ended) == pytest.approx(19 / 21)
    assert cpu_stolen(before, ended) < 0.05


def test_what_was_before_a_time_that_is_long_enough_does_not_count() -> None:
    announced, started, ended = (
        Machine(1000, 500, 10, 0),
        Machine(1020, 519, 10, 0),
        Machine(1040, 521, 10, 0),
    )
    assert long_enough(announced, started, ended) == started


def test_an_interfaces_columns_are_read_even_where_no_space_follows_its_name() -> None:
    assert list(parse_net_dev(NET_DEV)) == [
        ("lo", 240_863_844, 77_590, 240_863_841, 77_591, 0),
        ("edge0-eth3", 1, 2, 9_000_000_000, 10, 12),
    ]


@pytest.mark.parametrize("stopped_s", [0.002, 5 * SAMPLE_S])
def test_a_stopped_child_is_seen_however_short_it_was(stopped_s: float) -> None:
    with subprocess.Popen(["sleep", "60"]) as stopped, subprocess.Popen(["sleep", "60"]) as left:
        try:
            samples = Samples([stopped.pid, left.pid])
            start_ns = time.monotonic_ns()
            with samples.taken():
                time.sleep(2 * SAMPLE_S)
                os.kill(stopped.pid, signal.SIGSTOP)
                while not is_stopped(stopped.pid):  # to go on takes back a stop that has not come yet
                    time.sleep(0.001)
                time.sleep(stopped_s)
                os.kill(stopped.pid, signal.SIGCONT)
                time.sleep(2 * SAMPLE_S)
            seen_s, other_s = samples.stops.stopped_s(start_ns, time.monotonic_ns())
        finally:
            stopped.kill()
            left.kill()
    assert other_s == 0
    assert stopped_s - 2 * SAMPLE_S < seen_s
    assert seen_s > 0
    assert samples.stops.stopped_s(0, start_ns) == (0, 0)


def test_one_process_is_asked_at_a_time_and_all_as_long_as_one_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A debugger's stop shows when it is asked for alone; a child that is none of them is asked for never."""
    asked: list[int] = []
    in_debugger: set[int] = set()

    def has_stood(pid: int) -> bool:
        asked.append(pid)
        return pid in in_debugger

    monkeypatch.setattr(sampler, "has_stood", has_stood)
    stops = StopReadings([-1, -2, -3])

    def asked_in(n_readings: int) -> list[int]:
        asked.clear()
        for _ in range(n_readings):
            stops.read()
        return sorted(asked)

    assert asked_in(3) == [-3, -2, -1]
    in_debugger.add(-2)
    assert len(asked_in(3)) > 3
    assert asked_in(1) == [-3, -2, -1]
    in_debugger.clear()
    assert asked_in(1) == [-3, -2, -1]
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                os.kill(bystander.pid, number)
                while is_stopped(bystander.pid) != (number == signal.SIGSTOP):
                    time.sleep(0.001)
            assert asked_in(1) == [-3, -2, -1]
            assert asked_in(3) == [-3, -2, -1]
        finally:
            bystander.kill()
    assert asked_in(3) == [-3, -2, -1]


def test_where_counters_take_long_to_read_they_are_read_less_often_but_first_and_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler, "PORTS_PAUSE", 10**6)
    samples = Samples([os.getpid()])
    with samples.taken():
        time.sleep(6 * SAMPLE_S)
        ended_ns = time.monotonic_ns()
    first_ns, last_ns = sorted({row.time_ns for row in samples.rows()})
    assert first_ns < ended_ns <= last_ns
    longest_s = samples.longest_stall_s(first_ns, last_ns)
    assert longest_s < (last_ns - first_ns) / 1e9 - SAMPLE_S  # it woke up in between
    assert samples.longest_stall_s(last_ns + 1, last_ns + 10**9) == 0


def attribute(kind: int, value: bytes) -> bytes:
    """netlink(7): length, type, value, padded to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def queue_message(ifindex: int, parent: int, waiting: int, dropped: int, kind: bytes = b"htb\0") -> bytes:
    """RTM_NEWQDISC (36) with TCA_KIND (1) and TCA_STATS2 (7): in it TCA_STATS_BASIC (1), bytes and packets
    that were sent, and TCA_STATS_QUEUE (3), packets and bytes that wait and drops.
    """
    head = struct.pack("=BxxxiIII", socket.AF_UNSPEC, ifindex, 0x10000, parent, 2)
    statistics = attribute(1, struct.pack("=QII", 10**6, 700, 0))
    statistics += attribute(3, struct.pack("=IIIII", 9, waiting, dropped, 0, 0))
    return encoded(36, 2, 0, head + attribute(1, kind) + attribute(7, statistics))


def test_of_all_queues_the_shaped_ports_own_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    root, below = 0xFFFFFFFF, 0x10002
    answers = [
        queue_message(1, root, 3000, 7) + queue_message(1, below, 2000, 6),
        queue_message(2, root, 0, 0, b"noqueue\0"),
    ]
    monkeypatch.setattr(sampler, "read_queues", lambda netlink: answers)
    queues = QueueReadings()
    with socket.socket() as unused:
        queues.read(unused, 5)
    assert queues.at(5) == {"lo": (3000, 7)}
    assert queues.at(6) == {}


def test_readings_of_queues_are_bounded_and_go_on_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = queue_message(1, 0xFFFFFFFF, 3000, 7)
    monkeypatch.setattr(sampler, "read_queues", lambda netlink: [answer])
    monkeypatch.setattr(sampler, "MOST_QUEUES_NBYTES", 10 * len(answer))
    times_ns = range(0, 60 * 10**9, 20_000_000)  # a minute
    queues = QueueReadings()
    with socket.socket() as unused:
        for time_ns in times_ns:
            queues.read(unused, time_ns)
    kept_s = [time_ns / 1e9 for time_ns in times_ns if queues.at(time_ns)]
    assert 4 <= len(kept_s) <= 11
    assert kept_s[0] == 0
    assert kept_s[-1] > 30
