"""What perfect switches would count of a plan's trees: packet by packet, through the model of their slots."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.entries import FROM_PARENT
from gradwire.planning.openflow.pool import EVENTS, Pool, Sent
from gradwire.planning.openflow.rules import aggregate
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Node, Tree
from gradwire.traces.framing.aggregation import Header, PacketKind

HEADERS = 14 + 20 + 8 + 24
Sending = tuple[int, int]
"""(rank, position of a chunk in the stream of its group)."""


def sums_json(
    plan: Plan, repeats: int = 1, again: Collection[Sending] = (), lost: Collection[Sending] = ()
) -> dict[str, Any]:
    """`switches.json` of a run that sends nothing else, every rule, port and pool of it.

    Contributions in `again` are sent twice; those in `lost` get lost on the host's cable, and are sent again.
    """
    wires: Counter[Egress] = Counter()
    nbytes: Counter[Egress] = Counter()
    flows, pools = [], []
    for group, tree in enumerate(plan.trees):
        made = _Summing(plan, tree)
        for chunk, count in enumerate(_stream(plan, group, repeats)):
            for rank in tree.members:
                times = 1 + ((rank, chunk) in again) + ((rank, chunk) in lost)
                for i in range(times):
                    made.send(rank, chunk, count, arrives=i > 0 or (rank, chunk) not in lost)
        wires += made.wires
        nbytes += made.nbytes
        flows += [made.rule(port) for node in tree.nodes for port in _ports(node)]
        pools += [made.pool(node) for node in tree.nodes]
    peers = plan.fabric.peers
    ports = [
        {
            "switch": end.node,
            "port": end.port,
            "rx_packets": wires[peers[end]],
            "rx_bytes": nbytes[peers[end]],
        }
        | {"tx_packets": wires[end], "tx_bytes": nbytes[end]}
        for end in peers
        if end.node in plan.fabric.switches
    ]
    return {"schema": "gradwire.switches/1", "flows": flows, "ports": ports, "pools": pools}


def _stream(plan: Plan, group: int, repeats: int) -> Iterator[int]:
    """The elements of each chunk: where the stream begins, then of each sum its exponents and numbers."""
    yield 0
    most = plan.trees[group].elements
    for _ in range(repeats):
        for each in plan.schedule.aggregations:
            if (each.givers, each.takers) == plan.schedule.groups[group]:
                yield 0
                left = plan.schedule.ops[each.op].nbytes // 4
                while left:
                    yield min(left, most)
                    left -= min(left, most)


def _ports(node: Node) -> list[Egress]:
    up = [] if node.parent_port is None else [node.parent_port]
    return [Egress(node.switch, port) for port in (*(child.port for child in node.children), *up)]


@dataclass
class _Summing:
    """One tree: a pool at each of its switches, what passed on cables, what `came` to the port of a rule."""

    plan: Plan
    tree: Tree
    wires: Counter[Egress] = field(default_factory=Counter)
    nbytes: Counter[Egress] = field(default_factory=Counter)
    came: Counter[Egress] = field(default_factory=Counter)
    came_nbytes: Counter[Egress] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.nodes = {node.switch: node for node in self.tree.nodes}
        self.pools = {node.switch: Pool(aggregate(self.tree, node, 0)) for node in self.tree.nodes}

    def send(self, rank: int, chunk: int, count: int, *, arrives: bool) -> None:
        gives = rank in self.tree.givers
        elements = (1,) * count if gives else ()
        header = Header(PacketKind.CONTRIBUTION, self.tree.job, self.tree.epoch, len(elements), chunk)
        egress = Egress(self.plan.placement[rank], 0)
        self._pass(egress, len(elements))
        if arrives:
            self._receive(self.plan.fabric.peers[egress], header, elements)

    def _pass(self, egress: Egress, count: int) -> None:
        self.wires[egress] += 1
        self.nbytes[egress] += HEADERS + 4 * count

    def _receive(self, port: Egress, header: Header, elements: tuple[int, ...]) -> None:
        if port.node not in self.nodes:
            return  # a host
        self.came[port] += 1
        self.came_nbytes[port] += HEADERS + 4 * len(elements)
        children = [child.port for child in self.nodes[port.node].children]
        child = children.index(port.port) if port.port in children else FROM_PARENT
        for sent in self.pools[port.node].receive(child, header, elements):
            self._forward(port.node, sent)

    def _forward(self, switch: str, sent: Sent) -> None:
        egress = Egress(switch, sent.port)
        self._pass(egress, len(sent.elements))
        self._receive(self.plan.fabric.peers[egress], sent.header, sent.elements)

    def rule(self, port: Egress) -> dict[str, Any]:
        return {
            "switch": port.node,
            "match": {"in_port": port.port, "eth_type": 2048, "ip_proto": 17, "udp_dst": self.tree.udp_port},
            "priority": 400,
            "output": None,
            "packets": self.came[port],
            "bytes": self.came_nbytes[port],
        }

    def pool(self, node: Node) -> dict[str, Any]:
        counted = self.pools[node.switch].counted
        return {
            "switch": node.switch,
            "job": self.tree.job,
            "epoch": self.tree.epoch,
            "slots": self.tree.slots,
            "children": len(node.children),
            "counts": {event: counted[event] for event in EVENTS},
        }
