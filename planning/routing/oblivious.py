"""Routes that do not look at the traffic: ECMP, D-mod-k, and a BiGraph's direct paths."""

from collections.abc import Sequence

from gradwire.planning.fabrics.bigraph import bigraph_of, kind_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.flowhash import address_number, flow_hash, switch_salt
from gradwire.planning.plan import Flow
from gradwire.planning.refused import Refused
from gradwire.planning.routing.shortest import Path, walks
from gradwire.traces.packets.packets import TCP
from gradwire.traces.schedules.schedule import Schedule


def ecmp(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """Every switch spreads flows over its equally short ports by a hash of their 5-tuple: port `hash mod n`,
    as a select group with n buckets of one weight does.

    The baseline of every Ethernet fabric.  The hash is published (`planning.flowhash`) and each switch has a
    salt of its own, so the paths are known beforehand and any kind of switch can take them.
    """
    del schedule
    salts = {switch: switch_salt(fabric.dpid(switch), seed) for switch in fabric.switches}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del stride
        source, destination = address_number(flow.src_ip), address_number(flow.dst_ip)
        return flow_hash(source, destination, TCP, flow.sport, flow.dport, salts[switch]) % len(ports)

    return list(walks(fabric, placement, flows, choose))


def dmodk(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """The destination's number chooses the way up: at the l-th choice among k ports, port (destination div
    the earlier k's) mod k.  All traffic to a host comes down one tree.

    On a fat-tree with ranks in host order, the exchanges of the usual collectives then never share a link
    (Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global collectives,
    JPDC 2012).

    The division makes the second choice independent of the first; without it a three-level fat-tree
    would use k/2 of its (k/2)^2 cores.  On a BiGraph the destination's position at its switch is its number.
    """
    del schedule, seed
    cabled = bigraph_of(fabric)
    number = cabled.positions if cabled else {host: i for i, host in enumerate(fabric.hosts)}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del switch
        return number[placement[flow.dst]] // stride % len(ports)

    return list(walks(fabric, placement, flows, choose))


def direct(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """A BiGraph's only path between its sides; a pair on one side goes through the other side's switch number
    (position of the destination at its own switch) mod n/2.

    So the flows into one switch from its own side spread over as many transit switches as it has hosts.
    """
    del schedule, seed
    cabled = bigraph_of(fabric)
    if cabled is None:
        raise Refused(f"direct routes work only on a BiGraph, not on a {kind_of(fabric)}")
    positions = cabled.positions
    number = {switch: i for layer in (cabled.upper, cabled.lower) for i, switch in enumerate(layer)}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del stride
        wanted = positions[placement[flow.dst]] % len(ports)
        towards = fabric.neighbours[switch]
        in_order = sorted(range(len(ports)), key=lambda i: number[towards[ports[i]]])
        return in_order[wanted]

    return list(walks(fabric, placement, flows, choose))
