"""Plans with aggregation trees besides their flows, for the tests of what the controller makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.plan import Plan
from gradwire.planning.trees.grants import Terms, granted
from gradwire.planning.trees.tree import Tree
from gradwire.traces.schedules.schedule import Aggregation
from tests.made_plans import allreduce_plan


def planted_plan(spec: str, groups: Sequence[Sequence[int]] = (), terms: Terms | None = None) -> Plan:
    """A ring over all hosts, and a tree for each of the groups (all ranks in one if there is none named).

    Ranks are placed in the order of the hosts; every member gives and takes.
    """
    return planted(allreduce_plan(spec, "ring", nbytes=1 << 16), groups, terms)


def planted(plan: Plan, groups: Sequence[Sequence[int]] = (), terms: Terms | None = None) -> Plan:
    """The plan with trees for these groups besides."""
    members = [tuple(group) for group in groups] or [tuple(range(plan.n_ranks))]
    sums = tuple(Aggregation(0, group, group) for group in members)
    schedule = replace(plan.schedule, aggregations=sums)
    terms = terms or Terms()
    trees = granted(plan.fabric, plan.placement, schedule, terms, plan.seed).trees
    found = tuple(tree for tree in trees if tree is not None)
    assert len(found) == len(sums)
    return replace(plan, schedule=schedule, trees=found, switch_slots=terms.switch_slots)


def inner_cables(fabric: Fabric, tree: Tree) -> Iterator[Link]:
    """The cables between switches that the tree uses."""
    for node in tree.nodes:
        if node.parent_port is not None:
            yield fabric.cables[Egress(node.switch, node.parent_port)]
