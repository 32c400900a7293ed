"""Times, bounds and loads of what switches add up, against closed forms.

With S bytes, beta the time of a byte on a host's link: INA takes S beta / efficiency, whatever the number of
ranks, where a ring takes 2 (p-1)/p S beta / its own efficiency; latency comes on top once for each way up and
down.
"""

from dataclasses import replace

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.explanation import why
from gradwire.planning.model.loads import plan_load
from gradwire.planning.model.phases import ADDED_UP
from gradwire.planning.model.predict import bound_s, predict
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Child, Node, Tree
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send, Sends
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan, unchecked_plan

RATE_BPS = 100e6
INA_SHARE = 1024 / (1024 + 66)  # 256 elements; Ethernet 14, IPv4 20, UDP 8, our header 24
TCP_SHARE = 1448 / 1514
MB = 1_024_000  # a thousand packets of 256 elements
INA_MB_S = MB * 8 / (RATE_BPS * INA_SHARE)
TCP_MB_S = MB * 8 / (RATE_BPS * TCP_SHARE)


def sums(n_ranks: int, *nbytes: int, gates: tuple[Gate, ...] = ()) -> Schedule:
    """One group of all ranks, with this many sums."""
    everybody = tuple(range(n_ranks))
    return Schedule.of(
        n_ranks,
        ops=tuple(Op("allreduce", size) for size in nbytes),
        sends=(),
        gates=gates,
        aggregations=tuple(Aggregation(op, everybody, everybody) for op in range(len(nbytes))),
    )


def ends_s(plan: Plan, alpha_s: float = 0.0) -> tuple[float, ...]:
    found = simulate(plan.fabric, plan.flows, plan.schedule, trees=plan.trees, alpha_s=alpha_s).ends_s
    return tuple(found.tolist())


@pytest.mark.parametrize("p", [2, 3, 8, 16])
def test_the_time_of_ina_is_the_same_for_any_number_of_ranks(p: int) -> None:
    plan = schedule_plan(f"star:hosts={p}", sums(p, MB))
    assert plan.prediction.bound_s == pytest.approx(INA_MB_S, rel=1e-12)
    assert plan.prediction.fluid_s == pytest.approx(INA_MB_S, rel=1e-9)


@pytest.mark.parametrize("spec", ["fat-tree:k=4,levels=2", "fat-tree:k=4", "bigraph:n=4,m=2"])
def test_ina_takes_its_bound_on_every_family_and_a_ring_2_p_minus_1_over_p_of_it(spec: str) -> None:
    ina, ring = allreduce_plan(spec, "ina", nbytes=8 * MIB), allreduce_plan(spec, "ring", nbytes=8 * MIB)
    assert ina.prediction.fluid_s == pytest.approx(ina.prediction.bound_s)
    expected = 1 / (2 * (ina.n_ranks - 1) / ina.n_ranks * INA_SHARE / TCP_SHARE)
    assert ina.prediction.bound_s / ring.prediction.bound_s == pytest.approx(expected)


def test_small_packets_cost_what_their_headers_are() -> None:
    """papers: payload efficiency of 256 bytes; ours has longer headers than SwitchML's."""
    plan = schedule_plan("star:hosts=4", sums(4, MB))
    trees = tuple(replace(tree, elements=64) for tree in plan.trees)
    made = predict(plan.fabric, plan.placement, plan.flows, plan.schedule, trees)
    assert made.bound_s == made.fluid_s == pytest.approx(MB * 8 / (RATE_BPS * 256 / (256 + 66)))


def test_latency_is_paid_once_for_the_exponents_and_once_for_the_elements() -> None:
    plan = schedule_plan("star:hosts=4", sums(4, MB))
    assert ends_s(plan, alpha_s=0.01) == pytest.approx((INA_MB_S + 2 * 0.01,))


def test_sums_of_a_group_are_made_one_after_the_other() -> None:
    plan = schedule_plan("star:hosts=4", sums(4, MB, 3 * MB))
    assert ends_s(plan) == pytest.approx((INA_MB_S, 4 * INA_MB_S))
    assert ends_s(plan, alpha_s=0.01) == pytest.approx((INA_MB_S + 0.02, 4 * INA_MB_S + 0.02))


def test_a_sum_begins_when_its_last_member_does_and_holds_back_the_next_of_its_group() -> None:
    schedule = sums(4, MB, MB, gates=(Gate(0, 3, gap_ns=10**9),))
    assert ends_s(schedule_plan("star:hosts=4", schedule)) == pytest.approx((1 + INA_MB_S, 1 + 2 * INA_MB_S))


def test_an_operation_after_a_sum_begins_when_it_is_there() -> None:
    schedule = sums(2, MB, MB, gates=(Gate(1, 0, after=(0,), gap_ns=500_000_000),))
    assert ends_s(schedule_plan("star:hosts=2", schedule)) == pytest.approx((INA_MB_S, 0.5 + 2 * INA_MB_S))


