"""Routes by source: a host sends all through the same switch above it, its neighbour through the next."""

from collections.abc import Sequence

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.plan import Flow
from gradwire.planning.routing.shortest import Path, walks
from gradwire.traces.schedules.schedule import Schedule


def source(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    del schedule, seed
    number = {host: n for n, host in enumerate(fabric.hosts)}

    def choose(_: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        return number[placement[flow.src]] // stride % len(ports)

    return list(walks(fabric, placement, flows, choose))
