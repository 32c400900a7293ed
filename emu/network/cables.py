"""Cables that fail by plan: their ports go down and up at their times, and all are up again at the end.

By rtnetlink, in the network namespace of the process: no command to start, so the time is right within a
millisecond where the machine is not busy.
"""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gradwire.emu.network.carriers import await_carriers
from gradwire.emu.network.rtnetlink import carry_out, link_down, link_up
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.failures import CableChange


@dataclass(frozen=True, slots=True)
class Done:
    """A change that took place; times are CLOCK_MONOTONIC, `done_ns` when the kernel had carried it out."""

    change: CableChange
    due_ns: int
    done_ns: int


class Cables:
    """Changes ports of this namespace in a thread of its own, from `begin` to `end`, repeat by repeat."""

    def __init__(self, changes: Sequence[CableChange]) -> None:
        self._changes = changes
        self._index = {
            change.port: socket.if_nametoindex(interface(change.port.node, change.port.port))
            for change in changes
        }
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._done: list[Done] = []
        self._error: OSError | None = None

    def begin(self, start_ns: int) -> None:
        """Carry the changes out at their times after `start_ns` (CLOCK_MONOTONIC)."""
        self._over.clear()
        self._done, self._error = [], None
        self._thread = threading.Thread(target=self._carry_out, args=(start_ns,), daemon=True)
        self._thread.start()

    def end(self) -> list[Done]:
        """What took place since `begin`; everything is up when this returns.  Raise OSError.

        By then the kernel has reported every change to all listeners; a carrier it reports a little later.
        """
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
        if self._index:
            carry_out(map(link_up, self._index.values()))
            await_carriers(self._index.values())
        if self._error is not None:
            raise self._error
        return self._done

    def _carry_out(self, start_ns: int) -> None:
        for change in self._changes:
            due_ns = start_ns + change.due_ns
            if self._over.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
                return
            try:
                carry_out([(link_up if change.is_up else link_down)(self._index[change.port])])
            except OSError as error:
                self._error = error
                return
            self._done.append(Done(change, due_ns, time.monotonic_ns()))


@contextmanager
def failing(changes: Sequence[CableChange]) -> Iterator[Cables]:
    """The ports must exist; they are up when this ends.  Raise OSError."""
    cables = Cables(changes)
    try:
        yield cables
    finally:
        cables.end()
