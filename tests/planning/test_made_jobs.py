"""Plans of made-up jobs take the times of their papers' closed forms, in a model without a machine.

S bytes take S β on a host's link; nominal rates, TCP in full frames.
"""

from itertools import product
from math import ceil

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import Variant, easgd
from gradwire.traces.making.gossip import PATTERNS, gossip
from gradwire.traces.making.servers import parameter_servers
from gradwire.traces.workload import Message, Workload
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY

RATE_BPS = 50_000_000
BETA_S = 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)
ALPHA_S = 0.005
T_NS = 300_000_000
T_S = T_NS / 1e9
N_ITERATIONS = 4


def plan(workload: Workload, algorithm: str = "as-captured", send_delay_ns: int = 0) -> Plan:
    fabric = parse_fabric(f"star:hosts={workload.n_ranks},rate={RATE_BPS}")
    return plan_of(
        Cell(fabric, algorithm, "linear", "ecmp"), Experiment(workload, "test", send_delay_ns=send_delay_ns)
    )


def time_s(workload: Workload, alpha_s: float = 0.0, algorithm: str = "as-captured") -> float:
    made = plan(workload, algorithm)
    return simulate(made.fabric, made.flows, made.schedule, alpha_s=alpha_s).time_s


def iteration_s(workload: Workload) -> float:
    found = plan(workload).prediction.iteration_s
    assert found is not None
    return found


def made_easgd(variant: Variant, n_workers: int, n_messages: int = 1, nbytes: int = MIB) -> Workload:
    return easgd(
        variant,
        n_workers=n_workers,
        nbytes=nbytes,
        compute_ns=T_NS,
        n_messages=n_messages,
        n_iterations=N_ITERATIONS,
    )


@pytest.mark.parametrize("n_messages", [1, 50])
def test_round_robin_pays_for_each_message_both_ways_in_each_iteration(n_messages: int) -> None:
    each_s = T_S + 2 * (n_messages * ALPHA_S + MIB * BETA_S)
    took_s = time_s(made_easgd("round-robin", 8, n_messages), ALPHA_S)
    assert took_s == pytest.approx(N_ITERATIONS * each_s, rel=1e-6)


