"""Backups are checked by cutting cables and walking the rules as switches would, port by port."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.openflow import rules as rule_module
from gradwire.planning.openflow.backups import Backups
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import FLOW_PRIORITY, GUARDS, Rule, Rules, guarded_rules, plan_rules
from gradwire.planning.plan import Plan
from gradwire.planning.routing.reroute import rerouted
from tests.made_plans import allreduce_plan
from tests.planning.test_rules import best

MBPS = 10**6
PLANS = [
    ("fat-tree:k=4", "ecmp"),
    ("fat-tree:k=4", "dmodk"),
    ("fat-tree:k=6", "ecmp"),
    ("fat-tree:k=4,levels=2", "ecmp"),
    ("bigraph:n=8,m=2", "direct"),
    ("leaf-spine:leaves=4,spines=3,hosts=2", "ecmp"),
    ("torus:x=4,y=4", "ecmp"),
    ("torus:x=3,y=3", "dmodk"),
]


def inner(fabric: Fabric) -> list[Link]:
    """The cables between switches."""
    return [link for link in fabric.links if link.a in fabric.switches and link.b in fabric.switches]


def cut(link: Link) -> set[Egress]:
    return {Egress(link.a, link.a_port), Egress(link.b, link.b_port)}


def arrivals(plan: Plan, rules: Rules, number: int, dead: set[Egress]) -> Iterator[tuple[str, ...]]:
    """Every way that a packet of a flow can go; AssertionError if one ends elsewhere, or never.

    A switch takes the first live port of a failover rule, and may take any of a spread one.  It sends
    nothing back to where the packet came from (OpenFlow 1.3.5, 5.12).
    """
    flow, fabric = plan.flows[number], plan.fabric
    packet = next(
        rule.match
        for own in rules.values()
        for rule in own
        if (rule.match.sport, rule.match.dport) == (flow.sport, flow.dport)
        and rule.match.ipv4_src == address(flow.src_ip)
    )
    yield from onward(fabric, rules, packet, (fabric.peers[flow.path[0]],), dead, plan.placement[flow.dst])


def address(text: str) -> int:
    a, b, c, d = map(int, text.split("."))
    return a << 24 | b << 16 | c << 8 | d


def onward(
    fabric: Fabric, rules: Rules, packet: Match, came: tuple[Egress, ...], dead: set[Egress], host: str
) -> Iterator[tuple[str, ...]]:
    here, in_port = came[-1].node, came[-1].port
    nodes = tuple(end.node for end in came)
    if here in fabric.hosts:
        assert here == host
        yield nodes
        return
    assert len(set(nodes)) == len(nodes), f"a loop: {nodes}"
    rule = best(rules[here], packet)
    live = [port for port in rule.ports if Egress(here, port) not in dead]
    assert live, f"no way on at {here} after {nodes}"
    for port in live[:1] if rule.choice == "failover" else rule.ports:
        assert Egress(here, port) not in dead
        assert port != in_port, f"sent back by {here} after {nodes}"
        yield from onward(fabric, rules, packet, (*came, fabric.peers[Egress(here, port)]), dead, host)


@pytest.mark.parametrize(("spec", "routes"), PLANS)
def test_every_flow_survives_every_cable_between_switches(spec: str, routes: str) -> None:
    plan = allreduce_plan(spec, "ring", "random", routes, n_ranks=8)
    made = guarded_rules(plan)
    rules = made.rules
    assert made.guard is GUARDS[0]
    for number, flow in enumerate(plan.flows):
        own_way = tuple(plan.fabric.peers[end].node for end in flow.path)
        assert list(arrivals(plan, rules, number, set())) == [own_way]
        for end in flow.path[1:-1]:  # another cable's failure does not touch it
            assert list(arrivals(plan, rules, number, cut(plan.fabric.cables[end])))


@pytest.mark.parametrize("seed", range(30))
def test_around_any_path_in_any_graph_there_is_a_way_whenever_the_graph_has_one(seed: int) -> None:
    """Paths need not be shortest; the only way that cannot be had leads back through the path."""
    random = Random(seed)
    graph = nx.connected_watts_strogatz_graph(12, 4, 0.5, seed=seed)
    fabric = wired(graph)
    source, target = random.sample(range(12), 2)
    nodes = random.choice(list(nx.all_simple_paths(graph, source, target, cutoff=6)))
    port = {(end.node, peer.node): end.port for end, peer in fabric.peers.items()}
    names = [f"h{source}", *(f"s{node}" for node in nodes), f"h{target}"]
    path = tuple(Egress(a, port[a, b]) for a, b in pairwise(names))
    protection = Backups(fabric).along(path)
    detour = {end.node: end for end in protection.detours}
    assert len(detour) == len(protection.detours), "two rules for one flow at one switch"
    assert detour.keys().isdisjoint(names)
    for i, choices in enumerate(protection.backups):
        left = graph.copy()
        left.remove_edge(nodes[i], nodes[i + 1])
        left.remove_nodes_from(nodes[:i])
        assert bool(choices) == nx.has_path(left, nodes[i], nodes[-1])
        for choice in choices:
            first = Egress(names[i + 1], choice)
            assert first.port != path[i + 1].port
            met = walk(fabric, first, dict(zip(names[1:], path[1:], strict=False)), detour, f"h{target}")
            assert set(met).isdisjoint(names[1 : i + 2])


def walk(
    fabric: Fabric, step: Egress, along: dict[str, Egress], detour: dict[str, Egress], host: str
) -> list[str]:
    """The nodes from `step` on: by the flow's own rules, else on a shortest path, by the lowest port."""
    target = fabric.peers[Egress(host, 0)].node
    far = nx.single_source_shortest_path_length(
        nx.Graph((end.node, peer.node) for end, peer in fabric.peers.items()), target
    )
    met = []
    while (node := fabric.peers[step].node) != host:
        assert node not in met, "a loop"
        met.append(node)
        nearer = [p for p, peer in fabric.neighbours[node].items() if far[peer] == far[node] - 1]
        step = along.get(node) or detour.get(node) or Egress(node, nearer[0])
    return met


