"""Delays of sends: latency in the model and in closed forms, bounded, and part of a plan's file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.closedform import closed_time, measured_costs, nominal_costs
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import BadPlan, Plan, load, save, to_json
from gradwire.planning.plancheck import check_schedule
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.schedules.hints import NO_HINTS
from gradwire.traces.schedules.names import PACES, Pace
from gradwire.traces.schedules.schedule import MAX_SEND_DELAY_NS, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import PAYLOAD_EFFICIENCY, allreduce_plan, schedule_plan

MS = 1_000_000
BIGRAPH = "bigraph:n=8,m=2,rate=50M"
COSTS = HostCosts(
    wire_s=30e-6, start_s=1e-3, message_s=1e-4, n_cpus=2, segment_nbytes=12_500, buffer_nbytes=1 << 17
)


def delayed(plan: Plan, delay_ns: int) -> Schedule:
    return replace(plan.schedule, send_delay_ns=delay_ns)


def bench(algorithm: str, placement: str, delay_ns: int) -> Plan:
    cell = Cell(parse_fabric(BIGRAPH), algorithm, placement, "direct")
    return plan_of(cell, Experiment(made_allreduce(16, 8192), "test", send_delay_ns=delay_ns))


def test_small_allreduces_with_a_delay_take_their_closed_forms() -> None:
    """p = 16, S = 8 KiB, alpha = 50 ms; trees of depth 2 (docs/collectives.md)."""
    alpha, beta = 0.05, 8 / (50e6 * PAYLOAD_EFFICIENCY)
    bytes_s = 2 * 15 / 16 * 8192 * beta
    closed_s = {
        "ring": 2 * 15 * alpha + bytes_s,
        "halving-doubling": 2 * 4 * alpha + bytes_s,
        "multitree": 2 * 2 * alpha + bytes_s,
    }
    placements = {"ring": "alternating", "halving-doubling": "hdrm", "multitree": "linear"}
    time_s = {}
    for name, expected_s in closed_s.items():
        plan = bench(name, placements[name], 50 * MS)
        time_s[name] = plan.prediction.fluid_s
        assert plan.prediction.fluid_s == pytest.approx(expected_s, rel=0.01)
        assert closed_time(plan, nominal_costs(plan)).time_s == pytest.approx(expected_s)
    assert time_s["ring"] / time_s["halving-doubling"] == pytest.approx(3.73, rel=0.01)
    assert time_s["ring"] / time_s["multitree"] == pytest.approx(7.4, rel=0.01)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("p", [2, 6, 8])
@pytest.mark.parametrize(
    "name", ["ring", "halving-doubling", "recursive-doubling", "all-pairs", "tree:chain", "ps:central"]
)
def test_at_any_pace_latency_counts_as_often_as_closed_forms_say(name: str, p: int, pace: Pace) -> None:
    experiment = Experiment(made_allreduce(p, 12 * p), "test", pace=pace, send_delay_ns=50 * MS)
    plan = plan_of(Cell(parse_fabric("star:hosts=9,rate=50M"), name, "linear", "ecmp"), experiment)
    costs = nominal_costs(plan)
    closed_s = algorithm(name).time_s(p, 12 * p, costs.alpha_s, costs.beta_s_per_byte, NO_HINTS)
    assert closed_s is not None and closed_s >= 0.05
    assert plan.prediction.fluid_s == pytest.approx(closed_s, rel=0.01)


def test_a_server_under_the_one_switch_costs_two_messages_and_under_each_of_several_four() -> None:
    for spec, n_ranks, messages in (("star:hosts=7", 6, 2), ("leaf-spine:leaves=2,spines=2,hosts=4", 6, 4)):
        cell = Cell(parse_fabric(spec), "ps:hierarchical", "linear", "ecmp")
        plan = plan_of(cell, Experiment(made_allreduce(n_ranks, 24), "test", send_delay_ns=50 * MS))
        assert closed_time(plan, nominal_costs(plan)).time_s == pytest.approx(messages * 0.05, rel=0.01)
        assert plan.prediction.fluid_s == pytest.approx(messages * 0.05, rel=0.01)


def test_a_delay_is_part_of_alpha_which_says_so() -> None:
    plan = bench("ring", "linear", 50 * MS)
    costs = measured_costs(plan, Calibration(1e-3, 2e-3, 0.9))
    assert costs.alpha_s == pytest.approx(0.052)
    assert costs.source.endswith("; 50ms more, by which each send is delayed")
    assert nominal_costs(plan).alpha_s == 0.05
    assert nominal_costs(bench("ring", "linear", 0)).alpha_s == 0


@st.composite
def chains(draw: st.DrawFn) -> Schedule:
    """Messages of which each waits for the one before."""
    ranks = [draw(st.integers(0, 3))]
    for _ in range(draw(st.integers(1, 12))):
        ranks.append(draw(st.integers(0, 3).filter(lambda rank: rank != ranks[-1])))
    sizes = [draw(st.integers(1, 40_000)) for _ in ranks[1:]]
    sends = [
        Send(i, src, dst, 0, size, reduce=False, needs=(i - 1,) if i else ())
        for i, (src, dst, size) in enumerate(zip(ranks, ranks[1:], sizes, strict=False))
    ]
    return Schedule.of(4, [Op("message", s.nbytes, tag=i, root=s.src) for i, s in enumerate(sends)], sends)


@given(chain=chains(), delay_ns=st.integers(0, MAX_SEND_DELAY_NS))
def test_on_a_chain_a_delay_adds_itself_once_for_each_send(chain: Schedule, delay_ns: int) -> None:
    plan = schedule_plan("star:hosts=4,rate=50M", chain)
    for hosts in (None, COSTS):
        without_s, with_s = (
            simulate(plan.fabric, plan.flows, delayed(plan, each), hosts=hosts).time_s
            for each in (0, delay_ns)
        )
        least_s = without_s + len(chain.sends) * delay_ns / 1e9
        assert with_s == pytest.approx(least_s, abs=0.002 * len(chain.sends) if hosts else 1e-9)


@pytest.mark.parametrize("p", [2, 5, 9])
def test_delays_of_one_rank_run_side_by_side(p: int) -> None:
    plan = allreduce_plan("star:hosts=9,rate=50M", "all-pairs", nbytes=36 * p, n_ranks=p)
    without_s, with_s = (
        simulate(plan.fabric, plan.flows, delayed(plan, each)).time_s for each in (0, 80 * MS)
    )
    assert with_s - without_s == pytest.approx(2 * 0.08, abs=1e-6)


def test_what_switches_add_up_begins_after_the_delay() -> None:
    plan = allreduce_plan("star:hosts=4,rate=50M", "ina", nbytes=40_000)
    without_s, with_s = (
        simulate(plan.fabric, plan.flows, delayed(plan, each), trees=plan.trees).time_s
        for each in (0, 80 * MS)
    )
    assert with_s - without_s == pytest.approx(0.08)


@pytest.mark.parametrize("delay_ns", [-1, MAX_SEND_DELAY_NS + 1])
def test_a_delay_out_of_range_is_refused(delay_ns: int) -> None:
    plan = allreduce_plan("star:hosts=2", nbytes=400)
    with pytest.raises(ValueError, match=f"send_delay_ns of {delay_ns} is out of range: 0 to 10000000000"):
        check_schedule(delayed(plan, delay_ns))


def test_a_plan_keeps_its_delay_in_its_file_and_one_without_the_field_has_none(tmp_path: Path) -> None:
    plan = bench("ring", "linear", 50 * MS)
    save(plan, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json") == plan
    value = json.loads(json.dumps(to_json(plan)))
    del value["schedule"]["send_delay_ns"]
    (tmp_path / "old.json").write_text(json.dumps(value))
    assert load(tmp_path / "old.json").schedule == replace(plan.schedule, send_delay_ns=0)
    value["schedule"]["send_delay_ns"] = 20_000 * MS
    (tmp_path / "long.json").write_text(json.dumps(value))
    with pytest.raises(BadPlan, match="send_delay_ns of 20000000000 is out of range"):
        load(tmp_path / "long.json")
