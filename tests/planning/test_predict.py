"""Bounds and the fluid model against closed forms and the papers' bands."""

from dataclasses import replace
from fractions import Fraction
from statistics import mean

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.predict import bound_s, compute_s
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import easgd
from gradwire.traces.making.gossip import gossip
from gradwire.traces.schedules.algorithms.alltoall import even, pairwise_alltoall
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Sends
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.workload import Workload
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan

RATE_BPS = 100e6
MB_S = 1e6 * 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)
"""The time of one megabyte of payload on a link of the default rate."""


def ratio(plan: Plan) -> float:
    return plan.prediction.fluid_s / plan.prediction.bound_s


def seconds(spec: str, schedule: Schedule, alpha_s: float = 0.0) -> float:
    plan = schedule_plan(spec, schedule)
    return simulate(plan.fabric, plan.flows, schedule, alpha_s=alpha_s).time_s


@pytest.mark.parametrize("p", [2, 3, 8, 16])
@pytest.mark.parametrize("algorithm", ["ring", "as-captured"])
def test_a_ring_on_a_star_takes_2_p_minus_1_over_p_of_its_bytes(p: int, algorithm: str) -> None:
    nbytes = p * 240_000
    plan = allreduce_plan(f"star:hosts={p}", algorithm, nbytes=nbytes)
    ideal = 2 * (p - 1) / p * nbytes * 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)
    assert plan.prediction.bound_s == pytest.approx(ideal, rel=1e-12)
    assert plan.prediction.fluid_s == pytest.approx(ideal, rel=1e-6)


@pytest.mark.parametrize("mtu", [1500, 4000, 9000])
def test_longer_frames_carry_the_same_bytes_in_less_time(mtu: int) -> None:
    plan = allreduce_plan(f"fat-tree:k=4,levels=2,mtu={mtu}", nbytes=8 * 240_000)
    ideal = 2 * 7 * 240_000 * 8 * (mtu + 14) / (mtu - 52) / RATE_BPS
    assert plan.prediction.bound_s == pytest.approx(ideal, rel=1e-12)
    assert plan.prediction.fluid_s == pytest.approx(ideal, rel=1e-6)


@pytest.mark.parametrize(
    ("spec", "algorithm", "placement", "routes"),
    [
        ("star:hosts=8", "halving-doubling", "random", "ecmp"),
        ("fat-tree:k=4,levels=2", "ring", "linear", "ecmp"),
        ("fat-tree:k=4", "ring", "linear", "ecmp"),
        ("fat-tree:k=4", "as-captured", "linear", "ecmp"),
        ("fat-tree:k=4,levels=2", "halving-doubling", "linear", "dmodk"),
        ("fat-tree:k=4", "halving-doubling", "linear", "dmodk"),
        ("leaf-spine:leaves=8,spines=4,hosts=4", "halving-doubling", "linear", "dmodk"),
        ("bigraph:n=4,m=2", "halving-doubling", "hdrm", "direct"),
        ("bigraph:n=8,m=2", "halving-doubling", "hdrm", "direct"),
        ("bigraph:n=8,m=4", "halving-doubling", "hdrm", "ecmp"),
    ],
)
def test_what_the_papers_call_contention_free_takes_its_bound(
    spec: str, algorithm: str, placement: str, routes: str
) -> None:
    assert ratio(allreduce_plan(spec, algorithm, placement, routes)) == pytest.approx(1, rel=1e-6)


def without_readiness(plan: Plan) -> float:
    """The ratio when receivers never make senders wait, as in the papers' model."""
    never = Sends.of(replace(send, ready=()) for send in plan.schedule.sends)
    schedule = replace(plan.schedule, sends=never)
    return simulate(plan.fabric, plan.flows, schedule).time_s / plan.prediction.bound_s


N_DRAWS = 16
# Mean, least and greatest of 25 draws in an independent fluid model of the same fabrics, whose receivers
# are always ready.  The mean of our draws must agree within 3 sigma.
BANDS = [
    ("fat-tree:k=4,levels=2", "halving-doubling", "linear", 1.47, 1.14, 1.64),
    ("fat-tree:k=4,levels=2", "halving-doubling", "random", 2.04, 1.50, 2.29),
    ("fat-tree:k=4,levels=2", "ring", "random", 1.92, 1.00, 2.00),
    ("leaf-spine:leaves=4,spines=4,hosts=4", "halving-doubling", "linear", 1.38, 1.20, 1.55),
    ("fat-tree:k=4", "halving-doubling", "linear", 1.65, 1.51, 1.77),
    ("bigraph:n=4,m=2", "halving-doubling", "linear", 1.81, 1.43, 2.00),
    ("bigraph:n=4,m=2", "halving-doubling", "random", 2.11, 1.00, 2.88),
    ("bigraph:n=4,m=2", "ring", "linear", 1.40, 1.00, 2.00),
    ("bigraph:n=8,m=2", "halving-doubling", "linear", 1.78, 1.47, 2.23),
]


