"""The sender of an injection: one process, a packet socket in every host's namespace, one loop in time.

`python -m gradwire.emu.inject.sender FOLDER` reads `packets.npz` and `sender.json` there, prints `ready`, and
on the line `go` sends; it leaves `sent.npz` and prints `sent`.  Deadlines are absolute: lateness never adds
up.
"""

import ctypes
import errno
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.emu.inject.frames import Frames
from gradwire.emu.inject.timetable import Ints
from gradwire.emu.kernel.namespaces import inside

SPIN_NS = 30_000  # a sleeping process is woken up to so much late; the rest is waited for awake
NAP_NS = 15_000  # most are late by less than this
NAP_SHARE = (
    10  # so much of 100 ms is slept if gaps allow: who never sleeps is stopped for 50 ms by the kernel
)
NAP_WINDOW_NS = 100_000_000
PRESSED_NS = 25_000  # mean gaps below this leave no time for naps
HEAD_START_NS = 20_000_000
BATCH = 32  # packets that are due already, in one system call
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15  # linux/if_packet.h
_SO_SNDBUFFORCE = 32
_SNDBUF_NBYTES = 1 << 28  # the port's queue decides what is dropped, not the socket
_ZEROS_NBYTES = 1 << 16
_PRIORITY = -20  # of a process that never sleeps
_REAL_TIME_PRIORITY = 50  # of one that does: whoever else computes on its processor makes way at once
_PR_SET_TIMERSLACK = 29  # linux/prctl.h
_FULL = (errno.EAGAIN, errno.ENOBUFS)  # the socket's buffer, the port's queue
_MMSGHDR = np.dtype(  # struct mmsghdr of 64-bit Linux: a msghdr of 56 octets, and a length
    {
        "names": ["iov", "iovlen"],
        "formats": [np.uint64, np.uint64],
        "offsets": [16, 24],
        "itemsize": 64,
    }
)


class SendFailed(OSError):
    """The kernel refused packets for another reason than a full queue."""


def opened(interfaces: Sequence[tuple[int, str]]) -> list[socket.socket]:
    """A packet socket for each (process in the namespace, interface); what it sends has a virtio_net_hdr."""
    sockets = []
    for pid, name in interfaces:
        with inside(pid):
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.bind((name, 0))
        sock.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SNDBUF_NBYTES)
        sock.settimeout(0)
        sockets.append(sock)
    return sockets


class MessageVector:
    """An array of `struct mmsghdr`, one for each frame: two pieces, the head and zeros."""

    def __init__(self, frames: Frames) -> None:
        count = len(frames.head_at)
        self._heads = np.ascontiguousarray(frames.heads)  # kept: the kernel gets addresses only
        self._zeros = np.zeros(_ZEROS_NBYTES, np.uint8)
        self._pieces = np.zeros((count, 2, 2), np.uint64)
        self._pieces[:, 0, 0] = frames.head_at.astype(np.uint64) + np.uint64(self._heads.ctypes.data)
        self._pieces[:, 0, 1] = frames.head_nbytes
        self._pieces[:, 1, 0] = self._zeros.ctypes.data
        self._pieces[:, 1, 1] = frames.zeros_nbytes
        self._headers = np.zeros(count, _MMSGHDR)
        first = np.uint64(self._pieces.ctypes.data)
        self._headers["iov"] = first + np.arange(count, dtype=np.uint64) * np.uint64(32)
        self._headers["iovlen"] = 1 + (frames.zeros_nbytes > 0)
        self.address: int = self._headers.ctypes.data


def send(
    sockets: Sequence[socket.socket],
    messages: MessageVector,
    host: npt.NDArray[np.uint16],
    due_ns: Ints,
    start_ns: int,
    handed_ns: Ints,
) -> None:
    """Send each packet once, not before `due_ns` after `start_ns` of the monotonic clock.

    `handed_ns` says afterwards when that was, -1 of a packet that was refused.  Raise SendFailed.
    """
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    now, sleep, address, size = time.monotonic_ns, time.sleep, messages.address, _MMSGHDR.itemsize
    fds = [each.fileno() for each in sockets]
    due, source = memoryview(due_ns.data), memoryview(host.data)
    run_end, handed = memoryview(_run_ends(host).data), memoryview(handed_ns.data)
    at, count, window_ns, slept_ns = 0, len(host), start_ns, 0
    while at < count:
        deadline_ns = start_ns + due[at]
        time_ns = now()
        wait_ns = deadline_ns - time_ns
        if wait_ns > NAP_NS:
            if time_ns - window_ns > NAP_WINDOW_NS:
                window_ns, slept_ns = time_ns, 0
            is_due = slept_ns * NAP_SHARE < NAP_WINDOW_NS
            awake_ns = SPIN_NS if wait_ns > SPIN_NS else NAP_NS
            if wait_ns > SPIN_NS or is_due:
                sleep((wait_ns - awake_ns) / 1e9)
                slept_ns += now() - time_ns
        while (time_ns := now()) < deadline_ns:
            pass
        end, last = at + 1, min(run_end[at], at + BATCH)
        while end < last and start_ns + due[end] <= time_ns:
            end += 1
        n_sent = sendmmsg(fds[source[at]], address + at * size, end - at, 0)
        if n_sent < 0:
            _check(ctypes.get_errno())
            n_sent = 0
        for place in range(at, at + n_sent):
            handed[place] = time_ns
        at += n_sent
        if at < end:  # the first that was not sent was tried and refused, and no packet is sent twice
            at += 1


def _run_ends(host: npt.NDArray[np.uint16]) -> Ints:
    """For each packet where the run of packets from the same host ends."""
    ends = np.append(np.flatnonzero(np.diff(host)) + 1, len(host))
    return np.repeat(ends, np.diff(ends, prepend=0))


def _check(number: int) -> None:
    if number not in _FULL:
        raise SendFailed(number, f"a packet socket refused a packet: {os.strerror(number)}")


def hurry(is_pressed: bool) -> None:
    """Go before everybody else; a process that never sleeps may not do so in real time."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    if is_pressed:
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    else:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REAL_TIME_PRIORITY))


def own_processor() -> tuple[set[int], set[int]]:
    """The processor that the sender has, and those for everything else; the same one where there is only one.

    On one processor a host's packets keep their order: each has a queue of its own for what a cable brings.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    return {last}, set(others) or {last}


def main(folder: Path) -> None:
    settings = json.loads((folder / "sender.json").read_text())
    with np.load(folder / "packets.npz") as stored:
        frames = Frames(*(stored[name] for name in ("heads", "head_at", "head_nbytes", "zeros_nbytes")))
        host, due_ns = stored["src"], stored["due_ns"]
    sockets = opened(settings["interfaces"])
    messages = MessageVector(frames)
    loops, period_ns = settings["loops"], settings["period_ns"]
    handed_ns = np.full(loops * len(host), -1, np.int64)
    os.sched_setaffinity(0, settings["processors"])
    hurry(int(due_ns[-1]) // len(due_ns) < PRESSED_NS)
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()
    offset_ns = time.time_ns() - time.monotonic_ns()
    start_ns = time.monotonic_ns() + HEAD_START_NS
    for loop in range(loops):
        mine = handed_ns[loop * len(host) : (loop + 1) * len(host)]
        send(sockets, messages, host, due_ns, start_ns + loop * period_ns, mine)
    clock_set_ns = time.time_ns() - time.monotonic_ns() - offset_ns
    clocks = np.array([start_ns, offset_ns, clock_set_ns], np.int64)
    np.savez(folder / "sent.npz", handed_ns=handed_ns, clocks=clocks)
    print("sent", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