@pytest.mark.parametrize("n_messages", [1, 5])
@pytest.mark.parametrize("n_workers", [2, 8])
def test_a_centre_with_a_lock_serves_one_worker_after_the_other(
    n_workers: int, n_messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the workers queue up; from then on each meets the centre once in max(T + E, p E).

    That is of a centre that is free when its answer has arrived, so sockets hold nothing here.
    """
    monkeypatch.setattr("gradwire.planning.model.simulation.held_nbytes", lambda _: 0)
    nbytes = MIB // 2
    exchange_s = 2 * (n_messages * ALPHA_S + nbytes * BETA_S)
    period_s = max(T_S + exchange_s, n_workers * exchange_s)
    assert (period_s == T_S + exchange_s) == (n_workers == 2)
    took_s = time_s(made_easgd("async", n_workers, n_messages, nbytes), ALPHA_S)
    first_s = T_S + n_workers * exchange_s
    assert took_s == pytest.approx(first_s + (N_ITERATIONS - 1) * period_s, rel=1e-6)


def test_without_a_lock_workers_that_keep_step_share_the_link_of_the_centre() -> None:
    each_s = T_S + 2 * (ALPHA_S + 8 * MIB * BETA_S)
    assert time_s(made_easgd("hogwild", 8), ALPHA_S) == pytest.approx(N_ITERATIONS * each_s, rel=1e-6)


SUMS = [  # an algorithm for 8 ranks; messages one after the other and shares of S in the closed form
    ("as-captured", 6, 0),  # binomial trees, whose root shares its link: seen with few bytes
    ("ring", 14, 1.75),
    ("halving-doubling", 6, 1.75),
]


def sum_s(algorithm: str, n_messages: int, nbytes: int) -> float:
    (steps, share), *_ = [each[1:] for each in SUMS if each[0] == algorithm]
    return n_messages * steps * ALPHA_S + share * nbytes * BETA_S


@pytest.mark.broad(4)
@pytest.mark.parametrize("algorithm", [each[0] for each in SUMS])
@pytest.mark.parametrize(("variant", "n_workers"), [("sync1", 7), ("sync2", 8)])
@pytest.mark.parametrize("n_messages", [1, 5])
def test_a_synchronous_variant_takes_its_computing_and_then_a_sum(
    variant: Variant, n_workers: int, n_messages: int, algorithm: str
) -> None:
    nbytes = 400 if algorithm == "as-captured" else MIB
    made = made_easgd(variant, n_workers, n_messages, nbytes)
    each_s = T_S + sum_s(algorithm, n_messages, nbytes)
    assert time_s(made, ALPHA_S, algorithm) == pytest.approx(N_ITERATIONS * each_s, rel=2e-3)


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
@pytest.mark.parametrize("nbytes", [MIB // 4, 4 * MIB])
def test_the_overlapped_variant_takes_the_larger_of_its_computing_and_a_sum(
    algorithm: str, nbytes: int
) -> None:
    each_s = max(T_S, sum_s(algorithm, 1, nbytes))
    assert (each_s == T_S) == (nbytes < MIB)
    took_s = time_s(made_easgd("sync3", 8, nbytes=nbytes), ALPHA_S, algorithm)
    assert took_s == pytest.approx(N_ITERATIONS * each_s, rel=1e-3)


COMMUNICATES = 0.87  # round robin's share of an iteration (You, Buluc, Demmel, SC'17, abstract)


def with_share(
    variant: Variant, delay_ns: int, one_way_s: float, nbytes: int, n_messages: int, algorithm: str
) -> tuple[float, float]:
    """The time of an iteration, and how long workers compute, so that round robin communicates for 87 %."""
    compute_s = 2 * one_way_s * (1 - COMMUNICATES) / COMMUNICATES
    workload = easgd(
        variant,
        n_workers=8,
        nbytes=nbytes,
        compute_ns=round(compute_s * 1e9),
        n_messages=n_messages,
        n_iterations=8,
    )
    return plan(workload, algorithm, delay_ns).prediction.fluid_s / 8, compute_s


def test_where_messages_cost_the_overlapped_variant_is_five_times_as_fast() -> None:
    """50 layers that wait for each other, each delayed by 10 ms, against one message under the computing."""
    nbytes = 50 * 256
    one_way_s = 50 * 0.01 + nbytes * BETA_S
    round_robin_s, compute_s = with_share("round-robin", 10_000_000, one_way_s, nbytes, 50, "as-captured")
    sync_s, _ = with_share("sync3", 10_000_000, one_way_s, nbytes, 1, "as-captured")
    assert 1 - compute_s / round_robin_s == pytest.approx(COMMUNICATES, abs=0.001)
    assert 1 - compute_s / sync_s <= 0.16
    assert round_robin_s / sync_s >= 5


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "all-pairs"])
def test_where_bytes_cost_no_sum_by_hosts_makes_it_faster_than_their_links_allow(algorithm: str) -> None:
    """Round robin takes 2 S β beside its computing, the best sum of 8 ranks 2 (8-1)/8 S β under it."""
    nbytes = 2 * MIB
    round_robin_s, _ = with_share("round-robin", 0, nbytes * BETA_S, nbytes, 1, "as-captured")
    sync_s, _ = with_share("sync3", 0, nbytes * BETA_S, nbytes, 1, algorithm)
    at_most = 1 / (COMMUNICATES * 7 / 8)
    assert at_most < 1.32
    assert round_robin_s / sync_s == pytest.approx(at_most, rel=0.001)


@pytest.mark.parametrize(("pattern", "seed"), [*product(PATTERNS, range(3))])
def test_a_round_of_gossip_takes_as_long_as_the_rank_that_has_most_to_take_or_give(
    pattern: str, seed: int
) -> None:
    made = gossip(
        pattern,  # type: ignore[arg-type]
        n_ranks=8,
        nbytes=MIB,
        compute_ns=T_NS,
        n_rounds=1,
        seed=seed,
    )
    messages = [item for item in made.items if isinstance(item, Message)]
    ends = [message.src if pattern == "pull" else message.dst for message in messages]
    most = max(map(ends.count, ends))
    assert (most == 1) == (pattern == "permutation")
    assert time_s(made) == pytest.approx(T_S + most * MIB * BETA_S, rel=1e-3)


def test_uneven_tables_cost_what_the_largest_rank_has_over_the_mean() -> None:
    batch, width, n_ranks = 16, 1024, 4
    for tables in ([2, 2, 2, 2], [5, 1, 1, 1]):
        made = dlrm(
            tables,
            n_ranks=n_ranks,
            batch=batch,
            width=width,
            pooling=1,
            nbytes=4,
            compute_ns=T_NS,
            n_iterations=1,
        )
        one_way_s = (n_ranks - 1) * max(tables) * batch * width * 4 * BETA_S
        assert time_s(made) == pytest.approx(T_S + 2 * one_way_s, rel=0.01)


def served(n_servers: int, staleness: int | None, n_workers: int = 4) -> Workload:
    return parameter_servers(
        n_servers,
        n_workers,
        nbytes=MIB,
        staleness=staleness,
        compute_ns=T_NS,
        n_parts=16,
        n_iterations=5,
    )


@pytest.mark.long
def test_with_staleness_servers_show_a_knee_where_they_are_as_fast_as_the_workers() -> None:
    """Zou et al., arXiv 1709.06622: ceil(S w / (B T)) servers hide the exchange behind computing."""
    all_s = MIB * 4 * BETA_S
    knee = ceil(all_s / T_S)
    assert knee == 3
    for n_servers in range(1, 6):
        expected_s = max(T_S, all_s / n_servers)
        assert (expected_s == T_S) == (n_servers >= knee)
        assert iteration_s(served(n_servers, 1)) == pytest.approx(expected_s, rel=0.1)


def test_synchronous_servers_show_none() -> None:
    """A worker's own link is the bound from as many servers as workers on.

    Of 16 parts the last is pulled when all else is over.
    """
    all_s = MIB * 4 * BETA_S * (1 + 1 / 16)
    for n_servers in range(1, 5):
        assert iteration_s(served(n_servers, 0)) == pytest.approx(T_S + all_s / n_servers, rel=0.01)


@pytest.mark.parametrize(
    ("staleness", "why"), [(1, "before all have pushed .staleness 1."), (None, "all workers have pushed")]
)
def test_switches_add_up_the_pushes_of_synchronous_servers_alone(staleness: int | None, why: str) -> None:
    assert {op.kind for op in plan(served(1, 0), "ina").schedule.ops} == {"compute", "reduce", "message"}
    with pytest.raises(Refused, match=why):
        plan(served(1, staleness), "ina")