@pytest.mark.broad(3)
@pytest.mark.parametrize(("spec", "algorithm", "placement", "published", "least", "greatest"), BANDS)
def test_hashed_routes_cost_what_the_published_model_says(
    spec: str, algorithm: str, placement: str, published: float, least: float, greatest: float
) -> None:
    plans = [allreduce_plan(spec, algorithm, placement, seed=seed) for seed in range(N_DRAWS)]
    spread = (greatest - least) / 4  # about one sigma of a draw
    error = spread * (1 / N_DRAWS + 1 / 25) ** 0.5
    assert mean(map(without_readiness, plans)) == pytest.approx(published, abs=3 * error)
    assert least - 1e-9 <= mean(map(ratio, plans)) <= greatest + 1e-9


@pytest.mark.parametrize("placement", ["linear", "random"])
def test_every_algorithm_is_measured_against_the_same_bound(placement: str) -> None:
    bounds = {
        round(allreduce_plan("fat-tree:k=4", name, placement).prediction.bound_s, 9)
        for name in ("ring", "halving-doubling", "as-captured")
    }
    assert len(bounds) == 1


def test_a_parameter_servers_bound_is_its_own_link() -> None:
    # papers: central server, push and pull pipelined: w S beta; pushes and pulls are 4 MB each way.
    schedule = messages(5, [(w, 0, 10**6) for w in range(1, 5)] + [(0, w, 10**6) for w in range(1, 5)])
    plan = schedule_plan("star:hosts=5", schedule)
    assert plan.prediction.bound_s == pytest.approx(4 * MB_S)
    assert plan.prediction.fluid_s == pytest.approx(4 * MB_S)


def test_a_bound_counts_what_a_host_receives_as_well() -> None:
    pushes = schedule_plan("star:hosts=5", messages(5, [(w, 0, 10**6) for w in range(1, 5)]))
    assert pushes.prediction.bound_s == pytest.approx(4 * MB_S)


