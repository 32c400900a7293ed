"""D-mod-k: the way up is chosen by the destination's number, so that all of a host's traffic comes down
one tree.

On a fat-tree with ranks in host order, the exchanges of the usual collectives then never share a link
(Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global
collectives, JPDC 2012).
"""

from collections.abc import Sequence

from planning.fabrics.bigraph import bigraph_of
from planning.fabrics.fabric import Fabric
from planning.plan import Flow
from planning.routing.shortest import Path, walks
from traces.schedules.schedule import Schedule


def dmodk(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """At the l-th choice among k ports, port (destination div the earlier k's) mod k.

    The division makes the second choice independent of the first; without it a three-level fat-tree
    would use k/2 of its (k/2)^2 cores.  On a BiGraph the destination's slot is its number, see `direct`.
    """
    del schedule, seed
    cabled = bigraph_of(fabric)
    number = cabled.slots if cabled else {host: i for i, host in enumerate(fabric.hosts)}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del switch
        return number[placement[flow.dst]] // stride % len(ports)

    return list(walks(fabric, placement, flows, choose))
