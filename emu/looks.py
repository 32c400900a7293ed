"""Looks at a network that carries traffic, a few a second, for the live view.

What links carry now, what waits and was dropped in queues, how far the ranks are, what the controller did.

Nothing of it is part of a result.  A look takes at most a hundredth of a processor: a fabric of many ports is
looked at less often.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gradwire.emu.channel import Channel
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.replay.board import Board
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface

LOOK_S = 0.25
SHARE = 100  # so much longer than the processor time of a look is the time from it to the next
_MOST_READ_NBYTES = 1 << 16  # of the control log, in a look
_IS_DOWN = {"port_down": True, "port_up": False}


class Looks:
    """`control` is the controller's log, which must be there; `board` the ranks', if there are any."""

    def __init__(
        self, fabric: Fabric, pid_of: Mapping[str, int], control: Path, board: Board | None = None
    ) -> None:
        """Raise OSError."""
        self._fabric = fabric
        self._names = [interface(egress.node, egress.port) for egress in fabric.rates]
        self._number = {egress: number for number, egress in enumerate(fabric.rates)}
        self._queues = Queues(pid_of.values())
        self._log = Tail(control)
        self._board = board
        self._down: set[int] = set()
        self._moves: list[Mapping[str, Any]] = []
        self._began_ns = self._before_ns = time.monotonic_ns()
        self._before = self._queues.counted()
        self._first = self._before

    def look(self) -> dict[str, Any]:
        """How it is now.  `links` are those that carry, hold or have lost something: number (as in
        `fabric.rates`), bit/s since the last look, bytes in the queue, packets dropped since the first look;
        `down` are the numbers of links whose cable is; `ranks` are as `Board.read` has them; `moves` are the
        lines of the control log that no look has had yet, up to `taken`.
        """
        now_ns, counted = time.monotonic_ns(), self._queues.counted()
        span_s = max(1, now_ns - self._before_ns) / 1e9
        links = []
        for number, name in enumerate(self._names):
            if (port := counted.get(name)) is None:
                continue
            before, first = self._before.get(name, port), self._first.get(name, port)
            rate_bps = int(8 * (port.nbytes - before.nbytes) / span_s)
            dropped = port.dropped - first.dropped
            if rate_bps or port.queued_nbytes or dropped:
                links.append([number, rate_bps, port.queued_nbytes, dropped])
        self._before, self._before_ns = counted, now_ns
        for line in self._log.lines():
            self._note(json.loads(line))
        return {
            "t_s": round((now_ns - self._began_ns) / 1e9, 3),
            "links": links,
            "down": sorted(self._down),
            "ranks": self._board.read() if self._board else [],
            "moves": list(self._moves),
        }

    def taken(self) -> None:
        """What was looked at has arrived: the next look need not say its moves again."""
        self._moves.clear()

    def _note(self, move: dict[str, Any]) -> None:
        self._moves.append({**move, "t_s": round((move["time_ns"] - self._began_ns) / 1e9, 3)})
        if (is_down := _IS_DOWN.get(move["event"])) is None:
            return
        egress = Egress(move["switch"], move["port"])
        for end in (egress, self._fabric.peers[egress]):
            (self._down.add if is_down else self._down.discard)(self._number[end])


class Tail:
    """The lines that another process adds to a file, from its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_nbytes = 0
        self._cut = b""

    def lines(self) -> list[bytes]:
        """Those that have been completed since the last call; of very many, the first.  Raise OSError; a
        link is not followed.
        """
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            octets = os.pread(fd, _MOST_READ_NBYTES, self._read_nbytes)
        finally:
            os.close(fd)
        self._read_nbytes += len(octets)
        *lines, self._cut = (self._cut + octets).split(b"\n")
        return lines


@contextmanager
def watched(channel: Channel, looks: Looks) -> Iterator[None]:
    """Send a look after the other for as long as this lasts, from a thread."""
    over = threading.Event()
    thread = threading.Thread(target=_send_looks, args=(channel, looks, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send_looks(channel: Channel, looks: Looks, over: threading.Event) -> None:
    pause_s = LOOK_S
    with suppress(OSError):  # the network is taken down: nobody can look any more
        while not over.wait(pause_s):
            before_s = time.thread_time()
            if channel.send("load", **looks.look()):
                looks.taken()
            pause_s = max(LOOK_S, SHARE * (time.thread_time() - before_s))
