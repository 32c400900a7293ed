"""Which flows and trees use a plan's links, as JSON and as lines of text."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.plan import Flow, Plan
from gradwire.planning.trees.tree import Tree
from gradwire.results.plannedcells import path_nodes
from gradwire.tools.table import print_left_out
from gradwire.traces.units import show_count, show_first

SHOWN = 8


def tree_json(plan: Plan, tree: Tree) -> dict[str, Any]:
    """As docs/schemas.md, "plan --json: trees", says."""
    root, *_ = tree.nodes
    return {
        "job": tree.job,
        "givers": list(tree.givers),
        "takers": list(tree.takers),
        "udp_port": tree.udp_port,
        "slots": tree.slots,
        "elements": tree.elements,
        "root": root.switch,
        "switches": {
            node.switch: [plan.fabric.peers[Egress(node.switch, child.port)].node for child in node.children]
            for node in tree.nodes
        },
    }


def print_users(
    console: Console, plan: Plan, link: Egress, flows: Sequence[Flow], trees: Sequence[Tree]
) -> None:
    """The flows and trees that a link serves: the first of them, one a line."""
    name = link_name(plan.fabric, link)
    if trees:
        console.print(f"trees through {name}", style="dim")
    for tree in trees[:SHOWN]:
        console.print(tree_line(tree), soft_wrap=True)
    print_left_out(console, len(trees) - SHOWN)
    if flows:
        console.print(f"flows through {name}", style="dim")
        _print_flows(console, plan, flows)


def tree_line(tree: Tree) -> str:
    """Whose sums a tree makes, where, and how much room they have."""
    who = show_ranks(tree.givers)
    if tree.takers != tree.givers:
        who += f" to {show_ranks(tree.takers)}"
    at = f"{tree.nodes[0].switch}, {show_count(len(tree.nodes), 'switch', 'switches')} in all"
    return f"job {tree.job}: sums of {who} up to {at}, {tree.slots} slots of {tree.elements} elements"


def show_ranks(ranks: Sequence[int]) -> str:
    """`r0…r7`, or all of them if they are few or have gaps."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"r{ranks[0]}…r{ranks[-1]}"
    return show_first([f"r{rank}" for rank in ranks], SHOWN, " ")


def _print_flows(console: Console, plan: Plan, flows: Sequence[Flow]) -> None:
    """The first of them, one a line: ranks, 5-tuple, path."""
    for flow in flows[:SHOWN]:
        ports = f"{flow.src_ip}:{flow.sport} → {flow.dst_ip}:{flow.dport}"
        console.print(f"r{flow.src}→r{flow.dst}  {ports}  {' '.join(path_nodes(plan, flow))}", soft_wrap=True)
    print_left_out(console, len(flows) - SHOWN)