def wired(graph: "nx.Graph[int]") -> Fabric:
    """Switches s0... cabled as in the graph, port numbers in the order of its edges, a host at each."""
    ports = dict.fromkeys(graph, 1)
    links = [Link(f"h{node}", 0, f"s{node}", 1, MBPS) for node in graph]
    for a, b in graph.edges:
        ports[a] += 1
        ports[b] += 1
        links.append(Link(f"s{a}", ports[a], f"s{b}", ports[b], MBPS))
    hosts, switches = (tuple(f"{letter}{node}" for node in graph) for letter in "hs")
    return Fabric("made", "made", {}, hosts, switches, tuple(links))


def test_flows_between_two_leaves_are_spread_over_the_other_spines() -> None:
    plan = allreduce_plan("leaf-spine:leaves=2,spines=4,hosts=4", "ring", "random", "ecmp")
    rules = plan_rules(plan)
    pairs = {rule.ports for rule in rules["leaf0"] if rule.choice == "failover"}
    assert len({second for _, second in pairs}) > 1
    assert all(len(set(ports)) == 2 for ports in pairs)


def test_a_host_cable_and_a_lone_uplink_have_no_backup() -> None:
    plan = allreduce_plan("leaf-spine:leaves=3,spines=1,hosts=1")
    assert all(rule.choice == "spread" for own in plan_rules(plan).values() for rule in own)


def test_after_a_failure_neither_paths_nor_backups_use_the_cable_that_is_down() -> None:
    plan = allreduce_plan("fat-tree:k=4", "ring")
    link = inner(plan.fabric)[0]
    dead = cut(link)
    spared = guarded_rules(plan, [link]).rules
    own_paths = {(end.node, end.port) for flow in plan.flows for end in flow.path}
    for switch, own in spared.items():
        for rule in own:
            for port in rule.ports[1:] if rule.priority == FLOW_PRIORITY else rule.ports:
                assert Egress(switch, port) not in dead
            if rule.priority == FLOW_PRIORITY and Egress(switch, rule.ports[0]) in dead:
                assert (switch, rule.ports[0]) in own_paths  # the flow's: who reroutes gives it another


def limited(monkeypatch: pytest.MonkeyPatch, **limits: int) -> tuple[Rules, str]:
    for name, value in limits.items():
        monkeypatch.setattr(rule_module, name, value)
    made = guarded_rules(allreduce_plan("fat-tree:k=4", "ring"))
    return made.rules, made.guard.says


def detours(rules: Rules) -> int:
    """Rules that no path of the plan accounts for."""
    plan = allreduce_plan("fat-tree:k=4", "ring")
    n_flow_rules = sum(rule.priority == FLOW_PRIORITY for own in rules.values() for rule in own)
    return n_flow_rules - sum(len(flow.path) - 1 for flow in plan.flows)


