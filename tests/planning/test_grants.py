"""Slots are granted in turn and never twice; a job gets trees for all its groups or for none."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.placement import place
from gradwire.planning.trees.capacity import SlotRequest, empty_room, nodes_with_room
from gradwire.planning.trees.grants import Grants, Terms, granted, slots_for
from gradwire.planning.trees.shape import NoTree
from gradwire.planning.trees.tree import LEAST_SLOTS, Tree
from gradwire.planning.trees.treecheck import check_trees
from gradwire.traces.framing.aggregation import FIRST_PORT
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule, together

NBYTES = 1 << 20


def sums(n_ranks: int, *groups: tuple[int, ...]) -> Schedule:
    """An allreduce of each of these groups; those that share a rank are one job."""
    ops = tuple(Op("allreduce", NBYTES) for _ in groups)
    return Schedule.of(
        n_ranks, ops, (), (), tuple(Aggregation(i, ranks, ranks) for i, ranks in enumerate(groups))
    )


def grants_for(fabric: Fabric, schedule: Schedule, terms: Terms, seed: int = 0) -> Grants:
    return granted(fabric, place("linear", fabric, schedule.n_ranks, seed), schedule, terms, seed)


def slots_of(grants: Grants) -> list[int | None]:
    return [tree.slots if tree else None for tree in grants.trees]


def tree_on(fabric: Fabric, elements: int = 256) -> Tree:
    (tree,) = grants_for(fabric, sums(2, (0, 1)), Terms(elements=elements)).trees
    assert tree is not None
    return tree


@pytest.mark.parametrize(
    ("rate", "elements", "expected"),
    [
        # 10 ms at 100 Mb/s are 125,000 bytes: 115 frames of 66 + 1,024.
        ("100M", 256, 128),
        ("50M", 256, 64),
        ("200M", 256, 256),
        ("1G", 256, 256),  # a quarter of a switch is the most
        ("1M", 256, 32),  # the hops of a deep tree are filled
        ("100M", 64, 256),  # 389 frames of 322
        ("40M", 64, 256),  # 156 of them
        ("20M", 64, 128),
    ],
)
def test_a_tree_wants_as_many_slots_as_its_links_send_frames_in_ten_milliseconds(
    rate: str, elements: int, expected: int
) -> None:
    fabric = parse_fabric(f"star:hosts=2,rate={rate}")
    assert slots_for(fabric, tree_on(fabric, elements)) == expected


def test_2048_elements_need_an_ip_packet_of_8192_bytes_and_52_of_headers() -> None:
    """IPv4 20, UDP 8, our own 24.  Of 8,258 bytes of frame, 10 ms at 100 Mb/s have 15, at 200 Mb/s 30."""
    for mtu, elements in ((8243, 256), (8244, 2048)):
        fabric = parse_fabric(f"star:hosts=2,mtu={mtu}")
        assert tree_on(fabric, elements).elements == elements
    with pytest.raises(ValueError, match="mtu of at least 8244, but star:hosts=2,mtu=8243 has mtu=8243"):
        tree_on(parse_fabric("star:hosts=2,mtu=8243"), 2048)
    for rate, slots in (("100M", 32), ("500M", 128)):
        fabric = parse_fabric(f"star:hosts=2,rate={rate},mtu=9000")
        assert slots_for(fabric, tree_on(fabric, 2048)) == slots


def test_at_the_default_rate_it_wants_128() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert slots_for(fabric, tree_on(fabric)) == 128


def test_the_slowest_cable_of_the_tree_counts_and_no_other() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2,rate=100M,uplink_rate=50M")
    inside, across = grants_for(fabric, sums(4, (0, 1), (2, 3)), Terms()), sums(4, (0, 2))
    assert slots_of(inside) == [128, 128]
    assert slots_of(grants_for(fabric, across, Terms())) == [64]


def test_what_cables_delay_is_added_to_the_time() -> None:
    """Two cables of 2 ms there and two back: 18 ms are 207 frames."""
    fabric = parse_fabric("star:hosts=2,rate=100M,delay=2ms")
    assert slots_for(fabric, tree_on(fabric)) == 256


def test_no_more_slots_are_wanted_than_an_explicit_queue_holds() -> None:
    for queue, frames in (("100KB", 100_000 // 1090), ("5KB", LEAST_SLOTS)):
        fabric = parse_fabric(f"star:hosts=2,rate=100M,queue={queue}")
        assert slots_for(fabric, tree_on(fabric)) == frames


def test_trees_are_served_in_order_and_the_last_ones_get_what_is_left() -> None:
    fabric = parse_fabric("star:hosts=8")
    schedule = together([sums(2, (0, 1))] * 4)
    grants = grants_for(fabric, schedule, Terms(switch_slots=100, slots=40))
    assert slots_of(grants) == [40, 40, 20, None]
    assert grants.refused == {(6, 7): "switch0 has 0 of 100 slots left, 8 are needed"}


def test_a_job_is_refused_with_the_scarcest_of_its_switches() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=3")
    schedule = together([sums(2, (0, 1)), sums(2, (0, 1))])
    hosts = ("h0", "h1", "h2", "h3")
    grants = granted(fabric, hosts, schedule, Terms(switch_slots=1024, slots=1020), seed=0)
    assert grants.refused == {(2, 3): "leaf0 has 4 of 1,024 slots left, 8 are needed"}
    assert slots_of(grants) == [1020, None]


def test_a_job_that_misses_one_tree_gives_back_the_others() -> None:
    """The first fills leaf1, the second wants a tree at either leaf, and the last one at leaf0."""
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=6")
    hosts = ("h6", "h7", "h0", "h1", "h8", "h9", "h2", "h3")
    first, last = sums(2, (0, 1)), sums(2, (0, 1))
    middle = sums(4, (0, 1), (2, 3))
    joined = Schedule.of(
        4, (*middle.ops, Op("allreduce", 4)), (), (), (*middle.aggregations, Aggregation(2, (1, 2), (1, 2)))
    )
    grants = granted(fabric, hosts, together([first, joined, last]), Terms(switch_slots=64, slots=60), seed=0)
    assert list(grants.refused) == [(2, 3, 4, 5)]
    assert slots_of(grants) == [60, None, None, None, 60]


def test_jobs_and_ports_are_numbered_in_the_order_of_the_groups() -> None:
    fabric = parse_fabric("star:hosts=6")
    trees = grants_for(fabric, sums(6, (0, 1), (2, 3), (4, 5)), Terms()).trees
    assert [(tree.job, tree.udp_port, tree.epoch) for tree in trees if tree] == [
        (number + 1, FIRST_PORT + number, 0) for number in range(3)
    ]


def test_full_switches_are_gone_past() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
    for full, other in (("spine0", "spine1"), ("spine1", "spine0")):
        room = empty_room(fabric, 64, 256)
        room.slots[full] = 7
        nodes = nodes_with_room(fabric, SlotRequest(fabric.hosts, fabric.hosts, NBYTES, 8), room, seed=0)
        assert nodes[0].switch == other
        room.slots[other] = 6
        with pytest.raises(NoTree, match=r"spine\d has [67] of 64 slots left, 8 are needed"):
            nodes_with_room(fabric, SlotRequest(fabric.hosts, fabric.hosts, NBYTES, 8), room, seed=0)


def test_what_all_switches_have_together_is_not_exceeded() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
    room = empty_room(fabric, 64, 256)
    room.all_slots = 23  # three switches need eight each
    with pytest.raises(
        NoTree, match=r"together have 23 slots in 4,096 pools left, and each of 3 switches needs 8"
    ):
        nodes_with_room(fabric, SlotRequest(fabric.hosts, fabric.hosts, NBYTES, 8), room, seed=0)
    room.all_slots, room.pools = 24, 2
    with pytest.raises(NoTree, match="in 2 pools left"):
        nodes_with_room(fabric, SlotRequest(fabric.hosts, fabric.hosts, NBYTES, 8), room, seed=0)


def test_trees_take_from_what_all_switches_have_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = parse_fabric("leaf-spine:leaves=4,spines=2,hosts=1")
    schedule = together([sums(2, (0, 1))] * 2)
    monkeypatch.setattr("gradwire.planning.trees.capacity.MAX_SMALL_SLOTS", 100)
    grants = grants_for(fabric, schedule, Terms())
    assert slots_of(grants) == [33, None]
    assert "together have 1 slots in 4,093 pools left" in grants.refused[2, 3]
    monkeypatch.setattr("gradwire.planning.trees.capacity.MAX_POOLS", 5)
    assert "in 2 pools left" in grants_for(fabric, schedule, Terms(slots=8)).refused[2, 3]


def test_what_is_tried_in_a_copy_of_a_room_leaves_the_room_as_it_was() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1")
    room = empty_room(fabric, 1024, 256)
    room.copied().take(fabric, tree_on(fabric), NBYTES)
    assert room == empty_room(fabric, 1024, 256)


@given(
    spec=st.sampled_from(
        ["fat-tree:k=4", "bigraph:n=4,m=4", "leaf-spine:leaves=4,spines=2,hosts=4", "star:hosts=16"]
    ),
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    terms=st.builds(Terms, switch_slots=st.integers(0, 300), slots=st.none() | st.integers(8, 200)),
    seed=st.integers(0, 99),
)
def test_no_switch_grants_more_than_it_has_and_every_tree_is_sound(
    spec: str, sizes: list[int], terms: Terms, seed: int
) -> None:
    fabric = parse_fabric(spec)
    schedule = together([sums(n, tuple(range(n)), (0, 1)) for n in sizes])
    hosts = place("random", fabric, schedule.n_ranks, seed)
    grants = granted(fabric, hosts, schedule, terms, seed)
    trees = [tree for tree in grants.trees if tree]
    check_trees(fabric, hosts, [(tree.givers, tree.takers) for tree in trees], trees, terms.switch_slots)
    assert all(LEAST_SLOTS <= tree.slots <= (terms.slots or 256) for tree in trees)
    served = Counter(job for job in schedule.jobs for tree in trees if set(tree.members) <= set(job))
    assert {job for job in schedule.jobs if job not in served} == set(grants.refused)
    assert granted(fabric, hosts, schedule, terms, seed) == grants


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (Terms(elements=100), "a packet cannot have 100 elements: choose 64, 256 or 2048"),
        (Terms(elements=2048), "2048 elements in a packet need an mtu of at least 8244, but star:ho"),
        (Terms(slots=7), "a tree needs 8 to 65,535 slots, got 7"),
        (Terms(switch_slots=-1), "a switch can have 0 to 65,535 slots, got -1"),
        (Terms(switch_slots=1 << 20), "got 1,?048,?576"),
    ],
)
def test_terms_that_make_no_sense_are_refused_in_a_line(terms: Terms, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        grants_for(parse_fabric("star:hosts=2"), sums(2, (0, 1)), terms)


def test_no_more_trees_than_udp_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.planning.trees.grants.LAST_PORT", FIRST_PORT)
    grants = grants_for(parse_fabric("star:hosts=4"), sums(4, (0, 1), (2, 3)), Terms())
    assert grants.refused == {(2, 3): "there are UDP ports for 1 trees, and this plan needs more"}
