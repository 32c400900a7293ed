"""All framings by name, and the choice of the one that a connection speaks.

A package adds one with an entry point in the group `gradwire.framing`: an object like
`traces.framing.frames.Framing`.  It cannot replace a built-in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np

from gradwire.traces.framing.beginnings import Beginnings, Mask, beginnings
from gradwire.traces.framing.frames import Fit, Framing
from gradwire.traces.framing.gloo_framing import Gloo
from gradwire.traces.framing.grpc_framing import Grpc
from gradwire.traces.framing.mpi_framing import Mpi
from gradwire.traces.framing.plain import Plain
from gradwire.traces.framing.setups import MpiControl, Store
from gradwire.traces.packets.streams import Connection
from gradwire.traces.plugins import entry_points, loaded_with

GROUP = "gradwire.framing"
BUILT_IN: tuple[Framing, ...] = (Gloo(), Mpi(), Store(), MpiControl(), Grpc(), Plain())
NEEDED = ("name", "is_training", "fit", "read")  # of a Framing
_NOTHING = Fit(0.0, "no framing fits")


@runtime_checkable
class RulesOut(Protocol):
    """What a framing may have besides: where `fit` would surely be None, by how connections begin."""

    def rules_out(self, seen: Beginnings, /) -> Mask: ...


@dataclass(frozen=True)
class Choice:
    """What a connection was taken for; no framing: nothing fits."""

    connection: Connection
    framing: Framing | None
    fit: Fit


@cache
def framings() -> tuple[Framing, ...]:
    built_in = {framing.name for framing in BUILT_IN}
    offered = [entry for entry in entry_points(group=GROUP) if entry.name not in built_in]
    offered.sort(key=lambda entry: entry.name)
    return (*BUILT_IN, *(loaded_with(entry, *NEEDED) for entry in offered))


def choose_all(connections: Sequence[Connection]) -> tuple[Choice, ...]:
    """The framing that fits each best; those that all framings rule out by how they begin fit none."""
    rules = [framing.rules_out for framing in framings() if isinstance(framing, RulesOut)]
    if not connections or len(rules) < len(framings()):
        return tuple(map(choose, connections))
    seen = beginnings(connections)
    is_none = np.logical_and.reduce([rules_out(seen) for rules_out in rules]).tolist()
    return tuple(
        Choice(connection, None, _NOTHING) if fits_none else choose(connection)
        for connection, fits_none in zip(connections, is_none, strict=True)
    )


def choose(connection: Connection) -> Choice:
    """The framing that fits best; of equally good ones the first."""
    best = Choice(connection, None, _NOTHING)
    for framing in framings():
        if isinstance(framing, Plain) and best.fit.confidence >= framing.most_confidence:
            continue
        fit = framing.fit(connection)
        if fit is not None and fit.confidence > best.fit.confidence:
            best = Choice(connection, framing, fit)
    return best
