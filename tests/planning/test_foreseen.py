"""A job has trees only if failures of the plan leave them a place; else its hosts do it, and it says why."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.controller.intent import led_around
from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import Failure, parse_failures
from gradwire.planning.trees.grants import Grants, Terms, granted, stages
from gradwire.planning.trees.tree import LEAST_SLOTS, Tree
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule, together
from tests.made_plans import allreduce_plan

NBYTES = 1 << 16
TWO_SPINES = "leaf-spine:leaves=4,spines=2,hosts=1"
PAIR = Schedule.of(2, (Op("allreduce", NBYTES),), (), (), (Aggregation(0, (0, 1), (0, 1)),))


def failures_of(fabric: Fabric, *texts: str) -> tuple[Failure, ...]:
    return tuple(failure for text in texts for failure in parse_failures(text, fabric))


def pairs_on(fabric: Fabric, n_jobs: int, terms: Terms) -> Grants:
    """Jobs of two ranks each, on h0 and h1, h2 and h3, and so on."""
    return granted(fabric, fabric.hosts[: 2 * n_jobs], together([PAIR] * n_jobs), terms, seed=0)


def root_of(tree: Tree | None) -> str:
    assert tree is not None
    return tree.nodes[0].switch


def failing_root(n_jobs: int, terms: Terms, job: int = 0, until: str = "") -> tuple[str, Grants]:
    """The first leaf of a job's tree loses its cable to the root at 0.5 s: its name, and what is granted."""
    fabric = parse_fabric(TWO_SPINES)
    cable = f"leaf{2 * job}-{root_of(pairs_on(fabric, n_jobs, terms).trees[job])}"
    terms = replace(terms, failures=failures_of(fabric, f"{cable}@0.5{until}"))
    return cable, pairs_on(fabric, n_jobs, terms)


def slots_of(grants: Grants) -> list[int | None]:
    return [tree.slots if tree else None for tree in grants.trees]


def test_a_stage_is_each_set_of_cables_between_switches_that_are_down_together() -> None:
    fabric = parse_fabric(TWO_SPINES)
    failed = failures_of(
        fabric, "leaf0-spine0@0.5,2", "leaf1-spine1@1,2", "h0-leaf0@1.5,1.7", "leaf0-spine0@3,4"
    )
    made = [(stage.due_ns, {end.node for end in stage.ports}) for stage in stages(fabric, failed)]
    assert made == [(500_000_000, {"leaf0"}), (1_000_000_000, {"leaf0", "leaf1"})]


def test_cables_that_fail_at_once_are_one_stage() -> None:
    fabric = parse_fabric(TWO_SPINES)
    (stage,) = stages(fabric, failures_of(fabric, *(f"leaf{i}-spine0@0.5" for i in range(4))))
    assert stage.down == {link for link in fabric.inner_links if "spine0" in (link.a, link.b)}


@pytest.mark.parametrize("until", ["", ",1.5"])
@pytest.mark.parametrize("job", [0, 1])
def test_where_a_spine_has_room_for_one_tree_the_job_whose_cable_fails_is_refused_with_its_reason(
    job: int, until: str
) -> None:
    """Eight slots are the least that a tree can have, and a spine has 15: so each tree is on its own."""
    cable, grants = failing_root(2, Terms(switch_slots=15), job, until)
    kept = grants.trees[1 - job]
    reason = f"at 0.5 s, with {cable} down, {root_of(kept)} has 7 of 15 slots left, 8 are needed"
    assert grants.refused == {(2 * job, 2 * job + 1): reason}
    assert grants.trees[job] is None


@pytest.mark.parametrize(
    ("switch_slots", "slots", "expected"),
    [
        (17, None, [8, 8]),
        (100, 100, [50, 50]),
        (100, 64, [32, 32]),
        (128, 64, [64, 64]),  # as without failures
        (1024, None, [128, 128]),
    ],
)
def test_trees_have_fewer_slots_if_both_fit_one_spine_then(
    switch_slots: int, slots: int | None, expected: list[int]
) -> None:
    _, grants = failing_root(2, Terms(switch_slots, slots))
    assert grants.refused == {}
    assert slots_of(grants) == expected


def test_a_failure_of_a_cable_that_no_tree_takes_changes_nothing() -> None:
    fabric = parse_fabric(TWO_SPINES)
    terms = Terms(switch_slots=15)
    before = pairs_on(fabric, 2, terms)
    other = {"spine0": "spine1", "spine1": "spine0"}[root_of(before.trees[0])]
    failed = failures_of(fabric, f"leaf0-{other}@0.5", "h0-leaf0@1,2")
    assert pairs_on(fabric, 2, replace(terms, failures=failed)) == before


def test_hosts_that_no_cables_join_for_a_while_keep_their_tree() -> None:
    """They could not send to each other either."""
    fabric = parse_fabric(TWO_SPINES)
    failed = failures_of(fabric, "leaf0-spine0@0.5,1", "leaf0-spine1@0.5,1")
    grants = pairs_on(fabric, 2, Terms(switch_slots=15, failures=failed))
    assert grants.refused == {}
    assert None not in grants.trees


def test_a_reason_names_no_more_than_three_cables() -> None:
    fabric = parse_fabric("leaf-spine:leaves=4,spines=4,hosts=1")
    texts = [f"leaf{leaf}-spine{spine}@0.5,1" for spine in (0, 1, 2) for leaf in range(4)]
    refused = pairs_on(fabric, 2, Terms(switch_slots=15, failures=failures_of(fabric, *texts))).refused
    (reason,) = refused.values()
    assert reason == (
        "at 0.5 s, with leaf0-spine0, leaf1-spine0, leaf2-spine0 and 9 more down, "
        "spine3 has 7 of 15 slots left, 8 are needed"
    )