def test_sums_in_another_order_than_their_groups_never_begin() -> None:
    schedule = sums(2, MB, MB, gates=(Gate(0, 1, after=(1,)),))
    plan = schedule_plan("star:hosts=2", sums(2, MB, MB))
    with pytest.raises(
        ValueError, match="wait for each other and never begin, among them a sum of operation 0"
    ):
        simulate(plan.fabric, plan.flows, schedule, trees=plan.trees)


def test_many_sums_that_are_ready_at_once_need_no_deep_stack() -> None:
    plan = schedule_plan("star:hosts=2", sums(2, *[1024] * 3000))
    assert ends_s(plan)[-1] == pytest.approx(3 * INA_MB_S)


def test_a_flow_and_a_sum_share_the_link_of_their_host() -> None:
    """Half of r0's link each: the flow's megabyte is through at twice its time, then the sum is alone."""
    added = sums(3, MB)
    schedule = replace(
        added,
        ops=(*added.ops, Op("message", MB, root=0)),
        sends=Sends.of([Send(1, 0, 1, 0, MB, reduce=False)]),
    )
    flow_s, sum_s = ends_s(schedule_plan("star:hosts=3", schedule))
    assert flow_s == pytest.approx(2 * TCP_MB_S)
    assert sum_s == pytest.approx(2 * TCP_MB_S + (1 - TCP_MB_S / INA_MB_S) * INA_MB_S)


def test_the_slowest_link_of_a_tree_holds_all_of_it_up() -> None:
    plan = schedule_plan("leaf-spine:leaves=2,spines=1,hosts=2,uplink_rate=10M", sums(4, MB))
    assert ends_s(plan) == pytest.approx((10 * INA_MB_S,))
    assert plan.prediction.bound_s == pytest.approx(INA_MB_S)


def test_sends_of_an_operation_wait_for_its_sum_at_their_ranks() -> None:
    """Added up within leaves of m = 2, then L = 8 leaves exchange halves by a ring, and pass them on inside.

    A host sends 2 (L-1)/L S/m round the ring, and (m-1) S/m to the rest of its leaf.
    """
    cell = Cell(parse_fabric("fat-tree:k=4"), "ina:leaf", "linear", "planned")
    plan = plan_of(cell, Experiment(made_allreduce(16, 16 * MB), "test"))
    exchanged = 2 * 7 / 8 / 2 + 1 / 2
    expected = 16 * (INA_MB_S + exchanged * TCP_MB_S)
    assert plan.prediction.bound_s == pytest.approx(expected)
    assert plan.prediction.fluid_s == pytest.approx(expected)
    added, *sent = sorted(phase.key for phase in plan_load(plan).phases)
    assert (added, len(sent)) == ((0, ADDED_UP), 2 * 7 + 1)


