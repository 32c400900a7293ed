"""What the switches are told, as values: a plan's flows and a fabric's destinations as rules.

`controller.openflow` spells them as messages, and reads them back from a switch as the same values.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from emu.fabric import Egress, Fabric
from emu.plan import Plan
from emu.switch.match import ETH_TYPE_IPV4, PROTO_TCP, Match

FLOW_PRIORITY = 300
DESTINATION_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """Packets that match leave by one of `ports`; the switch chooses by its hash if there are several."""

    priority: int
    match: Match
    ports: tuple[int, ...]


Rules = dict[str, tuple[Rule, ...]]  # by switch; every switch of the fabric is there


def plan_rules(plan: Plan) -> Rules:
    """One rule for each flow at each switch on its path, and the destinations' rules beneath them.

    The latter carry what is no flow of the plan, a ping for instance, between the plan's hosts.
    """
    rules = {switch: list(own) for switch, own in destination_rules(plan.fabric, plan.placement).items()}
    for flow in plan.flows:
        match = Match(
            eth_type=ETH_TYPE_IPV4,
            ip_proto=PROTO_TCP,
            ipv4_src=int(IPv4Address(flow.src_ip)),
            ipv4_dst=int(IPv4Address(flow.dst_ip)),
            sport=flow.sport,
            dport=flow.dport,
        )
        for egress in flow.path:
            if egress.node in rules:  # the first of a path is the host's own port
                rules[egress.node].append(Rule(FLOW_PRIORITY, match, (egress.port,)))
    return {switch: tuple(own) for switch, own in rules.items()}


def destination_rules(fabric: Fabric, hosts: Iterable[str] | None = None) -> Rules:
    """At every switch and for every one of `hosts` (default: all), the ports on shortest paths to it."""
    rules: dict[str, list[Rule]] = {switch: [] for switch in fabric.switches}
    neighbours = {
        switch: [(port, fabric.peers[Egress(switch, port)].node) for port in fabric.ports.get(switch, ())]
        for switch in fabric.switches
    }
    for host in fabric.hosts if hosts is None else dict.fromkeys(hosts):
        match = Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=int(IPv4Address(fabric.ip(host))))
        hops = _hops_to(host, neighbours, fabric)
        for switch in fabric.switches:
            if switch in hops:
                nearer = hops[switch] - 1
                ports = tuple(port for port, peer in neighbours[switch] if hops.get(peer) == nearer)
                rules[switch].append(Rule(DESTINATION_PRIORITY, match, ports))
    return {switch: tuple(own) for switch, own in rules.items()}


def _hops_to(host: str, neighbours: Mapping[str, list[tuple[int, str]]], fabric: Fabric) -> dict[str, int]:
    """The distance of every switch from the host, in cables; no path leads through another host."""
    hops = {host: 0}
    queue = deque(fabric.peers[Egress(host, port)].node for port in fabric.ports[host])
    hops |= dict.fromkeys(queue, 1)
    while queue:
        switch = queue.popleft()
        for _, peer in neighbours[switch]:
            if peer in neighbours and peer not in hops:
                hops[peer] = hops[switch] + 1
                queue.append(peer)
    return hops
