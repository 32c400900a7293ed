"""Plans beside the closed forms of their algorithms, and why some have none."""

from dataclasses import replace

import numpy as np
import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.closedform import Costs, closed_time, measured_costs, nominal_costs
from gradwire.planning.model.loads import plan_load
from gradwire.planning.model.shifts import Shift
from gradwire.planning.model.simulation import simulate
from gradwire.results.planfigures import nominal_figures
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.algorithms.doubletree import double_binary_tree
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.algorithms.multitree import grow
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import EARLY, STEP, Pace
from gradwire.traces.schedules.pacing import paced
from gradwire.traces.schedules.schedule import Gate, Op, together
from gradwire.traces.schedules.sends import Sends
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan

COSTS = Costs(0.003, 2e-7, "made up")
ALPHA, BETA = COSTS.alpha_s, COSTS.beta_s_per_byte


def test_a_ring_has_the_time_of_patarasuk_and_yuan() -> None:
    closed = closed_time(allreduce_plan("star:hosts=8", nbytes=MIB), COSTS)
    assert closed.time_s == pytest.approx(14 * ALPHA + 14 / 8 * MIB * BETA)
    assert closed.text == "2(p−1)α + 2(p−1)/p·Sβ (Patarasuk, Yuan 2009)"
    assert closed.missing is None


def test_operations_that_wait_for_each_other_add_up() -> None:
    schedule = expand(made_allreduce(4, MIB, count=3), "all-pairs")
    closed = closed_time(schedule_plan("star:hosts=4", schedule, "all-pairs"), COSTS)
    assert closed.time_s == pytest.approx(3 * (2 * ALPHA + 2 * 3 / 4 * MIB * BETA))
    assert closed.text is not None
    assert closed.text.startswith("the sum over 3 operations of 2α")


def test_the_slowest_of_several_jobs_counts() -> None:
    one, two = (expand(made_allreduce(n, n * 40_000), "ring") for n in (2, 4))
    closed = closed_time(schedule_plan("star:hosts=6", together([one, two])), COSTS)
    assert closed.time_s == pytest.approx(6 * (ALPHA + 40_000 * BETA))


def test_operations_that_overlap_have_none() -> None:
    schedule = expand(made_allreduce(4, MIB, count=2), "ring")
    closed = closed_time(schedule_plan("star:hosts=4", replace(schedule, gates=schedule.gates[:1])), COSTS)
    assert (closed.text, closed.time_s) == (None, None)
    assert closed.missing == "not every operation waits for the one before"


def test_what_computes_has_none() -> None:
    schedule = expand(made_allreduce(2, MIB), "ring")
    op = len(schedule.ops)
    computing = replace(schedule, ops=(*schedule.ops, Op("compute", 0)), gates=(Gate(op, 0, (0,), 5),))
    assert closed_time(schedule_plan("star:hosts=2", computing), COSTS).missing == "ranks compute"
    late = schedule_plan("star:hosts=2", messages(2, [(0, 1, 10**6)], [Gate(0, 0, (), 5_000_000)]))
    assert closed_time(late, COSTS).missing == "ranks begin apart"


def test_what_computes_for_no_time_does_not_hide_the_order() -> None:
    two = expand(made_allreduce(2, MIB, count=2), "ring")
    made = replace(
        two,
        ops=(two.ops[0], Op("compute", 0, root=0), Op("compute", 0, root=1), two.ops[1]),
        sends=replace(two.sends, op=two.sends.op * np.int32(3)),
        gates=tuple(
            gate for rank in (0, 1) for gate in (Gate(1 + rank, rank, (0,)), Gate(3, rank, (1 + rank,)))
        ),
    )
    closed = closed_time(schedule_plan("star:hosts=2", made), COSTS)
    assert closed.time_s == pytest.approx(4 * (ALPHA + MIB / 2 * BETA))


@pytest.mark.parametrize(
    ("algorithm", "what"),
    [("tree:flat", "allreduce by tree:flat"), ("as-captured", "allreduce as it was captured")],
)
def test_what_has_no_formula_is_named(algorithm: str, what: str) -> None:
    closed = closed_time(allreduce_plan("star:hosts=4", algorithm), COSTS)
    assert closed.missing == f"there is no formula for {what}"