def test_a_rank_passes_on_only_the_whole_sum_and_another_does_not_wait() -> None:
    pair = Schedule.of(
        4,
        ops=(Op("allreduce", MB),),
        sends=(Send(0, 1, 2, 0, MB, reduce=False), Send(0, 3, 2, 0, MB // 4, reduce=False)),
        aggregations=(Aggregation(0, (0, 1), (0, 1)),),
    )
    passed_on, other, added = ends_s(unchecked_plan("star:hosts=4", pair))
    assert added == pytest.approx(INA_MB_S)
    assert other == pytest.approx(TCP_MB_S / 4)
    assert passed_on == pytest.approx(INA_MB_S + TCP_MB_S)


def test_without_trees_sums_take_no_time() -> None:
    plan = schedule_plan("star:hosts=2", sums(2, MB))
    made = simulate(plan.fabric, plan.flows, plan.schedule)
    assert (made.time_s, made.ends_s.tolist()) == (0.0, [0.0])
    assert bound_s(plan.fabric, plan.placement, plan.schedule) == 0


def test_a_tree_too_many_is_an_error() -> None:
    plan = schedule_plan("star:hosts=2", sums(2, MB))
    with pytest.raises(ValueError, match="2 trees for 1 reduce groups"):
        simulate(plan.fabric, plan.flows, plan.schedule, trees=plan.trees * 2)


def pushes(n_workers: int, nbytes: int) -> Schedule:
    """Rank 0 gets the sum of what the others push, and answers each of them."""
    workers = tuple(range(1, n_workers + 1))
    answers = messages(n_workers + 1, [(0, worker, nbytes) for worker in workers])
    return Schedule.of(
        n_workers + 1,
        ops=(Op("reduce", nbytes, root=0, members=(0, *workers), givers=workers), *answers.ops),
        sends=tuple(replace(send, op=send.op + 1) for send in answers.sends),
        gates=tuple(Gate(1 + i, 0, after=(0,)) for i in range(n_workers)),
        aggregations=(Aggregation(0, workers, (0,)),),
    )


def test_a_server_gets_one_sum_where_w_pushes_were() -> None:
    """papers: central server, w S beta for the answers; the pushes take S beta / efficiency before them."""
    plan = schedule_plan("star:hosts=5", pushes(4, MB))
    assert plan.prediction.bound_s == pytest.approx(4 * TCP_MB_S)
    assert plan.prediction.fluid_s == pytest.approx(INA_MB_S + 4 * TCP_MB_S)
    loads = plan_load(plan).loads
    assert loads[Egress("switch0", 1)].nbytes == MB  # down to the server
    assert [loads[Egress(f"h{rank}", 0)].nbytes for rank in range(5)] == [4 * MB, MB, MB, MB, MB]


def test_a_server_of_slow_links_is_bounded_by_the_sum_that_comes_in() -> None:
    schedule = replace(pushes(4, MB), sends=Sends.of(()), gates=())
    plan = schedule_plan("star:hosts=5", schedule)
    assert plan.prediction.bound_s == pytest.approx(INA_MB_S)


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_sum_takes_its_own_frames_time_whatever_tcps_would_take(mtu: int) -> None:
    plan = allreduce_plan(f"fat-tree:k=4,levels=2,mtu={mtu}", "ina", nbytes=MIB)
    found, busy_s = plan_load(plan), MIB * 8 / (RATE_BPS * INA_SHARE)
    assert [load.busy_s for load in found.loads.values()] == pytest.approx([busy_s] * len(found.loads))
    assert plan.prediction.bound_s == pytest.approx(busy_s)
    assert plan.prediction.fluid_s == pytest.approx(busy_s)


@pytest.mark.parametrize(
    ("spec", "n_inner"),
    [("fat-tree:k=4,levels=2", 4), ("leaf-spine:leaves=3,spines=2,hosts=4", 3), ("fat-tree:k=4", 8 + 4)],
)
def test_every_link_of_a_tree_carries_the_buffer_up_and_down(spec: str, n_inner: int) -> None:
    """papers: assert S up and S down on each tree link; a host-side ring puts 2 (p-1)/p S on it."""
    plan = allreduce_plan(spec, "ina", nbytes=MIB)
    found = plan_load(plan)
    inner = [egress for egress in found.loads if egress.node in plan.fabric.switches]
    down = [egress for egress in inner if plan.fabric.peers[egress].node in plan.fabric.hosts]
    assert {load.nbytes for load in found.loads.values()} == {MIB}
    assert len(inner) - len(down) == 2 * n_inner
    busy_s = MIB * 8 / (RATE_BPS * INA_SHARE)
    assert [load.busy_s for load in found.loads.values()] == pytest.approx([busy_s] * len(found.loads))
    assert (found.n_collisions, found.worst.together) == (0, 1)
    ring = plan_load(allreduce_plan(spec, "ring", nbytes=MIB * plan.n_ranks)).loads
    assert {load.nbytes for load in ring.values()} == {2 * (plan.n_ranks - 1) * MIB}


def test_a_phase_of_sums_has_its_hosts_links_for_a_bound() -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", "ina", nbytes=MIB)
    (phase,) = plan_load(plan).phases
    assert phase.key == (0, ADDED_UP)
    assert phase.bound_s == phase.host_s == phase.least_s == pytest.approx(MIB * 8 / (RATE_BPS * INA_SHARE))


def shared_uplink() -> Plan:
    """Two jobs, (r0, r1) and (r2, r3), each on both leaves, whose trees go by the same spine."""
    pair = sums(2, MB)
    schedule = replace(
        pair,
        n_ranks=4,
        ops=pair.ops * 2,
        aggregations=(Aggregation(0, (0, 2), (0, 2)), Aggregation(1, (1, 3), (1, 3))),
    )
    plan = schedule_plan("leaf-spine:leaves=2,spines=1,hosts=2", schedule)
    assert [tree.nodes[0].switch for tree in plan.trees] == ["spine0", "spine0"]
    return plan


def test_two_trees_on_one_uplink_are_a_collision_with_a_reason() -> None:
    plan = shared_uplink()
    (one,) = plan_load(plan).parts
    assert (one.worst.trees, one.worst.flows) == ((0, 1), ())
    assert one.worst.share == pytest.approx(2)
    assert plan.prediction.fluid_s == pytest.approx(2 * INA_MB_S)
    name = link_name(plan.fabric, one.worst.egress)
    assert why(plan, plan_load(plan)) == (
        f"{name} carries 2 trees where a host link carries 1: shared by 2 jobs; any routes need at least"
        " 1.00 × the host links' time, these 2.00 ×"
    )


def test_a_tree_of_bare_packets_below_who_does_not_give_puts_nothing_there() -> None:
    fabric = parse_fabric("star:hosts=3")
    schedule = Schedule.of(3, ops=(Op("reduce", MB),), sends=(), aggregations=(Aggregation(0, (1, 2), (0,)),))
    children = (Child(1, gives=False), Child(2, takes=False), Child(3, takes=False))
    tree = Tree(1, (1, 2), (0,), 0xBEE0, 8, 256, (Node("switch0", children),))
    plan = replace(schedule_plan("star:hosts=3", messages(3, [])), schedule=schedule, trees=(tree,))
    assert {link_name(fabric, egress) for egress in plan_load(plan).loads} == {
        "h1→switch0",
        "h2→switch0",
        "switch0→h0",
    }
