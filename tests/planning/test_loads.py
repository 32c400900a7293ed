"""Link loads against what can be counted on paper."""

from statistics import fmean

import pytest

from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.resolve import resolve_placed
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Gate, together
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "as-captured"])
def test_every_host_sends_and_receives_2_p_minus_1_over_p_of_the_buffer(algorithm: str) -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", algorithm, "random", nbytes=8 * MIB)
    loads = plan_load(plan).loads
    for host in plan.fabric.hosts:
        up = Egress(host, 0)
        assert loads[up].nbytes == loads[plan.fabric.peers[up]].nbytes == 2 * 7 * MIB


@pytest.mark.parametrize(
    "spec", ["bigraph:n=4,m=2", "bigraph:n=8,m=2", "bigraph:n=8,m=4", "bigraph:n=16,m=8"]
)
def test_hdrm_gives_every_inter_switch_link_one_flow_a_step(spec: str) -> None:
    result = plan_load(allreduce_plan(spec, "halving-doubling", "hdrm", "direct"))
    assert {load.together for load in result.loads.values()} == {1}
    assert {load.worst_share for load in result.loads.values()} == {1.0}
    assert result.n_collisions == 0
    assert result.worst.excess_s == 0


def test_hdrm_with_twice_the_hosts_has_two_flows_a_link() -> None:
    # Load ceil(m / (n/2)), the fabric's own lower bound: m = n = 8 gives 2.
    result = plan_load(allreduce_plan("bigraph:n=8,m=8", "halving-doubling", "hdrm", "direct"))
    assert result.worst.together == 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spec", ["fat-tree:k=4", "fat-tree:k=4,levels=2"])
def test_an_ordered_ring_shares_no_link_of_a_tree_whatever_the_hash(spec: str, seed: int) -> None:
    result = plan_load(allreduce_plan(spec, "ring", seed=seed))
    assert {load.together for load in result.loads.values()} == {1}


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "share"), [("halving-doubling", 1.60), ("halving-doubling:far", 6.71)])
def test_hashed_halving_doubling_on_a_bigraph_is_slowed_as_much_as_its_order_of_distances_says(
    algorithm: str, share: float
) -> None:
    """Means of a program of its own, which draws the paths of flows without a hash."""
    plans = [allreduce_plan("bigraph:n=16,m=8", algorithm, seed=seed, nbytes=MIB) for seed in range(10)]
    shares = [plan_load(plan).barrier_s / plan.prediction.bound_s for plan in plans]
    assert fmean(shares) == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize("m", [2, 4, 8])
def test_switch_major_ranks_put_m_flows_on_a_bigraphs_direct_link(m: int) -> None:
    # The exchange over half the ranks sends all m flows of a switch over its one cable to its partner.
    result = plan_load(allreduce_plan(f"bigraph:n=4,m={m}", "halving-doubling", routes="direct"))
    assert result.worst.together == m
    assert result.worst.egress.node.startswith(("upper", "lower"))