def test_messages_have_no_formula() -> None:
    closed = closed_time(schedule_plan("star:hosts=2", messages(2, [(0, 1, 4)])), COSTS)
    assert closed.missing == "there is no formula for messages that belong to no collective"


@pytest.mark.parametrize(
    ("spec", "rate_bps"),
    [
        ("star:hosts=4,rate=50M", 50e6),
        ("leaf-spine:leaves=2,spines=1,hosts=2,rate=50M,uplink_rate=10M", 50e6),
        ("star:hosts=4,rate=50M,rate@h2=20M", 20e6),
        ("torus:x=2,y=2,rate=50M", 50e6),  # its hosts' cables are four times as fast
    ],
)
def test_a_byte_costs_what_the_slowest_host_or_node_needs_for_it(spec: str, rate_bps: float) -> None:
    plan = allreduce_plan(spec)
    nominal = nominal_costs(plan)
    assert nominal.alpha_s == 0
    assert nominal.beta_s_per_byte == pytest.approx(8 / (rate_bps * PAYLOAD_EFFICIENCY))
    measured = measured_costs(plan, Calibration(0.1, 0.2, 0.8, shift=Shift(0.003, 0.5, 4)))
    assert (measured.alpha_s, measured.source) == (0.003, "a shift of 4 ranks, all at once")
    assert measured.beta_s_per_byte == pytest.approx(8 / (rate_bps * 0.5))
    old = measured_costs(plan, Calibration(0.1, 0.2, 0.8))
    assert (old.alpha_s, old.source) == (0.2, "two ranks alone")
    assert old.beta_s_per_byte == pytest.approx(8 / (rate_bps * 0.8))


def test_on_a_fabric_that_no_flows_share_the_fluid_time_is_the_closed_form() -> None:
    for algorithm in ("ring", "halving-doubling", "all-pairs", "recursive-doubling"):
        plan = allreduce_plan("star:hosts=8,rate=50M", algorithm, nbytes=8 * MIB)
        closed = closed_time(plan, nominal_costs(plan))
        assert plan.prediction.fluid_s == pytest.approx(closed.time_s, rel=1e-3)


@pytest.mark.parametrize("delay_ns", [0, 50_000_000])
@pytest.mark.parametrize(
    ("algorithm", "p", "pace", "is_bound"),
    [
        ("multitree", 8, None, False),
        ("multitree", 6, None, True),
        ("multitree", 17, None, True),
        ("double-binary-tree", 8, STEP, True),
        ("double-binary-tree", 12, STEP, True),
    ],
)
def test_a_form_that_is_only_a_bound_is_said_to_be_one_and_no_time_is_held_against_it(
    algorithm: str, p: int, pace: Pace | None, is_bound: bool, delay_ns: int
) -> None:
    """Under one switch p-1 steps are the fewest; MultiTree needs more where p is no power of two."""
    cell = Cell(parse_fabric(f"star:hosts={p}"), algorithm, "linear", "ecmp")
    job = Experiment(made_allreduce(p, p << 16), "test", pace=pace, send_delay_ns=delay_ns)
    plan = plan_of(cell, job)
    figures = nominal_figures(plan, plan_load(plan))
    assert figures["closed_is_bound"] == is_bound
    assert (figures["closed_form"] or "").startswith("at most ") == is_bound
    if is_bound:
        assert figures["ratio_closed"] is None
        assert plan.prediction.fluid_s < (figures["closed_s"] or 0.0)
    else:
        assert figures["ratio_closed"] == pytest.approx(1.0)


def test_early_a_double_binary_tree_may_take_longer_than_by_step_and_has_no_formula() -> None:
    """12 ranks, 64 MiB in 130 pieces, no latency: pieces that share a link come late to the next rank."""
    cell = Cell(parse_fabric("star:hosts=12"), "double-binary-tree", "linear", "ecmp")
    early, step = (plan_of(cell, Experiment(made_allreduce(12, 64 * MIB), "x", pace=p)) for p in (None, STEP))
    closed = closed_time(step, nominal_costs(step))
    assert step.prediction.fluid_s < (closed.time_s or 0.0) < early.prediction.fluid_s
    missing = closed_time(early, nominal_costs(early)).missing
    assert missing == "there is no formula for allreduce by double-binary-tree at the pace early"