def test_detours_are_left_out_when_the_rules_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan_rules(allreduce_plan("fat-tree:k=4", "ring"))
    assert detours(whole) > 0
    rules, says = limited(monkeypatch, MAX_FLOWS=sum(map(len, whole.values())) - 1)
    assert says.startswith("no backups on the way down")
    assert detours(rules) == 0
    upward = [rule for rule in rules["edge0"] if rule.choice == "failover"]
    assert upward
    assert all(rule.choice == "spread" for core in range(4) for rule in rules[f"core{core}"])


def test_backups_are_left_out_when_the_groups_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = {rule.ports for rule in _spread(plan_rules(allreduce_plan("fat-tree:k=4", "ring")))}
    assert spread
    rules, says = limited(monkeypatch, MAX_GROUPS=0)
    assert says.startswith("no backups: ")
    assert not [rule for own in rules.values() for rule in own if rule.choice == "failover"]


def _spread(rules: Rules) -> list[Rule]:
    return [rule for own in rules.values() for rule in own if len(rule.ports) > 1]


@pytest.mark.parametrize(("k", "within"), [(4, 5), (6, 1)])
def test_a_detour_in_a_fat_tree_needs_as_few_rules_as_its_cabling_allows(k: int, within: int) -> None:
    """By hand, for a path that comes down to edge1 through agg1; a rule at each switch in brackets.

    Between pods two detours: core [agg'] core' agg1, through another pod, and agg1 [edge] agg2 edge1 in
    the pod.  Within a pod one, the latter; but of two edges (k = 4) the other is where the packet comes
    from, so the only way to agg2 leads down and up in another pod to change planes:
    agg1 [core] [agg'] [edge'] [agg''] [core''] agg2 edge1.
    """
    plan = allreduce_plan(f"fat-tree:k={k}", "ring", "linear", n_ranks=12)
    backups = Backups(plan.fabric)
    found = {(len(flow.path) - 1, len(backups.along(flow.path).detours)) for flow in plan.flows}
    assert found == {(5, 2), (3, within), (1, 0)}


def test_after_a_failure_many_flows_keep_their_rules_and_the_next_failure_is_survived() -> None:
    """As well as with rules worked out again."""
    plan = allreduce_plan("fat-tree:k=4", "ring", "random")
    first = guarded_rules(plan)
    links = inner(plan.fabric)
    for down in (links[0], links[-1]):
        around = rerouted(plan, [down])
        kept = guarded_rules(around, [down], first)
        renewed = guarded_rules(around, [down])
        same = sum(new is old for new, old in zip(kept.by_flow, first.by_flow, strict=True))
        assert len(plan.flows) / 3 < same < len(plan.flows)
        for other in links:
            dead = cut(down) | cut(other)
            for number, flow in enumerate(around.flows):
                if not dead.isdisjoint(flow.path) and survives(around, renewed.rules, number, dead):
                    assert list(arrivals(around, kept.rules, number, dead))


def survives(plan: Plan, rules: Rules, number: int, dead: set[Egress]) -> bool:
    try:
        return bool(list(arrivals(plan, rules, number, dead)))
    except AssertionError:
        return False


def test_rules_that_use_the_failed_cable_or_lead_where_it_led_are_not_kept() -> None:
    plan = allreduce_plan("fat-tree:k=4", "ring", "random")
    down = inner(plan.fabric)[0]
    kept = guarded_rules(rerouted(plan, [down]), [down], guarded_rules(plan))
    lower = down.a if down.a.startswith("edge") else down.b
    for flow, own in zip(kept.plan.flows, kept.by_flow, strict=True):
        for switch, rule in own:
            assert all(Egress(switch, port) not in cut(down) for port in rule.ports)
        if flow.path[-1].node == lower:  # it is farther from some switches than it was
            assert own == guarded_rules(kept.plan, [down]).by_flow[kept.plan.flows.index(flow)]


def test_no_flow_is_guarded_better_after_a_failure_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = allreduce_plan("fat-tree:k=4", "ring", "random")
    monkeypatch.setattr(rule_module, "MAX_GROUPS", 0)
    first = guarded_rules(plan)
    monkeypatch.undo()
    assert first.guard is GUARDS[-1]
    assert guarded_rules(plan, inner(plan.fabric)[:1], first).guard is GUARDS[-1]
