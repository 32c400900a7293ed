"""What the switches are told, as values: a plan's flows and a fabric's destinations as rules.

`controller.openflow` spells them as messages, and reads them back from a switch as the same values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Literal

from controller.routing.shortest import NextPorts, next_ports
from emu.fabric import Fabric
from emu.paths import access_port
from emu.plan import Plan
from emu.switch.match import ETH_TYPE_IPV4, PROTO_TCP, Match

FLOW_PRIORITY = 300
DESTINATION_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """Packets that match leave by one of `ports`.

    If there are several, the switch chooses by its hash (`spread`), or takes the first that is up
    (`failover`).
    """

    priority: int
    match: Match
    ports: tuple[int, ...]
    choice: Literal["spread", "failover"] = "spread"


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
    towards: dict[str, NextPorts] = {}
    for host in fabric.hosts if hosts is None else dict.fromkeys(hosts):
        match = Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=int(IPv4Address(fabric.ip(host))))
        last = access_port(fabric, host)
        if last.node not in towards:
            towards[last.node] = next_ports(fabric, last.node)
        for switch, ports in {**towards[last.node], last.node: (last.port,)}.items():
            rules[switch].append(Rule(DESTINATION_PRIORITY, match, ports))
    return {switch: tuple(own) for switch, own in rules.items()}
