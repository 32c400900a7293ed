"""Hosts as network namespaces: a small process each, and ways to do things in there without one more."""

import ctypes
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
_END_S = 5.0


class HostFailed(OSError):
    """A host's namespace could not be made; the text is one line."""


@contextmanager
def hosts_started(names: Iterable[str]) -> Iterator[dict[str, int]]:
    """The process id of each host while this is open; it is alone in new network and mount namespaces.

    Mininet's own `mnexec` makes them, with a /sys that shows them; a shell that waits for the end of its
    input keeps them, and that end comes even if we are killed.  In sessions of their own they do not hear
    a terminal's Ctrl-C, which may be meant for a `ping` at Mininet's prompt.  Raise HostFailed.
    """
    ready, tell = os.pipe()
    wait, hold = os.pipe()
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            command = ["mnexec", "-np", "sh", "-c", "read end", name]  # the name is for whoever calls `ps`
            processes[name] = subprocess.Popen(command, stdin=wait, stdout=tell, start_new_session=True)
        os.close(tell)
        os.close(wait)
        _await_lines(ready, len(processes))
        yield {name: process.pid for name, process in processes.items()}
    finally:
        for fd in (hold, ready):
            os.close(fd)
        for process in processes.values():
            process.kill()
        for process in processes.values():
            process.wait(_END_S)


def _await_lines(ready: int, n_lines: int) -> None:
    """mnexec writes a line when its namespaces are there, and ends silently when they are refused."""
    n_read = 0
    while n_read < n_lines:
        octets = os.read(ready, 1 << 16)
        if not octets:
            raise HostFailed(
                f"mnexec made the namespaces of {n_read} of {n_lines} hosts: check that you are root "
                "and that / is a mount point"
            )
        n_read += octets.count(b"\n")


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
