"""Direct: a BiGraph's only path between its sides, and a named switch between hosts of one side."""

from collections.abc import Sequence

from controller.routing.shortest import Path, walks
from emu.fabric import Fabric
from emu.plan import Flow
from emu.refused import Refused
from traces.schedule import Schedule


def direct(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """Same-side pairs go through the other side's switch number (slot of the destination) mod n/2.

    So the flows into one switch from its own side spread over as many transit switches as it has hosts.
    """
    del schedule, seed
    if fabric.family != "bigraph":
        raise Refused(f"routes direct make sense only on a BiGraph, not on a {fabric.family}")

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del switch, stride
        return transit_slot(fabric, placement[flow.dst]) % len(ports)

    return list(walks(fabric, placement, flows, choose))


def transit_slot(fabric: Fabric, host: str) -> int:
    """The slot of a BiGraph's host on its switch."""
    return fabric.hosts.index(host) % fabric.shape["m"]
