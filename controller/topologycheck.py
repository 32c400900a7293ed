"""Checks by its ports whether a switch that connects is the one that its dpid names."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from gradwire.controller.ryu_api import ofp
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.family import FROM_FILE

# What the switches of the families are called, each with a number; `switch0` of a star says too little.
_OURS = re.compile(r"(?:agg|core|edge|leaf|lower|node|spine|upper)\d+-eth\d+", re.ASCII)
_ELSE = "another topology was started"


class TopologyCheck:
    """Calls `report` with what does not fit, once for each switch until it changes."""

    def __init__(self, fabric: Fabric, report: Callable[[str], None]) -> None:
        self._fabric = fabric
        self._report = report
        self._said: dict[str, str | None] = {}

    def admits(self, switch: str, ports: Mapping[int, Any]) -> bool:
        """`ports` are the library's `OFPPort`s by number."""
        wrong = misfit(self._fabric, switch, {number: port.name for number, port in ports.items()})
        if wrong is not None and wrong != self._said.get(switch):
            self._report(wrong)
        self._said[switch] = wrong
        return wrong is None


def misfit(fabric: Fabric, switch: str, ports: Mapping[int, bytes]) -> str | None:
    """One line about what is wrong with the ports (number to name) of a `switch`; None if they fit.

    Numbers have to be the fabric's; a name only has to be if it is one that the families give, as somebody's
    own script may call its interfaces what it likes.  Open vSwitch has a port besides, `OFPP_LOCAL`.
    """
    numbers = sorted(number for number in ports if number <= ofp.OFPP_MAX)
    cabled = fabric.ports.get(switch, ())
    dpid = fabric.dpid(switch)
    if tuple(numbers) != cabled:
        has, must = _ranges(numbers), _ranges(cabled)
        return f"dpid {dpid} has {has}, but {switch} of {fabric.spec} has {must}: {_ELSE}"
    for number in numbers if fabric.family != FROM_FILE else ():
        name = ports[number].rstrip(b"\0").decode(errors="replace")
        if _OURS.fullmatch(name) and name != interface(switch, number):
            return f"dpid {dpid} has the port {name}, but is {switch} of {fabric.spec}: {_ELSE}"
    return None


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers, as in `ports 1-4, 6`."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    ]
    if not runs:
        return "no ports"
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"port{'' if len(runs) == len(runs[0]) == 1 else 's'} {shown}"