@pytest.mark.parametrize(("p", "nbytes"), [(17, 32), (5, 24), (8, 64)])
def test_a_bound_of_an_alltoall_does_not_count_what_is_left_of_blocks_of_one_size(
    p: int, nbytes: int
) -> None:
    sends = pairwise_alltoall(nbytes, even(p, nbytes))
    schedule = Schedule.of(p, (Op("alltoall", nbytes, members=tuple(range(p))),), sends)
    plan = schedule_plan(f"star:hosts={p}", schedule, "pairwise")
    expected_s = (p - 1) * (nbytes // p) * MB_S / 1e6
    assert plan.prediction.bound_s == pytest.approx(expected_s)
    assert plan.prediction.fluid_s == pytest.approx(expected_s)


def test_a_bound_counts_slower_host_links() -> None:
    fast = allreduce_plan("star:hosts=4,rate=1G").prediction
    slow = allreduce_plan("star:hosts=4,rate=100M").prediction
    assert slow.bound_s == pytest.approx(10 * fast.bound_s)


def test_flows_into_one_host_share_its_link() -> None:
    assert seconds(
        "star:hosts=4", messages(4, [(1, 0, 10**6), (2, 0, 10**6), (3, 0, 10**6)])
    ) == pytest.approx(3 * MB_S)


def test_a_flow_speeds_up_when_the_one_it_shared_with_ends() -> None:
    # 1 MB and 3 MB into one host: half rate until 2 MB have passed, then 2 MB alone.
    schedule = messages(3, [(1, 0, 10**6), (2, 0, 3 * 10**6)])
    plan = schedule_plan("star:hosts=3", schedule)
    made = simulate(plan.fabric, plan.flows, schedule)
    total_s, ends_s = made.time_s, made.ends_s
    assert ends_s == pytest.approx((2 * MB_S, 4 * MB_S))
    assert total_s == pytest.approx(4 * MB_S)


def test_a_flow_slows_down_when_another_begins_on_its_way() -> None:
    # Alone for the time of 1 MB, then both have 1 MB left for a link of which each gets half.
    schedule = messages(3, [(0, 2, 2 * 10**6), (1, 2, 10**6)], [Gate(1, 1, gap_ns=round(MB_S * 1e9))])
    plan = schedule_plan("star:hosts=3", schedule)
    ends_s = simulate(plan.fabric, plan.flows, schedule).ends_s
    assert ends_s == pytest.approx((3 * MB_S, 3 * MB_S))


def test_sends_of_one_connection_leave_one_after_the_other() -> None:
    schedule = messages(2, [(0, 1, 10**6), (0, 1, 3 * 10**6), (1, 0, 10**6)])
    plan = schedule_plan("star:hosts=2", schedule)
    ends_s = simulate(plan.fabric, plan.flows, schedule).ends_s
    assert ends_s == pytest.approx((MB_S, 4 * MB_S, MB_S))


def test_alpha_is_paid_once_for_every_send_that_waits_for_another() -> None:
    plan = allreduce_plan("star:hosts=8", "halving-doubling", nbytes=8 * MIB)
    total_s = simulate(plan.fabric, plan.flows, plan.schedule, alpha_s=0.01).time_s
    assert total_s == pytest.approx(plan.prediction.bound_s + 2 * 3 * 0.01)


def test_eta_is_the_payloads_share_of_the_link() -> None:
    plan = allreduce_plan("star:hosts=8")
    total_s = simulate(plan.fabric, plan.flows, plan.schedule, eta=PAYLOAD_EFFICIENCY / 2).time_s
    assert total_s == pytest.approx(2 * plan.prediction.bound_s)


def test_a_gate_holds_a_send_back_until_its_gap_has_passed() -> None:
    gates = [Gate(0, 0, gap_ns=50_000_000), Gate(1, 1, after=(0,), gap_ns=250_000_000)]
    assert seconds("star:hosts=2", messages(2, [(0, 1, 10**6), (1, 0, 10**6)], gates)) == pytest.approx(
        0.05 + MB_S + 0.25 + MB_S
    )


def test_an_operation_is_complete_at_a_rank_without_sends_when_its_gap_has_passed() -> None:
    gates = [Gate(0, 2, gap_ns=10**9), Gate(1, 2, after=(0,), gap_ns=10**9)]
    schedule = messages(3, [(0, 1, 10**6), (2, 0, 10**6)], gates)
    assert seconds("star:hosts=3", schedule) == pytest.approx(2 + MB_S)


def test_a_collective_waits_for_the_gap_of_its_slowest_rank() -> None:
    plan = allreduce_plan("star:hosts=4", nbytes=4 * MIB)
    late = replace(plan.schedule, gates=(Gate(0, 2, gap_ns=10**9),))
    total_s = simulate(plan.fabric, plan.flows, late).time_s
    assert 1 + 5 / 6 * plan.prediction.bound_s < total_s <= 1 + plan.prediction.bound_s + 1e-9


def test_a_receiver_that_is_not_ready_holds_its_sender_back() -> None:
    plan = schedule_plan("star:hosts=3", messages(3, [(0, 1, 2 * 10**6), (2, 1, 10**6)]))
    first, second = plan.schedule.sends
    schedule = replace(plan.schedule, sends=Sends.of((first, replace(second, ready=(0,)))))
    ends_s = simulate(plan.fabric, plan.flows, schedule).ends_s
    assert ends_s == pytest.approx((2 * MB_S, 3 * MB_S))


def test_empty_messages_take_no_time_but_keep_their_order() -> None:
    gates = [Gate(1, 1, after=(0,)), Gate(2, 0, after=(1,), gap_ns=1000)]
    assert seconds("star:hosts=2", messages(2, [(0, 1, 0), (1, 0, 0), (0, 1, 0)], gates)) == pytest.approx(
        1e-6
    )


def test_a_circle_of_waits_is_an_error_not_an_endless_run() -> None:
    plan = schedule_plan("star:hosts=2", messages(2, [(0, 1, 10), (1, 0, 10)], []))
    circle = replace(plan.schedule, gates=(Gate(0, 0, after=(1,)), Gate(1, 1, after=(0,))))
    with pytest.raises(ValueError, match="2 sends or sums wait for each other"):
        simulate(plan.fabric, plan.flows, circle)


def test_compute_adds_up_along_the_longest_chain_only() -> None:
    """Rank 1 waits for message 0, which comes when rank 0 has computed for 100 ns."""
    gates = [Gate(0, 0, (), 100), Gate(1, 0, (0,), 30), Gate(1, 1, (0,), 500), Gate(2, 1, (0, 1), 7)]
    schedule = messages(2, [(0, 1, 10), (0, 1, 10), (1, 0, 10)], gates)
    assert compute_s(schedule) == pytest.approx(607e-9)


@pytest.mark.parametrize("algorithm", ["ring", "tree:binomial", "all-pairs"])
@pytest.mark.parametrize(
    "made",
    [
        easgd("round-robin", n_workers=3, nbytes=12, compute_ns=10**9, n_messages=2, n_iterations=4),
        easgd("sync1", n_workers=3, nbytes=12, compute_ns=10**9, n_messages=2, n_iterations=4),
        easgd("sync3", n_workers=3, nbytes=12, compute_ns=10**9, n_messages=2, n_iterations=4),
        gossip("push", n_ranks=4, nbytes=4, compute_ns=10**9, n_rounds=4, seed=1),
        dlrm([2, 0, 1], n_ranks=3, batch=1, width=1, pooling=1, nbytes=4, compute_ns=10**9, n_iterations=2),
    ],
    ids=lambda made: made.source,
)
def test_without_bytes_to_speak_of_a_job_takes_its_longest_chain_of_computing(
    made: Workload, algorithm: str
) -> None:
    """Ranks compute for random times, so that chains lead from rank to rank."""
    workload = straggling(made, {}, Fraction(1, 3), seed=3)
    plan = plan_of(
        Cell(parse_fabric("star:hosts=4,rate=100G"), algorithm, "linear", "ecmp"), Experiment(workload, "")
    )
    assert plan.prediction.fluid_s == pytest.approx(compute_s(plan.schedule), rel=1e-5)


def test_a_lone_rank_has_nothing_to_send_and_no_bound() -> None:
    plan = schedule_plan("star:hosts=2", messages(1, []))
    assert bound_s(plan.fabric, plan.placement, plan.schedule) == 0
    assert plan.prediction.fluid_s == 0
