"""Packets that are walked through the rules of switches, to see whether they arrive."""

from collections.abc import Collection, Iterable, Mapping
from itertools import permutations
from typing import NamedTuple

from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.flowhash import address_number
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, PROTO_TCP, Match
from gradwire.planning.openflow.rules import Rule
from gradwire.planning.plan import Plan

Tables = Mapping[str, Mapping[Match, Rule]]
"""By switch, its rules by what they match; none may be there twice with different priorities."""


class Packet(NamedTuple):
    """`matches` are those that it meets, the most specific first: rules of these have the higher priority."""

    src: str
    dst: str
    matches: tuple[Match, ...]


def by_match(rules: Iterable[Rule]) -> dict[Match, Rule]:
    return {rule.match: rule for rule in rules}


def packets(fabric: Fabric, plan: Plan | None) -> list[Packet]:
    """One between any two hosts, of a plan between its hosts; and one of each of its flows."""
    hosts = plan.placement if plan else fabric.hosts
    pings = [_packet(fabric, src, dst) for src, dst in permutations(hosts, 2)]
    if plan is None:
        return pings
    return pings + [
        _packet(fabric, plan.placement[flow.src], plan.placement[flow.dst], (flow.sport, flow.dport))
        for flow in plan.flows
    ]


def _packet(fabric: Fabric, src: str, dst: str, ports: tuple[int, int] | None = None) -> Packet:
    to = Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=address_number(fabric.ip(dst)))
    pair = to._replace(ipv4_src=address_number(fabric.ip(src)))
    if ports is None:
        return Packet(src, dst, (pair, to))
    return Packet(src, dst, (pair._replace(ip_proto=PROTO_TCP, sport=ports[0], dport=ports[1]), pair, to))


def losses(
    fabric: Fabric, tables: Tables, sent: Iterable[Packet], down: Collection[str] = frozenset()
) -> list[str]:
    """What becomes of each packet that does not arrive, whichever way a hash may choose for it.

    `down` are interfaces.  A packet that comes to a switch again counts as lost.
    """
    dead = {end for end in fabric.peers if interface(*end) in down}
    dead |= {fabric.peers[end] for end in dead}
    said = (_loss(fabric, tables, packet, dead, (access_switch(fabric, packet.src),)) for packet in sent)
    return [each for each in said if each]


def _loss(
    fabric: Fabric, tables: Tables, packet: Packet, dead: Collection[Egress], way: tuple[str, ...]
) -> str | None:
    switch, who = way[-1], f"{packet.src} to {packet.dst} by {' '.join(way)}"
    rule = next((tables[switch][match] for match in packet.matches if match in tables[switch]), None)
    if rule is None:
        return f"{who}: no rule"
    ends = [Egress(switch, port) for port in rule.ports]
    if rule.choice == "failover":
        ends = [end for end in ends if end not in dead][:1]
    for end in ends:
        peer = fabric.peers[end].node
        if end in dead:
            return f"{who}: into the dead cable to {peer}"
        if peer == packet.dst:
            continue
        if peer in way or peer in fabric.host_set:
            return f"{who}: to {peer}"
        if loss := _loss(fabric, tables, packet, dead, (*way, peer)):
            return loss
    return None if ends else f"{who}: no port is up"
