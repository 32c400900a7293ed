"""The reason follows from the loads: transit on a BiGraph, narrow fabrics, routes that collide."""

import re
from itertools import permutations
from pathlib import Path

import pytest

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.explanation import transit_flows, why
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule, together
from gradwire.traces.schedules.sends import Send
from tests.made_plans import all_to_all, allreduce_plan, messages, schedule_plan, unchecked_plan

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def reason(plan: Plan) -> str:
    return why(plan, plan_load(plan))


def alltoall_plan(spec: str, n_ranks: int, routes: str) -> Plan:
    pairs = [(src, dst, 1000) for src, dst in permutations(range(n_ranks), 2)]
    return schedule_plan(spec, messages(n_ranks, pairs), routes=routes)


def test_a_bigraphs_alltoall_is_slow_because_same_side_pairs_cross_twice() -> None:
    text = reason(alltoall_plan("bigraph:n=8,m=4", 32, "direct"))
    assert text == (
        "upper0→lower0 carries 40 flows where a host link carries 31: 24 of them (60%) are between hosts of"
        " the same half, which cross the BiGraph twice; no routes do better on this fabric"
    )


def test_transit_is_counted_on_both_crossings_of_a_same_side_pair() -> None:
    """n = 8, m = 4: a link has 4 * 4 direct flows, and (3 * 16) / 4 = 12 of each half."""
    plan = alltoall_plan("bigraph:n=8,m=4", 32, "direct")
    (one,) = plan_load(plan).parts
    assert {len(transit_flows(plan, link)) for link in one.collisions} == {24}


def test_routes_that_collide_are_distinguished_from_a_fabric_that_is_too_narrow() -> None:
    narrow = reason(alltoall_plan("leaf-spine:leaves=2,spines=1,hosts=2", 4, "ecmp"))
    assert (
        narrow
        == "leaf0→spine0 carries 4 flows where a host link carries 3: no routes do better on this fabric"
    )
    texts = [
        reason(allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", seed=seed)) for seed in range(10)
    ]
    collided = [text for text in texts if text]
    assert len(collided) >= 8
    assert all(
        "any routes need at least 1.00 × the host links' time, these 2.00 ×" in text for text in collided
    )


def test_a_slow_uplink_is_described_by_its_time_and_not_by_its_flows() -> None:
    plan = schedule_plan("fat-tree:k=4,levels=2,uplink_rate=10M", messages(8, [(0, 7, 1000)]))
    assert "is busy 10.00 × as long as any host link, with 1 flow at once" in reason(plan)


def test_what_no_link_between_switches_holds_up_needs_no_reason() -> None:
    assert reason(allreduce_plan("bigraph:n=8,m=2", "halving-doubling", "hdrm", "direct")) == ""


def test_two_jobs_on_one_cable_are_named_as_the_cause() -> None:
    jobs = together([expand(made_allreduce(2, 1 << 20), "ring")] * 2)
    spec = "leaf-spine:leaves=2,spines=1,hosts=2,rate=50M"
    assert reason(schedule_plan(spec, jobs, placement="random", seed=1)) == (
        "leaf0→spine0 carries 2 flows where a host link carries 1: shared by 2 jobs;"
        " no routes do better on this fabric"
    )


def test_a_bigraph_from_a_file_has_the_same_reason() -> None:
    pairs = [(src, dst, 1000) for src, dst in permutations(range(8), 2)]
    ours, known = (
        schedule_plan(spec, messages(8, pairs), routes="direct")
        for spec in (str(EXAMPLES / "bigraph.yaml"), "bigraph:n=4,m=2")
    )
    assert "which cross the BiGraph twice" in reason(known)
    assert reason(ours) == reason(known)


@pytest.mark.parametrize(("nbytes", "is_named"), [(10_500, False), (10_800, True)])
def test_a_link_that_adds_a_hundredth_of_the_time_or_less_needs_no_reason(
    nbytes: int, is_named: bool
) -> None:
    """A broadcast of n bytes adds the time of n bytes to phases that take that of 2 n + 1.0424 MB: 1.024 MB
    added up, 1,024 bytes in a frame of 1,090, take as long as twice 0.5212 MB over TCP.
    """
    everybody = (0, 1, 2, 3)
    schedule = Schedule.of(
        4,
        ops=(Op("broadcast", nbytes), Op("allreduce", 512_000), Op("allreduce", 512_000)),
        sends=(Send(0, 0, 2, 0, nbytes, reduce=False), Send(0, 1, 3, 0, nbytes, reduce=False)),
        gates=tuple(Gate(op, rank, (op - 1,)) for op in (1, 2) for rank in everybody),
        aggregations=(Aggregation(1, everybody, everybody), Aggregation(2, everybody, everybody)),
    )
    sentence = reason(unchecked_plan("leaf-spine:leaves=2,spines=1,hosts=2", schedule))
    assert sentence == (
        "leaf0→spine0 carries 2 flows where a host link carries 1: no routes do better on this fabric"
        if is_named
        else ""
    )


@pytest.mark.parametrize("algorithm", ["halving-doubling", "ring", "all to all"])
@pytest.mark.parametrize("seed", range(6))
def test_the_reason_is_about_the_worst_link_and_no_other(algorithm: str, seed: int) -> None:
    spec = "leaf-spine:leaves=4,spines=2,hosts=2,rate=50M"
    if algorithm == "all to all":
        plan = schedule_plan(spec, all_to_all(8, 100_000), placement="random", seed=seed)
    else:
        plan = allreduce_plan(spec, algorithm, "random", seed=seed)
    load = plan_load(plan)
    text = why(plan, load)
    assert bool(text) == (load.worst.worst_share > 1)
    if text:
        assert set(re.findall(r"\w+→\w+", text)) == {link_name(plan.fabric, load.worst.egress)}