class Case(NamedTuple):
    fabric: Fabric
    n_jobs: int
    terms: Terms


@st.composite
def cases(draw: st.DrawFn) -> Case:
    spec = draw(
        st.sampled_from(
            [
                "leaf-spine:leaves=2,spines=2,hosts=4",
                "leaf-spine:leaves=4,spines=3,hosts=2",
                "fat-tree:k=4",
                "bigraph:n=4,m=2",
            ]
        )
    )
    fabric = parse_fabric(spec)
    times = st.integers(1, 4)
    failed = []
    for cable in draw(st.lists(st.sampled_from(fabric.inner_links), min_size=1, max_size=4)):
        down_s, for_s = draw(times), draw(st.none() | times)
        up_ns = None if for_s is None else (down_s + for_s) * 10**9
        failed.append(Failure(Egress(cable.a, cable.a_port), down_s * 10**9, up_ns))
    terms = Terms(draw(st.integers(8, 40)), draw(st.none() | st.integers(8, 40)), failures=tuple(failed))
    return Case(fabric, draw(st.integers(1, len(fabric.hosts) // 2)), terms)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(cases(), st.data())
def test_whatever_the_controller_hears_of_a_plans_failures_there_is_a_tree_for_every_job_that_has_one(
    case: Case, data: st.DataObject
) -> None:
    """In any order, and as often as it likes; a job without a tree has a reason."""
    fabric, n_jobs, terms = case
    plan = allreduce_plan(fabric.spec, "ring", nbytes=NBYTES)
    hosts = tuple(data.draw(st.permutations(fabric.hosts)))
    schedule = together([PAIR] * n_jobs)
    grants = granted(fabric, hosts, schedule, terms, seed=0)
    assert {(tree.givers in grants.refused) for tree in grants.trees if tree} <= {False}
    assert len(grants.refused) == grants.trees.count(None)
    trees = tuple(tree for tree in grants.trees if tree)
    plan = replace(plan, placement=hosts, schedule=schedule, trees=trees, switch_slots=terms.switch_slots)
    failing = [stage.down for stage in stages(fabric, terms.failures)]
    now = trees
    for down in data.draw(st.lists(st.sampled_from([frozenset(), *failing]), max_size=6)):
        now = led_around(plan, now, down)
        used = Counter(node.switch for tree in now for node in tree.nodes for _ in range(tree.slots))
        assert max(used.values(), default=0) <= terms.switch_slots
        for tree in now:
            ends = [hosts[rank] for rank in tree.members]
            assert bool(tree.nodes) == are_joined(fabric, ends, down)
            assert down.isdisjoint(cables_of(fabric, tree))


def are_joined(fabric: Fabric, hosts: Sequence[str], down: Collection[Link]) -> bool:
    """Whether a walk over cables that are not down meets all hosts."""
    left = [{link.a, link.b} for link in fabric.links if link not in down]
    met = {hosts[0]}
    while near := {node for pair in left if not pair.isdisjoint(met) for node in pair} - met:
        met |= near
    return met.issuperset(hosts)


def cables_of(fabric: Fabric, tree: Tree) -> set[Link]:
    return {fabric.cables[Egress(node.switch, child.port)] for node in tree.nodes for child in node.children}


@pytest.mark.broad(6)
@pytest.mark.parametrize("switch_slots", [8, 15, 16, 24])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_no_more_jobs_are_refused_than_must_be_whichever_two_cables_fail(
    switch_slots: int, n_jobs: int
) -> None:
    """Of all sets of jobs the largest whose trees can be moved at every stage has trees."""
    fabric = parse_fabric("leaf-spine:leaves=7,spines=2,hosts=1")
    terms = Terms(switch_slots, LEAST_SLOTS)
    homes = {
        job: int(root_of(tree)[-1]) for job, tree in enumerate(pairs_on(fabric, n_jobs, terms).trees) if tree
    }
    for pair in combinations([(leaf, spine) for leaf in range(2 * n_jobs) for spine in (0, 1)], 2):
        texts = [f"leaf{leaf}-spine{spine}@{t},9" for t, (leaf, spine) in enumerate(pair, 1)]
        made = pairs_on(fabric, n_jobs, replace(terms, failures=failures_of(fabric, *texts)))
        most = max(
            len(jobs)
            for n in range(len(homes) + 1)
            for jobs in combinations(homes, n)
            if all(
                fits({job: homes[job] for job in jobs}, down, switch_slots // LEAST_SLOTS)
                for down in ({pair[0]}, set(pair))
            )
        )
        assert n_jobs - len(made.refused) == most, (texts, made.refused)


def fits(homes: Mapping[int, int], down: Collection[tuple[int, int]], most: int) -> bool:
    """Whether jobs j, on leaves 2 j and 2 j + 1 and with these spines, can have spines, `most` on each.

    One with both cables stays.  Where no spine joins the two leaves, the way is by both spines and a spare
    leaf, if there is any; hosts that nothing joins need none.
    """
    ways: list[list[tuple[int, ...]]] = []
    for job, home in homes.items():
        left = [{s for s in (0, 1) if (leaf, s) not in down} for leaf in (2 * job, 2 * job + 1)]
        if both := left[0] & left[1]:
            ways.append([(s,) for s in ({home} if home in both else both)])
        elif all(left):
            ways.append([(0, 1)])
    used = (Counter(spine for way in chosen for spine in way) for chosen in product(*ways))
    return any(max(each.values(), default=0) <= most for each in used)
