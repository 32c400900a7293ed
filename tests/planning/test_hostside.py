"""Workloads that get no trees are done by their hosts, the others as if they were alone."""

from gradwire.planning.experiment import with_granted_trees
from gradwire.planning.fabrics.hints import leaves_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.trees.grants import Terms
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Schedule, together

STAR = parse_fabric("star:hosts=6")
ONE = made_allreduce(2, 4096)
ADDED, RING = expand(ONE, "ina"), expand(ONE, "ring")


def test_with_room_for_all_nothing_is_replaced() -> None:
    schedule, reasons = with_granted_trees(STAR, STAR.hosts, [ADDED] * 3, lambda _: RING, Terms(), 0)
    assert (schedule, reasons) == (together([ADDED] * 3), {})


def test_those_without_slots_are_replaced_and_said_why() -> None:
    schedule, reasons = with_granted_trees(
        STAR, STAR.hosts, [ADDED] * 3, lambda _: RING, Terms(switch_slots=20, slots=8), 0
    )
    assert schedule == together([ADDED, ADDED, RING])
    assert reasons == {2: "switch0 has 4 of 20 slots left, 8 are needed"}


def test_a_workload_is_replaced_whole_though_only_one_of_its_jobs_has_no_room() -> None:
    """Two pairs that never meet are two jobs, but one workload."""
    pairs = together([ADDED, ADDED])
    schedule, reasons = with_granted_trees(
        STAR, STAR.hosts, [ADDED, pairs], lambda _: together([RING, RING]), Terms(switch_slots=20, slots=8), 0
    )
    assert schedule == together([ADDED, RING, RING])
    assert list(reasons) == [1]


def test_a_workload_is_replaced_once_though_two_of_its_jobs_have_no_room() -> None:
    asked: list[int] = []

    def ring_of(number: int) -> Schedule:
        asked.append(number)
        return together([RING, RING])

    pairs = together([ADDED, ADDED])
    _, reasons = with_granted_trees(STAR, STAR.hosts, [pairs], ring_of, Terms(switch_slots=4), 0)
    assert (asked, list(reasons)) == ([0], [0])


def test_leaves_are_the_ranks_under_each_first_switch_in_the_order_of_ranks() -> None:
    fabric = parse_fabric("leaf-spine:leaves=3,spines=1,hosts=2")
    assert leaves_of(fabric, ("h5", "h0", "h4", "h1", "h2")) == ((0, 2), (1, 3), (4,))
