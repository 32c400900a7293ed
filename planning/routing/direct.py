"""Direct: a BiGraph's only path between its sides, and a named switch between hosts of one side."""

from collections.abc import Sequence

from planning.fabrics.bigraph import bigraph_of, kind_of
from planning.fabrics.fabric import Fabric
from planning.plan import Flow
from planning.refused import Refused
from planning.routing.shortest import Path, walks
from traces.schedules.schedule import Schedule


def direct(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """Same-side pairs go through the other side's switch number (slot of the destination) mod n/2.

    So the flows into one switch from its own side spread over as many transit switches as it has hosts.
    """
    del schedule, seed
    cabled = bigraph_of(fabric)
    if cabled is None:
        raise Refused(f"routes direct make sense only on a BiGraph, not on a {kind_of(fabric)}")
    slots = cabled.slots
    number = {switch: i for layer in (cabled.upper, cabled.lower) for i, switch in enumerate(layer)}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del stride
        wanted = slots[placement[flow.dst]] % len(ports)
        towards = fabric.neighbours[switch]
        in_order = sorted(range(len(ports)), key=lambda i: number[towards[ports[i]]])
        return in_order[wanted]

    return list(walks(fabric, placement, flows, choose))
