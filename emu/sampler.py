"""Counters of the machine and of the ports, read before, during and after a repeat."""

import itertools
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gradwire.emu.kernel.queues import parse_queues, read_queues
from gradwire.emu.kernel.rtnetlink import netlink_socket
from gradwire.emu.watch import child_that_stood, forget_that_it_stood, has_stood
from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES

SAMPLE_S = 0.02
MAX_SAMPLES = 30_000  # ten minutes
# The next reading comes after so many times the processor time of this one:
PORTS_PAUSE = 40  # of the ports' counters
QUEUES_PAUSE = 100  # of the ports' queues
MOST_QUEUES_NBYTES = 64 << 20
LEAST_TICKS = 20  # in which one more or less, which is luck, is a share of 0.05: of two CPUs in 0.1 s


@dataclass(frozen=True, slots=True)
class Machine:
    """CPU time (in ticks) since boot, and packets that the kernel's receive queues dropped."""

    total_ticks: int
    idle_ticks: int
    stolen_ticks: int
    softnet_dropped: int
    user_ticks: int = 0  # of programs in user mode, nice ones too


def machine() -> Machine:
    return parse_machine(Path("/proc/stat").read_text(), Path("/proc/net/softnet_stat").read_text())


def machine_at(time_ns: int) -> Machine:
    """Wait until then (CLOCK_MONOTONIC)."""
    time.sleep(max(0, time_ns - time.monotonic_ns()) / 1e9)
    return machine()


def parse_machine(stat: str, softnet_stat: str) -> Machine:
    """/proc/stat's first line (proc(5)) and the second column, hexadecimal, of /proc/net/softnet_stat.

    Waiting for a disk is idle time too; a guest's time is in its user's already.
    """
    ticks = [int(word) for word in stat.split("\n", 1)[0].split()[1:9]]
    dropped = sum(int(line.split()[1], 16) for line in softnet_stat.splitlines())
    return Machine(sum(ticks), ticks[3] + ticks[4], ticks[7], dropped, ticks[0] + ticks[1])


def long_enough(earlier: Machine, before: Machine, after: Machine) -> Machine:
    """The reading from which shares up to `after` are exact: `before`, unless `after` follows too soon."""
    return before if after.total_ticks - before.total_ticks >= LEAST_TICKS else earlier


def cpu_idle(before: Machine, after: Machine) -> float:
    """The idle share of all CPUs between two readings, 0 to 1."""
    return (after.idle_ticks - before.idle_ticks) / max(1, after.total_ticks - before.total_ticks)


def cpu_stolen(before: Machine, after: Machine) -> float:
    """The share of all CPUs that the machine's own host gave to others, 0 to 1."""
    return (after.stolen_ticks - before.stolen_ticks) / max(1, after.total_ticks - before.total_ticks)


class Port(NamedTuple):
    """Counters of an interface."""

    interface: str
    rx_nbytes: int
    rx_packets: int
    tx_nbytes: int
    tx_packets: int
    tx_dropped: int


class LinkRow(NamedTuple):
    """Counters of an interface at a time (CLOCK_MONOTONIC, in ns), and of its queue if that was read."""

    time_ns: int
    interface: str
    tx_bytes: int
    tx_packets: int
    tx_dropped: int
    rx_bytes: int
    rx_packets: int
    queue_nbytes: int | None
    queue_dropped: int | None


def parse_net_dev(text: str) -> Iterator[Port]:
    """Each line of /proc/net/dev below its two headings."""
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        counts = (int(fields[column]) for column in (0, 1, 8, 9, 11))
        yield Port(name.strip(), *counts)


class QueueReadings:
    """Of the queues of all ports, kept as read.  Many ports are read less often, for at most a hundredth of
    the time, and of a long time every second reading is kept, and so on.
    """

    def __init__(self) -> None:
        self._names = dict(socket.if_nameindex())
        self._raw: dict[int, list[bytes]] = {}  # by time
        self._nbytes = 0
        self._pause_ns = self._next_ns = 0

    def read(self, netlink: socket.socket, time_ns: int) -> None:
        """If it is time to."""
        if time_ns < self._next_ns:
            return
        before_ns = time.thread_time_ns()
        answers = read_queues(netlink)
        self._raw[time_ns] = answers
        self._nbytes += sum(map(len, answers))
        if self._nbytes > MOST_QUEUES_NBYTES:
            self._raw = dict(list(self._raw.items())[::2])
            self._nbytes //= 2
            self._pause_ns = max(2 * self._pause_ns, round(2e9 * SAMPLE_S))
        self._next_ns = time_ns + max(self._pause_ns, QUEUES_PAUSE * (time.thread_time_ns() - before_ns))

    def at(self, time_ns: int) -> dict[str, tuple[int, int]]:
        """By interface the bytes that waited and the packets dropped so far; empty if not read then."""
        return {
            self._names.get(ifindex, ""): (queue.queued_nbytes, queue.dropped)
            for ifindex, queue in parse_queues(self._raw.get(time_ns, ()))
        }


