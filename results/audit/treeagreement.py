"""Compares a plan's trees with what the switches counted: every child's packets, and every sum."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gradwire.controller.counters import Counters
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.pool import Event
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Node
from gradwire.results.audit.disagreements import Finding, Kind, off
from gradwire.results.audit.treecounts import Again, Joints, SumCount, TreeLoad, due
from gradwire.traces.framing.aggregation import ELEMENT_NBYTES
from gradwire.traces.units import show_count

REFUSED: tuple[Event, ...] = ("malformed", "early", "other_epoch")


@dataclass(frozen=True)
class TreeAgreement:
    """`loads` leaves out links that no tree uses."""

    sums: tuple[SumCount, ...] = ()
    loads: dict[Egress, TreeLoad] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def tree_agreement(plan: Plan, counters: Counters, again: Again, repeats: int) -> TreeAgreement:
    """Hold the trees against the counters of this many repeats.

    With failures trees may have moved: then nothing is held, and `again` alone says what hosts' links carry.
    """
    sums: list[SumCount] = []
    findings: list[Finding] = []
    loads: defaultdict[Egress, TreeLoad] = defaultdict(TreeLoad)
    for tree_index, tree in enumerate(plan.trees):
        joints = Joints(plan, counters, again, tree_index, due(plan, tree_index, repeats))
        for node in tree.nodes:
            if not plan.failures:
                sums += joints.sums(node)
                findings += _pool_findings(node, joints)
            for egress, load in joints.loads(node):
                loads[egress] += load
    for one in sums:
        findings += _sum_findings(plan, one)
    return TreeAgreement(tuple(sums), dict(loads), (*findings, *_strays(plan, counters)))


def _sum_findings(plan: Plan, one: SumCount) -> Iterator[Finding]:
    tree, peer = plan.trees[one.tree_index], plan.fabric.peers[one.egress]
    where = f"sums of tree {tree.job} from {one.egress.node} at {peer.node}"
    if one.counted is None:
        yield Finding("not counted", where, "the switch has no rule for them")
        return
    more = one.counted.packets - one.expected.packets
    if more < 0:
        packets = show_count(one.expected.packets, "packet")
        yield Finding("less", where, f"not counted there: {-more:,} of {packets}")
    elif more > one.again:
        what = f"{show_count(more, 'packet')} more than the {one.expected.packets:,} expected"
        what += f"; sent again: {one.again:,}"
        yield Finding("more", where, what)
    else:
        spare = more * tree.elements * ELEMENT_NBYTES
        expected = one.expected.stream_nbytes
        yield from off(where, one.counted.stream_nbytes - expected, expected, spare if expected else 0)


def _pool_findings(node: Node, joints: Joints) -> Iterator[Finding]:
    """Each child's chunk was added once, nothing else was, and every sum fitted."""
    tree, pool = joints.tree, joints.pool(node.switch)
    where = f"sums of tree {tree.job} at {node.switch}"
    if pool is None:
        yield Finding("not counted", where, "the switch did not report what it added")
        return
    counts = pool.counts
    wanted = len(node.children) * joints.due.packets
    if counts["added"] != wanted or counts["completed"] != joints.due.packets:
        what = f"contributions added: {counts['added']:,}, sums completed: {counts['completed']:,}"
        kind: Kind = "less" if counts["added"] < wanted else "more"
        yield Finding(kind, where, f"{what}; due: {wanted:,} and {joints.due.packets:,}")
    asks = any(joints.is_host(node, child.port) for child in node.children)
    for event in REFUSED:
        if counts[event] and not (asks and event == "other_epoch"):
            refused = show_count(counts[event], "packet was", "packets were")
            yield Finding("more", where, f"{refused} refused: {event.replace('_', ' ')}")
    others = counts["contributions"] - counts["added"] - sum(counts[event] for event in REFUSED)
    if not counts["duplicates"] <= others <= counts["duplicates"] + counts["stale"]:
        what = f"contributions neither added nor refused: {others:,} of {counts['contributions']:,}"
        yield Finding("ends differ", where, f"{what}; said to have come twice: {counts['duplicates']:,}")
    if counts["saturated"]:
        yield Finding("saturated", where, f"{show_count(counts['saturated'], 'sum')} did not fit an int32")


def _strays(plan: Plan, counters: Counters) -> Iterator[Finding]:
    """Rules of trees that the plan has not; one that has moved keeps its UDP port."""
    planned = {tree.udp_port for tree in plan.trees}
    for (port, udp_port), count in counters.sums.items():
        if count.packets and udp_port not in planned:
            packets = show_count(count.packets, "packet")
            what = f"{packets} to UDP port {udp_port}, which is not a tree's of the plan"
            yield Finding("no flow's", port.node, what)
