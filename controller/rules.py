"""What the switches are told, as values: a plan's flows and a fabric's destinations as rules.

`controller.openflow` spells them as messages, and reads them back from a switch as the same values.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Literal

from controller.backups import Backups, Protection
from controller.reroute import without
from controller.routing.shortest import NextPorts, next_ports
from emu.fabric import Fabric, Link
from emu.paths import access_port
from emu.plan import Flow, Plan
from emu.switch.match import ETH_TYPE_IPV4, PROTO_TCP, Match

FLOW_PRIORITY = 300
DESTINATION_PRIORITY = 100
# What our switch holds: rules at one switch, rules and groups at all of them (`emu.switch`).
MAX_SWITCH_RULES = 65_536
MAX_RULES = 262_144
MAX_GROUPS = 16_384


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


@dataclass(frozen=True, slots=True)
class Guard:
    """How well a plan's flows are guarded against failing cables (`controller.backups`).

    A backup is one of the first `n_choices` that are equally good: each choice is a group in the switch.
    """

    says: str
    n_choices: int
    has_detours: bool


GUARDS = (
    Guard(
        "every cable between switches has a backup, where there is another way", n_choices=4, has_detours=True
    ),
    Guard(
        "backups are not spread: that would need more groups than the switches hold",
        n_choices=1,
        has_detours=True,
    ),
    Guard(
        "no backups on the way down: detours would need more rules than the switches hold",
        n_choices=1,
        has_detours=False,
    ),
    Guard("no backups: they would need more groups than the switches hold", n_choices=0, has_detours=False),
)


def plan_rules(plan: Plan, down: Collection[Link] = ()) -> Rules:
    """The rules of `guarded_rules`."""
    return guarded_rules(plan, down)[0]


def guarded_rules(plan: Plan, down: Collection[Link] = ()) -> tuple[Rules, Guard]:
    """One rule for each flow at each switch on its path, and the destinations' rules beneath them.

    The latter carry what is no flow of the plan, a ping for instance, between the plan's hosts.  With
    them come the best backups that the switches have room for.  Cables in `down` are no way for either.
    """
    fabric = without(plan.fabric, down) if down else plan.fabric
    beneath = destination_rules(fabric, plan.placement)
    for guard in GUARDS:
        backups = Backups(fabric, guard.has_detours)
        rules = {switch: list(own) for switch, own in beneath.items()}
        for flow in plan.flows:
            is_whole = guard.n_choices and all(end in fabric.peers for end in flow.path)
            protection = backups.along(flow.path) if is_whole else Protection()
            for switch, rule in _flow_rules(flow, protection, guard.n_choices):
                rules[switch].append(rule)
        if has_room(rules):
            break
    return {switch: tuple(own) for switch, own in rules.items()}, guard


def has_room(rules: Mapping[str, Sequence[Rule]]) -> bool:
    """True if our switches hold so many rules and groups."""
    groups = (
        len({(rule.choice, rule.ports) for rule in own if len(rule.ports) > 1}) for own in rules.values()
    )
    n_rules = [len(own) for own in rules.values()]
    return sum(groups) <= MAX_GROUPS and sum(n_rules) <= MAX_RULES and max(n_rules) <= MAX_SWITCH_RULES


def _flow_rules(flow: Flow, protection: Protection, n_choices: int) -> Iterator[tuple[str, Rule]]:
    """At each switch of the path, then at each of the detours."""
    match = Match(
        eth_type=ETH_TYPE_IPV4,
        ip_proto=PROTO_TCP,
        ipv4_src=int(IPv4Address(flow.src_ip)),
        ipv4_dst=int(IPv4Address(flow.dst_ip)),
        sport=flow.sport,
        dport=flow.dport,
    )
    draw = flow.sport + flow.dport  # numbers that the plan has drawn
    backups = iter(protection.backups)
    for end in flow.path[1:]:  # the first is the host's own port
        if choices := next(backups, ())[:n_choices]:
            ports = (end.port, choices[draw % len(choices)])
            yield end.node, Rule(FLOW_PRIORITY, match, ports, "failover")
        else:
            yield end.node, Rule(FLOW_PRIORITY, match, (end.port,))
    for end in protection.detours:
        yield end.node, Rule(FLOW_PRIORITY, match, (end.port,))


def destination_rules(fabric: Fabric, hosts: Iterable[str] | None = None) -> Rules:
    """At every switch and for every one of `hosts` (default: all), the ports on shortest paths to it."""
    rules: dict[str, list[Rule]] = {switch: [] for switch in fabric.switches}
    towards: dict[str, NextPorts] = {}
    for host in fabric.hosts if hosts is None else dict.fromkeys(hosts):
        match = Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=int(IPv4Address(fabric.ip(host))))
        if host not in fabric.ports:  # its cable is down
            continue
        last = access_port(fabric, host)
        if last.node not in towards:
            towards[last.node] = next_ports(fabric, last.node)
        for switch, ports in {**towards[last.node], last.node: (last.port,)}.items():
            rules[switch].append(Rule(DESTINATION_PRIORITY, match, ports))
    return {switch: tuple(own) for switch, own in rules.items()}