class StopReadings:
    """Which of some processes, children of ours, were stopped since the reading before.

    One call shows whether a signal has stopped a child.  Then all are asked, and otherwise one by turns, as a
    debugger's stop does not show there.  To ask all each time took longer than all else that is read.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._turn = 0
        self._seen: list[tuple[int, list[bool]]] = []

    def read(self) -> None:
        was_stopped = bool(self._seen) and any(self._seen[-1][1])
        shown = child_that_stood()
        stood = [False] * len(self._pids)
        if shown is None and not was_stopped and self._pids:
            self._turn = (self._turn + 1) % len(self._pids)
            stood[self._turn] = has_stood(self._pids[self._turn])
        if shown is not None or was_stopped or any(stood):
            stood = [known or has_stood(pid) for known, pid in zip(stood, self._pids, strict=True)]
        if shown is not None and shown not in self._pids:
            forget_that_it_stood(shown)
        self._seen.append((time.monotonic_ns(), stood))

    def stopped_s(self, start_ns: int, end_ns: int) -> tuple[float, ...]:
        """How long each was stopped between start and end, in whole times between two readings."""
        stopped_ns = [0] * len(self._pids)
        for (before_ns, _), (time_ns, seen) in itertools.pairwise(self._seen):
            span_ns = max(0, min(time_ns, end_ns) - max(before_ns, start_ns))
            for number, is_so in enumerate(seen):
                stopped_ns[number] += span_ns if is_so else 0
        return tuple(each / 1e9 for each in stopped_ns)


class Samples:
    """Readings during a repeat, kept as read and parsed afterwards.

    /proc/net/dev is read for a fortieth of the time at most, and every `SAMPLE_S` whether a signal has
    stopped one of some processes.  Read every `SAMPLE_S`, the 768 ports of 128 hosts took a fourteenth of
    the run's processor time.

    The kernel counts packets of a VXLAN tunnel without the Ethernet header inside it: `tunnels` are the
    interfaces for which that is added.
    """

    def __init__(self, pids: Sequence[int] = (), tunnels: Collection[str] = ()) -> None:
        self._tunnels = tunnels
        self._raw: list[tuple[int, bytes]] = []
        self._times_ns: list[int] = []
        self._queues = QueueReadings()
        self.stops = StopReadings(pids)
        self._stop = threading.Event()

    def _take(self) -> None:
        with (
            open("/proc/thread-self/net/dev", "rb", buffering=0) as counters,
            netlink_socket() as netlink,
        ):
            next_ns = 0
            while len(self._times_ns) < MAX_SAMPLES:
                is_last, time_ns = self._stop.is_set(), time.monotonic_ns()
                self._times_ns.append(time_ns)
                if is_last or time_ns >= next_ns:
                    began_ns = time.thread_time_ns()
                    counters.seek(0)
                    self._raw.append((time_ns, counters.readall()))  # one read gives a page of it
                    next_ns = time_ns + PORTS_PAUSE * (time.thread_time_ns() - began_ns)
                    self._queues.read(netlink, time_ns)
                self.stops.read()
                if is_last:
                    return
                self._stop.wait(SAMPLE_S)

    def longest_stall_s(self, start_ns: int, end_ns: int) -> float:
        """Between these, the longest time between two wakings beyond the wanted one: how long nobody got a
        CPU.
        """
        spans = [(a, min(b, end_ns)) for a, b in itertools.pairwise(self._times_ns)]
        return max([(b - a) / 1e9 - SAMPLE_S for a, b in spans if start_ns < b and a < b], default=0.0)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take them for as long as this lasts, in a thread; once."""
        thread = threading.Thread(target=self._take, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def rows(self) -> Iterator[LinkRow]:
        """One of each port at each time; what waits in its queue and has been dropped there is None where
        that was not read.  In a port's counters a super-segment counts once, as one frame.
        """
        for time_ns, raw in self._raw:
            queues = self._queues.at(time_ns)
            for port in parse_net_dev(raw.decode()):
                header_nbytes = ETHERNET_NBYTES if port.interface in self._tunnels else 0
                yield LinkRow(
                    time_ns,
                    port.interface,
                    port.tx_nbytes + header_nbytes * port.tx_packets,
                    port.tx_packets,
                    port.tx_dropped,
                    port.rx_nbytes + header_nbytes * port.rx_packets,
                    port.rx_packets,
                    *queues.get(port.interface, (None, None)),
                )
