"""Failures of cables: what a person writes, and what is refused."""

from dataclasses import replace

import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import (
    Failure,
    cable_name,
    changes,
    check_failures,
    check_reachable,
    outage_s,
    outages,
    parse_failures,
    show_failures,
    switch_port,
)
from gradwire.planning.plancheck import check
from tests.made_plans import allreduce_plan

JOB = ((0, 1),)
LEAF_SPINE = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
TWICE = Fabric(
    "twice",
    "file",
    {},
    ("h0", "h1"),
    ("a", "b"),
    (
        Link("h0", 0, "a", 1, 10**6),
        Link("h1", 0, "b", 1, 10**6),
        Link("a", 2, "b", 2, 10**6),
        Link("a", 3, "b", 3, 10**6),
    ),
)


def test_a_failure_names_a_cable_and_two_times() -> None:
    # leaf0's ports: 1 is h0, 2 is spine0, 3 is spine1.
    assert parse_failures("leaf0-spine1@0.5,1.25", LEAF_SPINE) == (
        Failure(Egress("leaf0", 3), 500_000_000, 1_250_000_000),
    )


def test_without_a_second_time_the_cable_stays_down() -> None:
    assert parse_failures("spine0-leaf1@2", LEAF_SPINE) == (Failure(Egress("spine0", 2), 2_000_000_000),)


def test_one_of_several_cables_is_named_by_its_port() -> None:
    assert [failure.port for failure in parse_failures("a:3-b@1", TWICE)] == [Egress("a", 3)]
    with pytest.raises(ValueError, match="name one by its port, like a:2-b"):
        parse_failures("a-b@1", TWICE)


def test_a_switch_or_a_host_that_fails_is_all_its_cables() -> None:
    ports = {Egress("leaf0", 1), Egress("leaf0", 2), Egress("leaf0", 3)}  # h0, spine0, spine1
    assert set(parse_failures("leaf0@1,2", LEAF_SPINE)) == {Failure(port, 10**9, 2 * 10**9) for port in ports}
    assert parse_failures("h1@1", LEAF_SPINE) == (Failure(Egress("h1", 0), 10**9),)
    assert len(parse_failures("b@1", TWICE)) == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("leaf0-spine9@1", "no node 'spine9'"),
        ("leaf0-leaf1@1", "no cable joins leaf0 and leaf1"),
        ("leaf0-spine1@2,1", "down at 2 s, up at 1 s; give the later time second"),
        ("leaf0-spine1", "write it like"),
        ("leaf0-spine1@soon", "write it like"),
        ("leaf0:9-spine1@1", "no cable joins leaf0:9"),
        ("leaf0-spine1@999999", "0 to 86400 s"),
        ("spine9@1", "no node 'spine9'"),
        ("spine1", "write it like .* or a whole switch like spine1@0.5"),
        ("leaf0:3@1", "write it like"),
    ],
)
def test_a_failure_that_cannot_happen_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_failures(text, LEAF_SPINE)


def test_a_failure_of_no_port_of_the_fabric_is_refused() -> None:
    with pytest.raises(ValueError, match="leaf0 has no port 7"):
        check_failures(LEAF_SPINE, [Failure(Egress("leaf0", 7), 0)])


def test_a_cable_is_named_as_the_option_names_it() -> None:
    assert cable_name(LEAF_SPINE, Egress("leaf0", 3)) == "leaf0-spine1"
    assert cable_name(TWICE, Egress("a", 3)) == "a:3-b"
    for fabric, port in ((LEAF_SPINE, Egress("leaf0", 3)), (TWICE, Egress("a", 3))):
        (failure,) = parse_failures(cable_name(fabric, port) + "@1", fabric)
        assert failure.port == port


def test_of_a_hosts_cable_the_switchs_end_goes_down() -> None:
    assert switch_port(LEAF_SPINE, Egress("h1", 0)) == Egress("leaf1", 1)
    assert switch_port(LEAF_SPINE, Egress("leaf1", 1)) == Egress("leaf1", 1)
    assert switch_port(LEAF_SPINE, Egress("leaf0", 3)) == Egress("leaf0", 3)


def test_changes_come_in_the_order_of_time() -> None:
    leaf, spine = Egress("leaf0", 3), Egress("spine0", 2)
    failures = (Failure(leaf, 50, 80), Failure(spine, 20), Failure(leaf, 100, 120))
    assert [(change.due_ns, change.port, change.is_up) for change in changes(LEAF_SPINE, failures)] == [
        (20, spine, False),
        (50, leaf, False),
        (80, leaf, True),
        (100, leaf, False),
        (120, leaf, True),
    ]


@pytest.mark.parametrize("second", [(30, 60), (20, 50), (50, 90), (10, 90)])
def test_a_cable_with_two_failures_at_once_is_up_when_both_are_over(second: tuple[int, int]) -> None:
    port = Egress("leaf0", 3)
    made = changes(LEAF_SPINE, (Failure(port, 10, 50), Failure(port, *second)))
    assert [(change.due_ns, change.is_up) for change in made] == [(10, False), (max(50, second[1]), True)]