def test_the_worst_link_is_the_shared_one_though_a_hosts_own_carries_more_bytes() -> None:
    collided = 0
    for seed in range(10):
        result = plan_load(allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", seed=seed))
        host_nbytes = result.loads[Egress("h0", 0)].nbytes
        if result.n_collisions:
            collided += 1
            assert result.worst.together == 2
            assert result.worst.worst_share == 2
            assert result.worst.nbytes < host_nbytes
            assert result.worst.egress.node.startswith(("leaf", "spine"))
    assert collided >= 8  # 1 - P(no collision among 4 ordered pairs) = 1 - 1/16 for each distance


def test_pushes_of_all_workers_are_one_phase_on_the_servers_link() -> None:
    pushes = [(worker, 0, 1_000_000) for worker in (1, 2, 3, 4)]
    pulls = [(0, worker, 1_000_000) for worker in (1, 2, 3, 4)]
    # The server answers when all have pushed, one after the other, as it is seen to do in captures.
    gates = [Gate(4 + i, 0, after=(0, 1, 2, 3) if i == 0 else (3 + i,)) for i in range(4)]
    plan = schedule_plan("star:hosts=5", messages(5, pushes + pulls, gates))
    result = plan_load(plan)
    down, up = result.loads[Egress("switch0", 1)], result.loads[Egress("h0", 0)]
    assert (down.nbytes, down.n_flows, down.together) == (4_000_000, 4, 4)
    assert (up.nbytes, up.n_flows, up.together) == (4_000_000, 4, 4)
    assert result.worst in (down, up)
    assert result.barrier_s == pytest.approx(2 * 4_000_000 * 8 / (100e6 * PAYLOAD_EFFICIENCY))
    assert result.bounded_s == pytest.approx(4_000_000 * 8 / (100e6 * PAYLOAD_EFFICIENCY))


def test_phases_of_a_collective_are_its_steps() -> None:
    result = plan_load(allreduce_plan("star:hosts=4", "ring", nbytes=4 * MIB))
    assert [phase.key for phase in result.phases] == [(0, step) for step in range(6)]
    assert all(
        phase.least_s == pytest.approx(MIB * 8 / (100e6 * PAYLOAD_EFFICIENCY)) for phase in result.phases
    )


def test_links_are_busy_for_as_long_as_full_frames_of_their_fabric_take() -> None:
    result = plan_load(allreduce_plan("star:hosts=4,mtu=9000", "ring", nbytes=4 * MIB))
    step_s = MIB * 8 / 100e6 * 9014 / 8948
    assert [phase.least_s for phase in result.phases] == pytest.approx([step_s] * 6)
    assert [load.busy_s for load in result.loads.values()] == pytest.approx([6 * step_s] * 8)


def test_a_slow_uplink_is_the_worst_link_even_with_one_flow() -> None:
    plan = schedule_plan("fat-tree:k=4,levels=2,uplink_rate=10M", messages(8, [(0, 7, 1000), (2, 3, 5000)]))
    worst = plan_load(plan).worst
    assert worst.rate_bps == 10_000_000
    assert worst.nbytes == 1000


def test_a_plan_that_sends_nothing_has_no_worst_link() -> None:
    with pytest.raises(ValueError, match="sends nothing"):
        plan_load(schedule_plan("star:hosts=2", messages(2, [])))


@pytest.mark.parametrize(("n_jobs", "share"), [(1, 1.0), (2, 2.0), (3, 3.0)])
def test_jobs_that_cross_the_only_spine_together_share_its_cables(n_jobs: int, share: float) -> None:
    """Rank pairs (0, 1), (2, 3), ... on hosts of different leaves: each sends over the one uplink."""
    job = expand(made_allreduce(2, MIB), "ring")
    fabric = parse_fabric(f"leaf-spine:leaves=2,spines=1,hosts={n_jobs},rate=50M")
    hosts = tuple(f"h{side * n_jobs + number}" for number in range(n_jobs) for side in (0, 1))
    plan = resolve_placed(
        fabric,
        hosts,
        together([job] * n_jobs),
        algorithm="ring",
        placement="chosen",
        routes="ecmp",
        seed=1,
        transport=fabric_transport(fabric),
    )
    result = plan_load(plan)
    up = result.loads[Egress("leaf0", n_jobs + 1)]
    assert link_name(fabric, up.egress) == "leaf0→spine0"
    assert (up.together, up.worst_share) == (n_jobs, share)
    assert result.n_collisions == (2 if n_jobs > 1 else 0)
    step_s = MIB / 2 * 8 / (50e6 * PAYLOAD_EFFICIENCY)
    assert result.barrier_s == pytest.approx(2 * share * step_s)
    assert result.barrier_s == pytest.approx(plan.prediction.fluid_s)
    if n_jobs > 1:
        assert result.worst == up
