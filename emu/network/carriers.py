"""Carriers of cables: until the kernel has noticed that both ends are up, nothing gets through."""

import time
from collections.abc import Collection, Mapping

from gradwire.emu.network.rtnetlink import LinkState, link_state, link_states

_CARRIER_S = 20.0
_LOOK_S = 0.001
_FEW = 8  # interfaces are asked for one by one, not all at once


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