def test_a_rank_that_is_cut_off_for_good_is_refused_and_one_for_a_while_is_not() -> None:
    plan = allreduce_plan(LEAF_SPINE.spec)
    host = Egress("leaf1", 1)  # h1's
    with pytest.raises(ValueError, match="rank 1 on h1 is cut off for good; say when leaf1-h1 comes up"):
        check_reachable(plan.fabric, plan.placement, JOB, (Failure(host, 10),))
    failures = (Failure(host, 10, 20), Failure(Egress("leaf0", 3), 10))
    check_reachable(plan.fabric, plan.placement, JOB, failures)


WIDE = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=2")  # leaf0's ports: 1, 2 h0, h1; 3, 4 the spines
UPLINKS = (Failure(Egress("leaf0", 3), 10), Failure(Egress("leaf0", 4), 20))


@pytest.mark.parametrize(
    ("hosts", "jobs", "cut_off"),
    [
        ("h0 h2 h3 h4", [(0, 1, 2, 3)], "rank 0 on h0 is cut off for good"),
        ("h4 h5 h2 h1", [(0, 1, 2, 3)], "rank 3 on h1 is cut off for good"),
        ("h0 h1 h2 h3", [(0, 1), (2, 3)], None),  # each job is on one side of the cut
        ("h0 h2 h1 h3", [(0, 2), (1, 3)], None),
        ("h0 h1 h2 h3", [(0, 3), (1, 2)], "is cut off for good"),
        ("h0 h2 h3 h4", [(1, 2, 3)], None),  # rank 0 has nothing to say
    ],
)
def test_a_leaf_that_loses_every_uplink_for_good_cuts_off_its_ranks(
    hosts: str, jobs: list[tuple[int, ...]], cut_off: str | None
) -> None:
    if cut_off is None:
        check_reachable(WIDE, hosts.split(), jobs, UPLINKS)
    else:
        with pytest.raises(ValueError, match=f"{cut_off}.* say when leaf0-spine0 comes up"):
            check_reachable(WIDE, hosts.split(), jobs, UPLINKS)


def test_uplinks_that_are_all_down_for_a_while_cut_off_nobody() -> None:
    lasting, passing = UPLINKS[0], replace(UPLINKS[1], up_ns=10**9)
    check_reachable(WIDE, ("h0", "h2"), JOB, (lasting, passing))


def test_of_two_cables_between_the_same_switches_one_may_stay_down() -> None:
    check_reachable(TWICE, ("h0", "h1"), JOB, (Failure(Egress("b", 2), 0),))
    with pytest.raises(ValueError, match="rank 0 on h0 is cut off for good; say when a:3-b comes up again"):
        check_reachable(TWICE, ("h0", "h1"), JOB, (Failure(Egress("a", 3), 0), Failure(Egress("b", 2), 0)))


def test_a_plan_with_a_leaf_that_is_cut_off_for_good_is_refused() -> None:
    plan = allreduce_plan(WIDE.spec)
    check(replace(plan, failures=UPLINKS[:1]))
    with pytest.raises(ValueError, match="is cut off for good"):
        check(replace(plan, failures=UPLINKS))


def test_failures_are_shown_with_their_times_and_no_more_than_a_few() -> None:
    assert show_failures(WIDE, (Failure(Egress("leaf0", 3), 250_000_000, 10**9),)) == (
        "leaf0-spine0 down from 0.25 s to 1 s"
    )
    assert show_failures(WIDE, UPLINKS * 3).endswith("leaf0-spine1 down from 2e-08 s on and 2 more")


def test_a_flow_may_be_held_up_twice_as_long_as_its_cables_are_down() -> None:
    port = Egress("leaf0", 3)
    assert outage_s(()) == outage_s((Failure(port, 5 * 10**9),)) == 0
    assert outage_s((Failure(port, 10**9, 3 * 10**9), Failure(port, 5 * 10**9, 6 * 10**9))) == 6


def test_of_cables_that_are_down_at_once_the_time_counts_once() -> None:
    switch = parse_failures("spine1@1,3", LEAF_SPINE)
    assert outage_s(switch) == 4
    longer = Failure(Egress("leaf0", 2), 2 * 10**9, 4 * 10**9)
    inner = Failure(Egress("leaf1", 2), int(1.5e9), 2 * 10**9)
    assert outage_s((longer, inner, *switch)) == 6


def test_outages_are_the_ports_that_are_down_after_each_change() -> None:
    failures = [
        Failure(Egress("leaf0", 2), 10, 30),
        Failure(Egress("leaf0", 3), 10, 20),
        Failure(Egress("leaf0", 2), 25, 40),  # down all the while from 10 to 40
        Failure(Egress("h1", 0), 50),  # its switch's port
    ]
    both, own = (Egress("leaf0", 2), Egress("leaf0", 3)), Egress("leaf1", 1)
    assert [*outages(LEAF_SPINE, failures)] == [(10, both), (20, both[:1]), (40, ()), (50, (own,))]