@pytest.mark.parametrize("pace", [EARLY, STEP])
@pytest.mark.parametrize("delay_ms", [0, 5, 50])
def test_a_double_binary_tree_has_nearly_the_best_number_of_pieces_for_the_delay(
    pace: Pace, delay_ms: int
) -> None:
    """Of a power of two pieces; without the delay it would take up to 3.3 times as long."""
    cell = Cell(parse_fabric("star:hosts=8"), "double-binary-tree", "linear", "ecmp")
    delay_ns = delay_ms * 1_000_000
    plan = plan_of(cell, Experiment(made_allreduce(8, MIB), "x", pace=pace, send_delay_ns=delay_ns))
    times_s = []
    for n_pieces in (1, 2, 4, 8, 16, 32):
        sends = paced(Sends.of(double_binary_tree(8, MIB, n_pieces)), pace)
        schedule = replace(plan.schedule, sends=sends)
        times_s.append(simulate(plan.fabric, plan.flows, schedule).time_s)
    assert plan.prediction.fluid_s <= 1.25 * min(times_s)


def test_each_job_has_the_time_of_its_own_ring() -> None:
    schedules = [expand(made_allreduce(n, n * 400_000), "ring") for n in (2, 4)]
    plan = schedule_plan("star:hosts=6,rate=50M", together(schedules))
    byte_s = 8 / (50e6 * PAYLOAD_EFFICIENCY)
    assert plan.prediction.jobs_s == pytest.approx([2 * 400_000 * byte_s, 6 * 400_000 * byte_s])
    assert allreduce_plan("star:hosts=4").prediction.jobs_s == ()


def test_servers_take_what_the_busiest_needs_of_the_workers_rate() -> None:
    cell = Cell(
        parse_fabric("star:hosts=10,rate=50M,rate@h8=25M,rate@h9=25M"), "ps:servers=2", "linear", "ecmp"
    )
    plan = plan_of(cell, Experiment(made_allreduce(8, 64_000), "test"))
    byte_s = 8 / (50e6 * PAYLOAD_EFFICIENCY)
    assert nominal_costs(plan).beta_s_per_byte == pytest.approx(byte_s)
    closed = closed_time(plan, Costs(0.003, byte_s, "made up"))
    half_as_fast = 8 / 2 * 2 * 64_000 * byte_s
    assert closed.time_s == pytest.approx(2 * 0.003 + 2 * half_as_fast)  # each has one piece


def test_tensors_that_are_not_divided_take_what_the_largest_share_needs() -> None:
    cell = Cell(parse_fabric("star:hosts=10,rate=50M"), "ps:servers=2,keys", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(8, 64_000), "test", keys=(12_000, 3000, 1000)))
    closed = closed_time(plan, COSTS)
    piece = 1 / 2  # 48,000 bytes are two of at most 32 KiB, and the last is pulled when all is pushed
    assert closed.time_s == pytest.approx(2 * ALPHA + (1 + piece) * 8 * 12_000 * 4 * BETA)


def test_the_trees_of_a_plan_are_grown_once_for_its_sends_and_its_closed_form() -> None:
    grow.cache_clear()
    cell = Cell(parse_fabric("torus:x=3,y=3"), "multitree", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(9, 9 * 4000), "test"))
    costs = nominal_costs(plan)
    for alpha_s in (0.0, 0.001):
        assert closed_time(plan, replace(costs, alpha_s=alpha_s)).time_s
    assert grow.cache_info().misses == 1


def test_graphs_that_differ_in_what_links_carry_have_trees_of_their_own() -> None:
    """A switch that passes three messages on to a host at once saves steps."""
    nodes = ("s", "a", "b", "c", "d")
    thin, wide = (
        Graph(
            nodes,
            nodes[1:],
            nodes[1:],
            {pair: n for host in nodes[1:] for pair in ((host, "s"), ("s", host))},
        )
        for n in (1, 3)
    )
    assert hash(thin) == hash(wide) and thin != wide
    assert grow(wide).n_steps < grow(thin).n_steps
