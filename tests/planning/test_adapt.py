"""Adaptive routing moves what must be moved, no more, and leaves a balanced fabric alone."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.adaptive import bijection
from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.model.fairshare import max_min_rates
from gradwire.planning.plan import Plan
from gradwire.planning.routing.adapt import demands, rebalanced
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan

RATE = 100e6
SPEC = "leaf-spine:leaves=2,spines=2,hosts=3,rate=100M"


def plan_of(
    *sends: tuple[int, int],
    spec: str = SPEC,
    over: Mapping[tuple[int, int], str] = MappingProxyType({}),
    nbytes: int = MIB,
) -> Plan:
    """Ranks on hosts in order; flows between leaves go over spine0, or the spine that `over` names."""
    n_ranks = max(max(pair) for pair in sends) + 1
    plan = schedule_plan(spec, messages(n_ranks, [(*pair, nbytes) for pair in sends]))
    flows = []
    for flow in plan.flows:
        path = flow.path
        if len(path) == 4:
            spine = over.get((flow.src, flow.dst), "spine0")
            up, down = (
                next(end for end in plan.fabric.peers if link_name(plan.fabric, end) == name)
                for name in (f"{path[1].node}→{spine}", f"{spine}→{path[3].node}")
            )
            path = (path[0], up, down, path[3])
        flows.append(replace(flow, path=path))
    return replace(plan, flows=tuple(flows))


def number(plan: Plan, src: int, dst: int) -> int:
    return next(i for i, flow in enumerate(plan.flows) if (flow.src, flow.dst) == (src, dst))


def measured(plan: Plan, active: Mapping[tuple[int, int], float]) -> dict[int, float]:
    return {number(plan, *pair): bps for pair, bps in active.items()}


def fair(plan: Plan, active: list[int]) -> dict[int, float]:
    """What ideal TCP gets."""
    index = {egress: i for i, egress in enumerate(plan.fabric.rates)}
    paths = {flow: tuple(index[egress] for egress in plan.flows[flow].path) for flow in active}
    return max_min_rates(paths, [float(rate) for rate in plan.fabric.rates.values()])


def moved(old: Plan, new: Plan) -> list[tuple[int, int]]:
    return [(b.src, b.dst) for a, b in zip(old.flows, new.flows, strict=True) if a.path != b.path]


def test_demands_are_those_of_hederas_figure_6() -> None:
    # Hosts A to D: A sends to B, C and D, B twice to A and once to C, C to A and D, D twice to B.  A pair of
    # ranks has one flow here, so a second one is another flow over the same two host links.
    plan = plan_of(
        (0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (2, 0), (2, 3), (3, 1), spec="star:hosts=4,rate=100M"
    )
    twice = replace(plan, flows=(*plan.flows, plan.flows[number(plan, 1, 0)], plan.flows[number(plan, 3, 1)]))
    pairs = [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (2, 0), (2, 3), (3, 1)]
    active = [*(number(plan, *pair) for pair in pairs), len(plan.flows), len(plan.flows) + 1]
    shares = {flow: bps / RATE for flow, bps in demands(twice, active).items()}
    assert shares.pop(number(plan, 2, 3)) == pytest.approx(2 / 3)
    assert list(shares.values()) == pytest.approx([1 / 3] * 9)


def test_two_elephants_on_one_uplink_are_separated_in_one_step() -> None:
    plan = plan_of((0, 3), (1, 4))
    active = [number(plan, 0, 3), number(plan, 1, 4)]
    assert list(fair(plan, active).values()) == [RATE / 2, RATE / 2]
    made = rebalanced(plan, fair(plan, active))
    assert len(moved(plan, made)) == 1
    assert list(fair(made, active).values()) == [RATE, RATE]


def test_a_balanced_state_is_left_alone() -> None:
    plan = plan_of((0, 3), (1, 4))
    active = [number(plan, 0, 3), number(plan, 1, 4)]
    made = rebalanced(plan, fair(plan, active))
    assert rebalanced(made, fair(made, active)) is made


def test_mice_stay() -> None:
    plan = plan_of((0, 3), (1, 4))
    assert rebalanced(plan, measured(plan, {(0, 3): 0.09 * RATE, (1, 4): 0.09 * RATE})) is plan


def test_what_the_hosts_links_limit_is_not_moved() -> None:
    # Two senders to one host: each can have half of its link, so one uplink carries both.
    plan = plan_of((0, 3), (1, 3))
    assert rebalanced(plan, measured(plan, {(0, 3): RATE / 2, (1, 3): RATE / 2})) is plan


def test_only_as_many_flows_are_moved_as_must_be() -> None:
    # Three elephants on one uplink, two uplinks: one of them moves, for then no other move would help.
    plan = plan_of((0, 3), (1, 4), (2, 5))
    made = rebalanced(plan, measured(plan, dict.fromkeys([(0, 3), (1, 4), (2, 5)], RATE / 3)))
    assert len(moved(plan, made)) == 1


def test_a_cable_that_is_down_is_not_moved_to() -> None:
    plan = plan_of((0, 3), (1, 4))
    down = [link for link in plan.fabric.links if {link.a, link.b} == {"leaf1", "spine1"}]
    rates = measured(plan, {(0, 3): RATE / 2, (1, 4): RATE / 2})
    assert rebalanced(plan, rates, down=down) is plan


def test_traffic_that_no_flow_explains_counts_as_load() -> None:
    plan = plan_of((0, 3))
    shared = plan.flows[number(plan, 0, 3)].path[1]
    rates = measured(plan, {(0, 3): RATE / 2})
    made = rebalanced(plan, rates, link_bps={shared: RATE})
    assert moved(plan, made) == [(0, 3)]
    free = next(end for end in plan.fabric.rates if end.node == "leaf0" and end != shared and end.port > 3)
    assert rebalanced(plan, rates, link_bps={shared: RATE, free: RATE}) is plan


@pytest.mark.parametrize("spec", ["fat-tree:k=4,rate=100M", "leaf-spine:leaves=4,spines=4,hosts=4,rate=100M"])
def test_of_every_bijection_each_flow_ends_with_the_rate_of_its_host(spec: str) -> None:
    """These fabrics are rearrangeably non-blocking (Benes, 1965): no two flows of one need share a link."""
    for seed in range(20):
        pairs = list(enumerate(bijection(16, seed)))
        plan = schedule_plan(spec, messages(16, [(*pair, 24_000_000) for pair in pairs]), seed=seed)
        active = [number(plan, *pair) for pair in pairs]
        for _ in range(3):
            plan = rebalanced(plan, fair(plan, active))
        assert list(fair(plan, active).values()) == [RATE] * 16, seed


def test_where_all_other_paths_are_full_one_flow_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradwire.planning.routing.adapt.put_by_colours", None)  # which nothing needs here
    # 1→4 and 2→5 meet between spine1 and leaf2.  On the way over spine0 0→2 is in the way of the first, 3→0
    # in that of the second: one of these two has to move too.
    spines = {(0, 2): "spine0", (3, 0): "spine0", (1, 4): "spine1", (2, 5): "spine1"}
    plan = plan_of(*spines, spec="leaf-spine:leaves=3,spines=2,hosts=2,rate=100M", over=spines)
    active = [number(plan, *pair) for pair in spines]
    assert list(fair(plan, active).values()) == [RATE, RATE, RATE / 2, RATE / 2]
    made = rebalanced(plan, fair(plan, active))
    assert list(fair(made, active).values()) == [RATE] * 4
    assert len(moved(plan, made)) == 2


@cache
def random_plan(seed: int) -> Plan:
    return allreduce_plan("fat-tree:k=4", "halving-doubling", "random", seed=seed, nbytes=MIB)


@given(seed=st.integers(0, 50), step=st.integers(0, 3))
def test_it_comes_to_rest_and_no_flow_gets_less_than_the_slowest_had(seed: int, step: int) -> None:
    plan = random_plan(seed)
    pairs = {(send.src, send.dst) for send in plan.schedule.sends if send.step == step}
    active = [number(plan, *pair) for pair in sorted(pairs)]
    slowest = [min(fair(plan, active).values())]
    for _ in range(8):
        made = rebalanced(plan, fair(plan, active))
        assert len(moved(plan, made)) <= len(active)
        slowest.append(min(fair(made, active).values()))
        if made is plan:
            break
        plan = made
    assert rebalanced(plan, fair(plan, active)) is plan
    assert slowest == sorted(slowest)
    assert plan.flows[0].path[0] == Egress(plan.placement[plan.flows[0].src], 0)
