"""Cables that fail by plan: their ports go down and up at their times, and all are up again at the end.

By rtnetlink, in the network namespace of the process: no command to start, so the time is right within a
millisecond where the machine is not busy.
"""

import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gradwire.emu.kernel.rtnetlink import LinkState, carry_out, link_down, link_state, link_states, link_up
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.failures import CableChange

_CARRIER_S = 20.0
_LOOK_S = 0.001
_FEW = 8  # interfaces are asked for one by one, not all at once


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


def await_carriers(indices: Collection[int]) -> None:
    """Return when the kernel sends through these interfaces, and through their other ends if those are here.

    Of a cable's two ends the one that was set up first can send a little later than the other: a worker of
    the kernel does that (net/core/link_watch.c), and until it comes, which on a busy machine takes tens of
    milliseconds, what the interface is to send is dropped and counted nowhere.  Raise OSError if an interface
    does not exist or has no carrier after 20 s.
    """
    deadline_s = time.monotonic() + _CARRIER_S
    waiting = set(indices)
    while waiting:
        states = link_states() if len(waiting) > _FEW else {}
        states |= {index: link_state(index) for index in waiting - states.keys()}
        others = {states[index].other for index in waiting} - {None}
        states |= {index: link_state(index) for index in others - states.keys() if index is not None}
        waiting = {index for index in waiting if not _sends(index, states)}
        if waiting:
            if time.monotonic() > deadline_s:
                raise OSError(f"a cable still has no carrier {_CARRIER_S:g} s after it was set up")
            time.sleep(_LOOK_S)


def _sends(ifindex: int, states: Mapping[int, LinkState]) -> bool:
    state = states[ifindex]
    return state.is_operating and (state.other is None or states[state.other].is_operating)
