"""Hosts as network namespaces: a small process each, and ways to do things in there without one more."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gradwire.emu.interpreter import bare_python

_CLONE_NEWNET = 0x40000000
_END_S = 5.0
_PROCESSES = Path(__file__).with_name("hostprocesses.py")


class HostFailed(OSError):
    """A host's namespace could not be made; the text is one line."""


@contextmanager
def hosts_started(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """The process id of each host while this is open; it is alone in new network and mount namespaces.

    They wait for the end of their input, and that comes even if we are killed.  In a session of their own
    they do not hear a terminal's Ctrl-C, which may be meant for a `ping` at Mininet's prompt.  Raise
    HostFailed.
    """
    wait, hold = os.pipe()
    process = subprocess.Popen(
        bare_python(_PROCESSES, *names), stdin=wait, stdout=subprocess.PIPE, start_new_session=True
    )
    os.close(wait)
    pid_of: dict[str, int] = {}
    assert process.stdout
    try:
        pid_of = read_pids(names, process.stdout)
        yield pid_of
    finally:
        for pid in pid_of.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(hold)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # on a processor that a real-time program has for itself
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        process.stdout.close()


def read_pids(names: Sequence[str], lines: Iterable[bytes]) -> dict[str, int]:
    """What the hosts' processes write, by host in the order of `names`.  Raise HostFailed."""
    pids: dict[str, int] = {}
    for line in lines:
        number, pid, *refused = line.decode().split(maxsplit=2)
        if refused:
            raise HostFailed(f"host {names[int(number)]}: {refused[0].strip()}: check that you are root")
        pids[names[int(number)]] = int(pid)
        if len(pids) == len(names):
            return {name: pids[name] for name in names}
    raise HostFailed(f"only {len(pids)} of {len(names)} hosts' processes could be started")


def enter(pid: int) -> list[str]:
    """The command that runs another one in the network namespace of process `pid`."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def join(pid: int) -> None:
    """Go into the network namespace of process `pid`: this thread, and what it starts from now on."""
    with open(f"/proc/{pid}/ns/net") as namespace:
        _setns(namespace.fileno())


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """The same for a while: /proc/sys/net, new sockets and child processes are of that namespace."""
    with open("/proc/thread-self/ns/net") as ours:
        join(pid)
        try:
            yield
        finally:
            _setns(ours.fileno())


def _setns(fd: int) -> None:
    """setns(2): Python has it from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(fd, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
