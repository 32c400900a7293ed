"""tcpdump at hosts' ports: `hN.pcap`, nanoseconds.  An edge module: it starts processes."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from emu.fabrics.fabric import HOST_PORT, interface
from emu.network.namespaces import enter
from emu.watch import RunFailed, running

_START_S = 10.0
_DROPPED = re.compile(r"^(\d+) packets? dropped by (?:kernel|interface)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Listening:
    """How much of a packet is kept, how many KiB the kernel holds, and how long after the last packet to end.

    Immediate: each packet is written when it comes.  Otherwise the kernel hands them over in blocks, up to a
    second later: a tenth of the work.
    """

    snaplen_nbytes: int
    ring_kib: int
    rest_s: float
    is_immediate: bool


WHOLE = Listening(262_144, 65_536, 0.5, is_immediate=True)
BY_BLOCK = Listening(128, 32_768, 1.5, is_immediate=False)


@contextmanager
def captures(
    hosts: Sequence[str], pids: Mapping[str, int], folder: Path, listening: Listening = WHOLE
) -> Iterator[None]:
    """While this is open, all that goes through the hosts' ports is captured.  Raise RunFailed."""
    folder.mkdir()
    with ExitStack() as stack:
        for host in hosts:
            command = [*enter(pids[host]), "tcpdump", "-q", "-n"]
            command += ["-U", "--immediate-mode"] if listening.is_immediate else []
            command += ["-B", str(listening.ring_kib), "-s", str(listening.snaplen_nbytes)]
            command += ["--time-stamp-precision=nano", "-i", interface(host, HOST_PORT)]
            command += ["-w", str(folder / f"{host}.pcap")]
            stack.enter_context(running(f"tcpdump on {host}", command, _log(folder, host)))
        deadline = time.monotonic() + _START_S
        while not all("listening on" in _log(folder, host).read_text() for host in hosts):
            if time.monotonic() > deadline:
                raise RunFailed(f"tcpdump did not start within {_START_S:.0f} s")
            time.sleep(0.02)
        yield
        time.sleep(listening.rest_s)


def dropped(hosts: Sequence[str], folder: Path) -> dict[str, int]:
    """How many packets each capture that has ended says that it lost, of those that lost any."""
    lost = {host: sum(map(int, _DROPPED.findall(_log(folder, host).read_text()))) for host in hosts}
    return {host: count for host, count in lost.items() if count}


def _log(folder: Path, host: str) -> Path:
    return folder / f"{host}.log"
