"""Which ranks are missing from a sum, by a switch's children, in trees small enough to work out by hand."""

import pytest

from gradwire.emu.aggregation.worker import complaint, missing, path, ranks_of
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.trees.tree import Child, Node, Tree

# core0 has one child, agg0; that has edge0 (ranks 0, 3) and edge1 (ranks 1, 2).
CHAIN = Tree(
    job=1,
    givers=(0, 1, 2, 3),
    takers=(0, 1, 2, 3),
    udp_port=0xBEE0,
    slots=8,
    elements=64,
    nodes=(
        Node("core0", (Child(4),)),
        Node("agg0", (Child(1), Child(2)), parent_port=3),
        Node("edge0", (Child(1), Child(2)), parent_port=3),
        Node("edge1", (Child(1), Child(2)), parent_port=3),
    ),
)
BEHIND = {
    Egress("core0", 4): (0, 1, 2, 3),
    Egress("agg0", 1): (0, 3),
    Egress("agg0", 2): (1, 2),
    Egress("edge0", 1): (0,),
    Egress("edge0", 2): (3,),
    Egress("edge1", 1): (1,),
    Egress("edge1", 2): (2,),
}


@pytest.mark.parametrize(
    ("rank", "levels", "seen", "ranks"),
    [
        (0, 0, 0b01, (3,)),  # of its own switch only itself is in
        (3, 0, 0b10, (0,)),
        (2, 0, 0b10, (1,)),
        (0, 1, 0b01, (1, 2)),  # the switch above lacks the other edge
        (1, 1, 0b10, (0, 3)),
        (0, 2, 0b0, (0, 1, 2, 3)),  # the root lacks all that is below it
        (0, 0, 0b11, ()),
        (0, 3, 0b0, ()),  # there is no such level
        (0, 65535, 0b0, ()),
        (0, 0, (1 << 64) - 1, ()),
    ],
)
def test_children_that_are_not_in_are_told_as_ranks(
    rank: int, levels: int, seen: int, ranks: tuple[int, ...]
) -> None:
    absent = missing(CHAIN, BEHIND, rank, levels, seen)
    assert ranks_of(absent) == ranks


def test_of_a_child_that_is_a_switch_it_is_said_that_some_of_its_ranks_are_missing() -> None:
    """With one of them all others may have contributed."""
    assert complaint(missing(CHAIN, BEHIND, 0, 0, 0b01)) == "nothing comes from rank 3"
    assert complaint(missing(CHAIN, BEHIND, 0, 1, 0b01)) == "nothing comes from some of ranks 1, 2"
    assert complaint(((1,), (4,))) == "nothing comes from ranks 1, 4"
    assert complaint(()) == "a switch reports that nothing is missing"


def test_a_path_goes_from_the_ranks_own_switch_to_the_root() -> None:
    assert [node.switch for node in path(CHAIN, BEHIND, 2)] == ["edge1", "agg0", "core0"]
