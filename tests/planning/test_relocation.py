"""When cables are down, the trees that use them move and all others stay."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.routing.reroute import without
from gradwire.planning.transport import fabric_transport
from gradwire.planning.trees.capacity import ground_of
from gradwire.planning.trees.grants import DEFAULT_TERMS, Terms
from gradwire.planning.trees.relocation import lacks_room, moved
from gradwire.planning.trees.shape import NoTree, Parted
from gradwire.planning.trees.tree import Tree
from gradwire.planning.trees.treecheck import check_trees
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import together


def plan_of(
    spec: str,
    n_jobs: int = 1,
    terms: Terms = DEFAULT_TERMS,
    seed: int = 0,
    placement: str = "random",
) -> Plan:
    fabric = parse_fabric(spec)
    one = expand(made_allreduce(len(fabric.hosts) // n_jobs, 1 << 20), "ina")
    return resolve(
        fabric,
        together([one] * n_jobs),
        algorithm="ina",
        placement=placement,
        routes="dmodk",
        seed=seed,
        transport=fabric_transport(fabric),
        terms=terms,
    )


def around(plan: Plan, trees: Iterable[Tree], down: Iterable[Link]) -> tuple[Tree | NoTree, ...]:
    return moved(ground_of(plan), tuple(trees), tuple(down))


def found(made: Sequence[Tree | NoTree]) -> tuple[Tree, ...]:
    """All of them; there must be a tree for each."""
    trees = tuple(tree for tree in made if isinstance(tree, Tree))
    assert len(trees) == len(made)
    return trees


def cables(fabric: Fabric, trees: Iterable[Tree]) -> set[Link]:
    """All that the trees use, those of hosts too."""
    return {
        fabric.cables[Egress(node.switch, child.port)]
        for tree in trees
        for node in tree.nodes
        for child in node.children
    }


def between(fabric: Fabric, *names: str) -> Link:
    return next(link for link in fabric.links if {link.a, link.b} == set(names))


@given(
    spec=st.sampled_from(["fat-tree:k=4", "bigraph:n=4,m=2", "leaf-spine:leaves=3,spines=3,hosts=4"]),
    n_jobs=st.integers(1, 2),
    seed=st.integers(0, 50),
    picks=st.lists(st.integers(0, 1000), min_size=1, max_size=2),
)
def test_only_trees_on_cables_that_are_down_move_and_they_keep_their_slots(
    spec: str, n_jobs: int, seed: int, picks: list[int]
) -> None:
    plan = plan_of(spec, n_jobs, seed=seed)
    inner = plan.fabric.inner_links
    down = {inner[pick % len(inner)] for pick in picks}
    made = around(plan, plan.trees, down)
    for old, new in zip(plan.trees, made, strict=True):
        if down.isdisjoint(cables(plan.fabric, [old])):
            assert new is old
        elif isinstance(new, Tree):
            assert down.isdisjoint(cables(plan.fabric, [new]))
            assert new == replace(old, nodes=new.nodes, epoch=old.epoch + 1)
    kept = [tree for tree in made if isinstance(tree, Tree)]
    groups = [(tree.givers, tree.takers) for tree in kept]
    check_trees(without(plan.fabric, down), plan.placement, groups, kept, plan.switch_slots)


def test_trees_go_from_a_switch_that_is_down_to_others() -> None:
    plan = plan_of("fat-tree:k=4")
    (tree,) = plan.trees
    root = tree.nodes[0].switch
    down = {link for link in plan.fabric.links if root in (link.a, link.b)}
    (new,) = found(around(plan, plan.trees, down))
    assert root not in {node.switch for node in new.nodes}
    assert around(plan, [new], down) == (new,)


def test_a_tree_that_moves_twice_has_the_second_epoch() -> None:
    plan = plan_of("leaf-spine:leaves=2,spines=3,hosts=1")
    down: set[Link] = set()
    trees: tuple[Tree, ...] = plan.trees
    for epoch in (1, 2):
        down.add(between(plan.fabric, "leaf0", trees[0].nodes[0].switch))
        trees = found(around(plan, trees, down))
        assert [tree.epoch for tree in trees] == [epoch]


def test_when_no_cables_join_the_hosts_there_is_no_tree() -> None:
    plan = plan_of("leaf-spine:leaves=2,spines=2,hosts=1")
    (none,) = around(plan, plan.trees, [between(plan.fabric, "leaf0", f"spine{i}") for i in range(2)])
    assert isinstance(none, Parted)
    assert str(none) == "no cables join leaf0, leaf1"
    assert not lacks_room(none)


def test_a_host_whose_own_cable_is_down_is_waited_for() -> None:
    plan = plan_of("leaf-spine:leaves=2,spines=2,hosts=2", placement="linear")
    own = between(plan.fabric, "h0", "leaf0")
    assert around(plan, plan.trees, [own])[0] is plan.trees[0]
    up = between(plan.fabric, "leaf0", plan.trees[0].nodes[0].switch)
    (new,) = found(around(plan, plan.trees, [own, up]))
    assert own in cables(plan.fabric, [new])


@pytest.mark.parametrize(("switch_slots", "has_room"), [(256, True), (255, False)])
def test_a_tree_moves_only_to_switches_with_slots_for_it(switch_slots: int, has_room: bool) -> None:
    """Two trees on leaves of their own and a spine each; one has to go where the other is."""
    plan = plan_of("leaf-spine:leaves=4,spines=2,hosts=1", 2, Terms(switch_slots, 128), placement="linear")
    one, two = plan.trees
    assert one.nodes[0].switch != two.nodes[0].switch
    down = [between(plan.fabric, "leaf0", one.nodes[0].switch)]
    new, same = around(plan, plan.trees, down)
    assert same is two
    assert lacks_room(new) != has_room
    if isinstance(new, Tree):
        assert new.nodes[0].switch == two.nodes[0].switch


def test_of_two_trees_that_have_to_go_to_one_switch_the_first_gets_its_slots() -> None:
    plan = plan_of("leaf-spine:leaves=4,spines=3,hosts=1", 2, Terms(255, 128), placement="linear")
    roots = {tree.nodes[0].switch for tree in plan.trees}
    down = [link for link in plan.fabric.inner_links if link.b in roots]
    first, second = around(plan, plan.trees, down)
    assert len(roots) == 2
    (third,) = {"spine0", "spine1", "spine2"} - roots
    assert isinstance(first, Tree)
    assert str(second) == f"{third} has 127 of 255 slots left, 128 are needed"


def test_a_tree_that_comes_back_goes_past_a_switch_that_another_has_taken_meanwhile() -> None:
    plan = plan_of("leaf-spine:leaves=4,spines=2,hosts=1", 2, Terms(255, 128), placement="linear")
    one, two = plan.trees
    (home,) = {"spine0", "spine1"} - {one.nodes[0].switch}
    gone = [link for link in plan.fabric.inner_links if link.b == one.nodes[0].switch]
    (away,) = found(around(plan, [one], gone))
    assert away.nodes[0].switch == home  # where the second was
    same, again = around(plan, [away, two], [])
    assert same is away
    assert isinstance(again, Tree)
    assert again.nodes[0].switch == one.nodes[0].switch


def test_moved_trees_are_spread_over_the_roots_that_are_left() -> None:
    plan = plan_of("leaf-spine:leaves=8,spines=4,hosts=1", 4, placement="linear")
    assert len({tree.nodes[0].switch for tree in plan.trees}) == 4
    gone = plan.trees[0].nodes[0].switch
    down = [link for link in plan.fabric.links if gone in (link.a, link.b)]
    again = found(around(plan, plan.trees, down))
    assert all(new is old for old, new in zip(plan.trees[1:], again[1:], strict=True))
    assert len({tree.nodes[0].switch for tree in again}) == 3
