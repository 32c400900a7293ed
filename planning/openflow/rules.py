"""The rules of the switches, as values: for the flows of a plan, or for the destinations of a fabric.

`controller.openflow` spells them as messages, `controller.readback` reads them back as the
same values.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import access_port, distances
from gradwire.planning.flowhash import address_number
from gradwire.planning.openflow.backups import Backups, Protection
from gradwire.planning.openflow.entries import FROM_PARENT, MAX_ENTRIES, MAX_FLOWS, MAX_GROUPS, Aggregate
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, PROTO_TCP, PROTO_UDP, Match
from gradwire.planning.plan import Flow, Plan
from gradwire.planning.routing.reroute import without
from gradwire.planning.routing.shortest import NextPorts, next_ports
from gradwire.planning.trees.tree import Node, Tree

AGGREGATE_PRIORITY = 400
FLOW_PRIORITY = 300
DESTINATION_PRIORITY = 100

Choice = Literal["spread", "failover"]
GroupKey = tuple[Choice, tuple[int, ...]]


"""What a group does: `Rule.choice` and `Rule.ports`.  Rules of one switch that choose alike share it."""


class Rule(NamedTuple):
    """Packets that match leave by one of `ports`.

    If there are several, the switch chooses by its hash (`spread`), or takes the first that is up
    (`failover`).  With `aggregate` they are added up instead, and there are no ports.
    """

    priority: int
    match: Match
    ports: tuple[int, ...]
    choice: Choice = "spread"
    aggregate: Aggregate | None = None


Rules = dict[str, tuple[Rule, ...]]  # by switch; every switch of the fabric is there


@dataclass(frozen=True, slots=True)
class Guard:
    """How well a plan's flows are guarded against failing cables (`planning.openflow.backups`).

    A backup is one of the first `n_choices` that are equally good: each choice is a group in the switch.
    """

    says: str
    n_choices: int
    has_detours: bool

    @property
    def warning(self) -> str | None:
        """What is missing, if not every cable that could have a backup has one."""
        return None if self is GUARDS[0] else self.says


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


FlowRules = tuple[tuple[str, Rule], ...]
"""The rules of one flow, each with its switch: those of its path, then those of its detours."""


@dataclass(frozen=True)
class Guarded:
    """All rules of a plan while the cables in `down` are not usable; `by_flow` in the order of its flows."""

    plan: Plan
    down: frozenset[Link]
    guard: Guard
    by_flow: tuple[FlowRules, ...]
    rules: Rules


def plan_rules(plan: Plan) -> Rules:
    """The rules of `guarded_rules`."""
    return guarded_rules(plan).rules


def guarded_rules(plan: Plan, down: Collection[Link] = (), before: Guarded | None = None) -> Guarded:
    """One rule for each flow at each switch on its path, and the destinations' rules beneath them.

    The latter carry what is not a flow of the plan, a ping for instance, between the plan's hosts.  With
    them come the best backups that the switches have room for.  Cables in `down` are not usable for either.
    Trees' rules are those of `plan.trees` as they are.

    With `before`, rules of the same flows on other paths or with other cables down, a flow keeps what
    serves it still, and no flow is guarded better than then: an answer to a failure must come soon.
    """
    fabric = without(plan.fabric, down) if down else plan.fabric
    towards_hosts = destination_rules(fabric, plan.placement)
    beneath = {switch: list(switch_rules) for switch, switch_rules in towards_hosts.items()}
    for each in sums(plan.trees):
        beneath[each.switch].append(Rule(AGGREGATE_PRIORITY, each.match, (), aggregate=each.aggregate))
    for guard in GUARDS[GUARDS.index(before.guard) if before else 0 :]:
        kept = _kept(plan, fabric, before) if before and guard is before.guard else {}
        backups = Backups(fabric, guard.has_detours)
        by_flow = tuple(
            kept.get(number) or _flow_rules(flow, fabric, backups, guard.n_choices)
            for number, flow in enumerate(plan.flows)
        )
        rules = {switch: list(switch_rules) for switch, switch_rules in beneath.items()}
        for flow_rules in by_flow:
            for switch, rule in flow_rules:
                rules[switch].append(rule)
        if has_room(rules):
            break
    whole = {switch: tuple(switch_rules) for switch, switch_rules in rules.items()}
    return Guarded(plan, frozenset(down), guard, by_flow, whole)


def guard_of(plan: Plan) -> Guard:
    """The guard of `guarded_rules`, without making rules where even those of paths alone do not fit."""
    n_rules = len(plan.fabric.switches) * plan.n_ranks + sum(len(flow.path) - 1 for flow in plan.flows)
    return GUARDS[-1] if n_rules > MAX_FLOWS else guarded_rules(plan).guard


def _kept(plan: Plan, fabric: Fabric, before: Guarded) -> dict[int, FlowRules]:
    """The rules, by flow, that serve as well in what is left of the fabric.

    Those of a flow that has the same path, whose ports are all there, and whose destination is as far
    from every switch as it was: then backups are loop-free alternates as they were.
    """
    old = without(plan.fabric, before.down) if before.down else plan.fabric
    is_same = {
        target: distances(old, target) == distances(fabric, target)
        for target in {flow.path[-1].node for flow in plan.flows}
    }
    lost: defaultdict[str, set[int]] = defaultdict(set)  # ports, by switch
    for end in old.peers.keys() - fabric.peers.keys():
        lost[end.node].add(end.port)
    return {
        number: flow_rules
        for number, (flow, was, flow_rules) in enumerate(
            zip(plan.flows, before.plan.flows, before.by_flow, strict=True)
        )
        if is_same[flow.path[-1].node]
        and flow.path == was.path
        and not any(switch in lost and not lost[switch].isdisjoint(rule.ports) for switch, rule in flow_rules)
    }


def groups_of(rules: Iterable[Rule]) -> set[GroupKey]:
    """The groups that these rules of one switch need."""
    return {(rule.choice, rule.ports) for rule in rules if len(rule.ports) > 1}


def has_room(rules: Mapping[str, Sequence[Rule]]) -> bool:
    """True if our switches hold that many rules and groups."""
    n_groups = sum(len(groups_of(switch_rules)) for switch_rules in rules.values())
    n_rules = [len(switch_rules) for switch_rules in rules.values()]
    return n_groups <= MAX_GROUPS and sum(n_rules) <= MAX_FLOWS and max(n_rules) <= MAX_ENTRIES


def _flow_rules(flow: Flow, fabric: Fabric, backups: Backups, n_choices: int) -> FlowRules:
    """A path with a cable that is down has no backups: it leads nowhere."""
    is_whole = n_choices and all(end in fabric.peers for end in flow.path)
    protection = backups.along(flow.path) if is_whole else Protection()
    return tuple(_protected(flow, protection, n_choices))


def _protected(flow: Flow, protection: Protection, n_choices: int) -> Iterator[tuple[str, Rule]]:
    match = Match(
        eth_type=ETH_TYPE_IPV4,
        ip_proto=PROTO_TCP,
        ipv4_src=address_number(flow.src_ip),
        ipv4_dst=address_number(flow.dst_ip),
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
        match = Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=address_number(fabric.ip(host)))
        if host not in fabric.ports:  # its cable is down
            continue
        last = access_port(fabric, host)
        if last.node not in towards:
            towards[last.node] = next_ports(fabric, last.node)
        for switch, ports in {**towards[last.node], last.node: (last.port,)}.items():
            rules[switch].append(Rule(DESTINATION_PRIORITY, match, ports))
    return {switch: tuple(switch_rules) for switch, switch_rules in rules.items()}


class Sum(NamedTuple):
    """One rule of a tree, at a switch."""

    switch: str
    match: Match
    aggregate: Aggregate


def sums(trees: Iterable[Tree]) -> Iterator[Sum]:
    """One rule for each child of each node, and one for what its parent sends down."""
    for tree in trees:
        for node in tree.nodes:
            for index, child in enumerate(node.children):
                yield Sum(node.switch, _match(child.port, tree), aggregate(tree, node, index))
            if node.parent_port is not None:
                yield Sum(node.switch, _match(node.parent_port, tree), aggregate(tree, node))


def aggregate(tree: Tree, node: Node, child: int = FROM_PARENT) -> Aggregate:
    """What the switch does with packets of the tree from this child, or from the parent."""
    return Aggregate(
        job=tree.job,
        epoch=tree.epoch,
        child=child,
        slots=tree.slots,
        elements=tree.elements,
        parent_port=node.parent_port,
        ports=tuple(each.port for each in node.children),
        gives=sum(1 << index for index, each in enumerate(node.children) if each.gives),
        takes=sum(1 << index for index, each in enumerate(node.children) if each.takes),
    )


def _match(in_port: int, tree: Tree) -> Match:
    return Match(eth_type=ETH_TYPE_IPV4, ip_proto=PROTO_UDP, dport=tree.udp_port, in_port=in_port)


@dataclass(frozen=True, slots=True)
class TableSize:
    """How many rules a switch is sent for its flow table, and how many groups these share."""

    switch: str
    n_rules: int
    n_groups: int


def table_sizes(rules: Rules) -> tuple[TableSize, ...]:
    """The size of each switch's table, in the order of `rules`.  Rules that choose alike among the same ports
    share a group.
    """
    return tuple(
        TableSize(switch, len(switch_rules), len(groups_of(switch_rules)))
        for switch, switch_rules in rules.items()
    )
