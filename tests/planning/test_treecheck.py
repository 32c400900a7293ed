"""Trees from files: what is not a tree of the group on this fabric is refused; who is below a port."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.trees.tree import MAX_CHILDREN, Child, Node, Tree
from gradwire.planning.trees.treecheck import check_trees, ranks_below
from tests.made_tree_plans import TWO_LEVELS, star_tree, two_level_tree

FABRIC = parse_fabric(TWO_LEVELS)
GROUP = ((0, 1, 2, 3), (0, 1, 2, 3))


def check(tree: Tree) -> None:
    check_trees(FABRIC, FABRIC.hosts, [(tree.givers, tree.takers)], [tree], switch_slots=1024)


def nodes(change: Callable[[list[Node]], object]) -> Tree:
    made = list(two_level_tree().nodes)
    change(made)
    return replace(two_level_tree(), nodes=tuple(made))


def node(index: int, **fields: object) -> Tree:
    return nodes(lambda made: made.__setitem__(index, replace(made[index], **fields)))  # type: ignore[arg-type]


def test_a_tree_of_two_levels_passes_and_says_who_is_below_each_port() -> None:
    check(two_level_tree())
    assert ranks_below(FABRIC, FABRIC.hosts, two_level_tree()) == {
        Egress("spine0", 1): (0, 1),
        Egress("spine0", 2): (2, 3),
        Egress("leaf0", 1): (0,),
        Egress("leaf0", 2): (1,),
        Egress("leaf1", 1): (2,),
        Egress("leaf1", 2): (3,),
    }


def test_ranks_are_where_they_are_placed() -> None:
    placement = ("h3", "h0", "h2", "h1")
    check_trees(FABRIC, placement, [GROUP], [two_level_tree()], switch_slots=8)
    assert ranks_below(FABRIC, placement, two_level_tree())[Egress("spine0", 1)] == (1, 3)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (replace(two_level_tree(), job=1 << 16), "job 65536, epoch 0 or UDP port 48864 is out of range"),
        (replace(two_level_tree(), udp_port=0), "UDP port 0"),
        (replace(two_level_tree(), epoch=-1), "epoch -1"),
        (replace(two_level_tree(), slots=0), "0 slots"),
        (replace(two_level_tree(), nodes=()), "its first node must be its root"),
        (nodes(lambda made: made.pop(0)), "its first node must be its root"),
        (nodes(list.reverse), "its first node must be its root"),
        (nodes(lambda made: made.pop()), "leaf1 is a child but is not among the nodes"),
        (nodes(lambda made: made.append(made[2])), "leaf1 appears twice"),
        (node(1, switch="leaf7"), "'leaf7' is not a switch"),
        (node(1, switch="h0"), "'h0' is not a switch"),
        (node(1, parent_port=1), "names a port twice"),
        (node(1, parent_port=None), "port None of leaf0 does not lead to its parent"),
        (node(1, parent_port=9), "leaf0 has no port 9"),
        (node(0, parent_port=1), "its first node must be its root"),
        (node(0, children=()), "spine0 has 0 children"),
        (node(0, children=(Child(1),) * (MAX_CHILDREN + 1)), f"spine0 has {MAX_CHILDREN + 1} children"),
        (node(0, children=(Child(1),)), "port 3 of leaf1 does not lead to its parent"),
        (node(0, children=(Child(1), Child(1))), "spine0 names a port twice"),
        (node(0, children=(Child(1), Child(5))), "spine0 has no port 5"),
        (node(1, children=(Child(1),)), "each of its 4 members' hosts must be in it exactly once: see h1"),
        (node(1, children=(Child(1), Child(2, gives=False))), "port 2 of leaf0: gives False, takes True"),
        (node(0, children=(Child(1), Child(2, takes=False))), "port 2 of spine0: gives True, takes False"),
        (replace(two_level_tree(), takers=(0, 1, 2)), "port 2 of leaf1: gives True, takes True"),
        (
            replace(two_level_tree(), givers=(0, 1, 2), takers=(0, 1, 2)),
            "3 members' hosts must be in it exactly once: see h3",
        ),
    ],
)
def test_what_is_no_tree_of_the_group_is_refused(tree: Tree, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^tree 0: ") as refusal:
        check(tree)
    assert reason in str(refusal.value)


def test_trees_that_share_a_switch_share_its_slots() -> None:
    first, second = star_tree((0, 1), slots=500), star_tree((1, 2), slots=525, number=1)
    groups = [(each.givers, each.takers) for each in (first, second)]
    fabric = parse_fabric("star:hosts=3")
    check_trees(fabric, fabric.hosts, groups, [first, second], switch_slots=1025)
    with pytest.raises(ValueError, match=r"switch0 grants 1,025 slots but has only 1,024"):
        check_trees(fabric, fabric.hosts, groups, [first, second], switch_slots=1024)


def test_two_cables_between_two_switches_are_not_mixed_up() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=2")
    two_spines = nodes(lambda made: made.__setitem__(2, replace(made[2], parent_port=4)))
    with pytest.raises(ValueError, match=r"port 4 of leaf1 does not lead to its parent"):
        check_trees(fabric, fabric.hosts, [GROUP], [two_spines], switch_slots=8)


def test_a_switch_below_two_others_is_refused() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=2")
    root, leaf0, leaf1 = two_level_tree().nodes
    leaf0 = replace(leaf0, children=(*leaf0.children, Child(4)))  # to spine1, and that to leaf1
    second = Node("spine1", (Child(2),), parent_port=1)
    ring = replace(two_level_tree(), nodes=(root, leaf0, second, leaf1))
    with pytest.raises(ValueError, match=r"leaf1 is below two nodes"):
        check_trees(fabric, fabric.hosts, [GROUP], [ring], switch_slots=8)
