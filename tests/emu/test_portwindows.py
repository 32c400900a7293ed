"""Room in queues for what switches add up: the windows of the trees that pass a port."""

from dataclasses import replace

from gradwire.emu.network.shaping import windows_at
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.trees.tree import Tree
from tests.made_tree_plans import TWO_LEVELS, star_tree, two_level_tree

FRAME = 14 + 20 + 8 + 24 + 4 * 64  # Ethernet, IPv4, UDP, our header, elements


def star_leaf() -> Tree:
    """Two hosts of leaf0."""
    tree = star_tree((0, 1))
    return replace(tree, nodes=(replace(tree.nodes[0], switch="leaf0"),))


def test_both_ends_of_each_cable_of_a_tree_hold_its_window_and_as_much_again() -> None:
    windows = windows_at(parse_fabric(TWO_LEVELS), [two_level_tree(slots=10)], may_move=False)
    hosts = {f"h{i}-eth0" for i in range(4)}
    switches = {f"leaf{i}-eth{port}" for i in range(2) for port in (1, 2, 3)} | {"spine0-eth1", "spine0-eth2"}
    assert windows == dict.fromkeys(hosts | switches, 2 * 10 * FRAME)


def test_trees_that_meet_at_a_port_need_room_for_both() -> None:
    trees = [star_tree((0, 1), slots=10), star_tree((1, 2), slots=20, number=1)]
    windows = windows_at(parse_fabric("star:hosts=3"), trees, may_move=False)
    assert windows["switch0-eth2"] == windows["h1-eth0"] == 2 * 30 * FRAME
    assert windows["switch0-eth1"] == 2 * 10 * FRAME


def test_a_tree_that_may_move_finds_room_at_every_cable_between_switches_and_at_no_other_host() -> None:
    fabric = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=2")
    windows = windows_at(fabric, [star_leaf()], may_move=True)
    assert windows["spine1-eth3"] == windows["leaf2-eth4"] == 2 * 8 * FRAME
    assert windows["h5-eth0"] == windows["leaf2-eth1"] == 0
