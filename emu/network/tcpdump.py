"""tcpdump at hosts' interfaces: `hN.pcap`, nanoseconds.  An edge module: it starts processes.

However tcpdump is ended, it leaves what is still in the kernel's ring, and calls nothing of it dropped:
a block is handed over when it is full, or after a second.  So it is asked what has come (SIGUSR1) and ended
when all that is in the file.
"""

import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.watch import ChildProcess, RunFailed, running
from gradwire.planning.fabrics.fabric import HOST_PORT, interface

WHOLE_NBYTES = 262_144  # tcpdump's largest snaplen
RINGS_SHARE = 8  # all rings together take an eighth of the free memory
MAX_RING_KIB, MIN_RING_KIB = 256 * 1024, 8 * 1024  # the most: two seconds of 1 Gb/s
_START_S = 10.0
_REST_S = 0.3  # what is under way when the last program ends: its connections' last packets
WRITE_S = 60.0  # the largest ring, 256 MiB, on a disk that is slow
_ANSWER_S = 2.0
_TICK_S = 0.02
_ASK_EVERY_S = 0.1
_AT_END = re.compile(
    r"^(\d{1,18}) packets? (captured|received by filter|dropped by kernel|dropped by interface)$",
    re.MULTILINE,
)
_MEANWHILE = re.compile(
    r"^tcpdump: (\d{1,18}) packets? captured, (\d{1,18}) packets? received by filter, "
    r"(\d{1,18}) packets? dropped by kernel",
    re.MULTILINE,
)


@dataclass(frozen=True)
class TcpdumpCounts:
    """tcpdump's own figures of one host, in packets.

    On Linux the kernel counts a packet as received also if it then drops it (packet(7), PACKET_STATISTICS).
    """

    captured: int
    received: int
    dropped: int

    @property
    def lost(self) -> int:
        """What is not in the file: dropped, or still in the kernel's ring when tcpdump was ended."""
        return max(self.dropped, self.received - self.captured)


@dataclass(frozen=True, slots=True)
class Listening:
    """How much of a packet is kept, and how many KiB the kernel holds of each host's until they are written.

    The kernel hands packets over in blocks, up to a second later: a tenth of the work of one by one, and in
    immediate mode each place in the ring would be a whole snaplen.
    """

    snaplen_nbytes: int
    ring_kib: int


HEADERS = Listening(128, 32 * 1024)
SENT_HEADERS = Listening(128, MIN_RING_KIB)  # of one direction


def whole_packets(n_hosts: int, free_nbytes: int) -> Listening:
    """Packets with all their payload; each of the hosts has an equal share of what memory allows."""
    ring_kib = max(MIN_RING_KIB, min(MAX_RING_KIB, free_nbytes // RINGS_SHARE // n_hosts // 1024))
    return Listening(WHOLE_NBYTES, ring_kib)


@contextmanager
def captures(
    hosts: Sequence[str],
    pids: Mapping[str, int],
    folder: Path,
    listening: Listening,
    device: str | None = None,
) -> Iterator[None]:
    """While this is open, all that goes through the hosts' ports is captured, or through the interface
    `device` that each of them has.

    Raise RunFailed, also at the end if a tcpdump ended before.
    """
    folder.mkdir()
    with ExitStack() as stack:
        children = []
        for host in hosts:
            command = [*enter(pids[host]), "tcpdump", "-q", "-n"]
            command += ["-B", str(listening.ring_kib), "-s", str(listening.snaplen_nbytes)]
            command += ["--time-stamp-precision=nano", "-i", device or interface(host, HOST_PORT)]
            command += ["-w", str(folder / f"{host}.pcap")]
            name = f"tcpdump on {host}" + (f"'s {device}" if device else "")
            children.append(stack.enter_context(running(name, command, _log(folder, host))))
        _await_start(children)
        yield
        time.sleep(_REST_S)
        _await_written(children)


def dropped(hosts: Sequence[str], folder: Path) -> dict[str, int]:
    """How many packets each ended capture lost by its own count; captures that lost none are left out."""
    reported = {host: counts(_log(folder, host).read_text()) for host in hosts}
    return {host: figures.lost for host, figures in reported.items() if figures and figures.lost}


def _await_start(children: Sequence[ChildProcess]) -> None:
    deadline = time.monotonic() + _START_S
    for child in children:
        while "listening on" not in child.log.read_text():
            _check_runs(child)
            if time.monotonic() > deadline:
                raise RunFailed(f"{child.name} did not start within {_START_S:.0f} s")
            time.sleep(_TICK_S)


def _await_written(children: Sequence[ChildProcess]) -> None:
    """Until all that each had received when it was first asked is written."""
    asked = [(child, _ask(child)) for child in children]
    deadline = time.monotonic() + WRITE_S
    for child, figures in asked:
        first, now = figures, figures
        while now and first and now.captured + now.dropped < first.received and time.monotonic() < deadline:
            time.sleep(_ASK_EVERY_S)
            now = _ask(child)


def _ask(child: ChildProcess) -> TcpdumpCounts | None:
    """None without an answer in time: its last words then say what it lost."""
    _check_runs(child)
    before = len(answers(child.log.read_text()))
    child.process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        if len(replies := answers(child.log.read_text())) > before:
            return replies[-1]
        _check_runs(child)
        time.sleep(_TICK_S)
    return None


def _check_runs(child: ChildProcess) -> None:
    if child.process.poll() is not None:
        raise RunFailed(child.complaint())


def _log(folder: Path, host: str) -> Path:
    return folder / f"{host}.log"


def counts(said: str) -> TcpdumpCounts | None:
    """From what tcpdump wrote at its end; None if it came to none."""
    number_of = {what: int(number) for number, what in _AT_END.findall(said)}
    if not {"captured", "received by filter", "dropped by kernel"} <= set(number_of):
        return None
    dropped = number_of["dropped by kernel"] + number_of.get("dropped by interface", 0)
    return TcpdumpCounts(number_of["captured"], number_of["received by filter"], dropped)


def answers(said: str) -> list[TcpdumpCounts]:
    """What it answered to each SIGUSR1 so far."""
    return [TcpdumpCounts(*map(int, figures)) for figures in _MEANWHILE.findall(said)]
