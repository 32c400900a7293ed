"""Compressed allreduces and narrower types in plans: bytes and times by their closed forms, and bad plans."""

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from gradwire.planning import plan as plans
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.closedform import closed_time, nominal_costs
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check_schedule
from gradwire.planning.refused import Refused
from gradwire.results.schedulesizes import asked_nbytes, busbw_nbytes, collective_of
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.dtypes import DType
from gradwire.traces.schedules.schedule import Op, Schedule, sent_nbytes
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import SCHEMA, Collective, Workload

MIB = 1 << 20
ETA = 1448 / 1514
LEAVES = "leaf-spine:leaves=4,spines=2,hosts=4,rate=50M"


def planned(spec: str, algorithm: str, nbytes: int, *, wire: DType = "float32") -> Plan:
    fabric = parse_fabric(spec)
    workload = made_allreduce(len(fabric.hosts), nbytes)
    return plan_of(Cell(fabric, algorithm, "linear", "ecmp"), Experiment(workload, "test", wire=wire))


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "all-pairs"])
def test_half_as_wide_numbers_take_half_of_the_time(algorithm: str, wire: DType) -> None:
    full, half = (
        planned("star:hosts=8,rate=50M", algorithm, 4 * MIB, wire=each) for each in ("float32", wire)
    )
    assert half.prediction.fluid_s / full.prediction.fluid_s == pytest.approx(0.5, rel=0.03)
    assert half.prediction.bound_s / full.prediction.bound_s == pytest.approx(0.5, rel=1e-6)
    assert asked_nbytes(half.schedule) == 2 * MIB
    assert busbw_nbytes(half.schedule, range(8)) == 2 * MIB * 7 / 4


@pytest.mark.parametrize("algorithm", ["ring", "ps:servers=2,keys"])
def test_closed_forms_of_half_as_wide_numbers_are_half_as_long(algorithm: str) -> None:
    """Also where an algorithm knows the tensors in the buffer."""
    fabric = parse_fabric("star:hosts=8,rate=50M")
    times_s: list[float] = []
    wires: tuple[DType, ...] = ("float32", "float16")
    for wire in wires:
        job = Experiment(made_allreduce(6, 4 * MIB), "test", wire=wire, keys=(MIB // 4, 3 * MIB // 4))
        plan = plan_of(Cell(fabric, algorithm, "linear", "ecmp"), job)
        time_s = closed_time(plan, nominal_costs(plan)).time_s
        assert time_s
        times_s.append(time_s)
    assert times_s[1] == pytest.approx(times_s[0] / 2)


@pytest.mark.parametrize("share", [Fraction(1, 64), Fraction(1, 8), Fraction(1, 2)])
def test_topk_and_a_ring_meet_where_one_of_p_numbers_is_kept(share: Fraction) -> None:
    """(p-1) 8k over 2(p-1)/p 4d is p k/d: 1 at k/d = 1/p."""
    topk, ring = (
        planned("star:hosts=8,rate=50M", name, 4 * MIB).prediction.fluid_s
        for name in (f"topk:{share}", "ring")
    )
    assert topk / ring == pytest.approx(8 * share, rel=0.01)


def test_every_rank_sends_its_pairs_p_less_one_times_and_rows_count_them() -> None:
    d, k = 1 << 20, 10_485  # 0.01 of them, rounded down
    plan = planned("star:hosts=8,rate=50M", "topk:0.01", 4 * d)
    assert sent_nbytes(plan.schedule) == [7 * 8 * k] * 8
    assert asked_nbytes(plan.schedule) == 4 * d
    assert busbw_nbytes(plan.schedule, range(8)) == 7 * 8 * k
    assert plan.prediction.bound_s == pytest.approx(7 * 8 * k * 8 / (50e6 * ETA))
    closed = closed_time(plan, nominal_costs(plan))
    assert closed.time_s == pytest.approx(plan.prediction.bound_s)
    assert closed.text == "(p−1)(α + 8k·β) (Shi et al. 2020)"


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_gtopk_takes_twice_the_steps_of_a_binomial_tree(p: int) -> None:
    k = 1 << 15
    plan = planned(f"star:hosts={p},rate=50M", "gtopk:1/8", 4 * 8 * k)
    closed = closed_time(plan, nominal_costs(plan))
    assert closed.time_s == pytest.approx(2 * math.log2(p) * 8 * k * 8 / (50e6 * ETA))
    assert plan.prediction.fluid_s == pytest.approx(closed.time_s, rel=0.01)


@pytest.mark.parametrize("p", range(2, 18))
def test_gtopk_is_right_for_any_number_of_ranks_and_each_sends_all_its_pairs(p: int) -> None:
    schedule = planned(f"star:hosts={p}", "gtopk:0.1", 4 * 4201).schedule
    check_correct(schedule)
    assert set(schedule.sends.nbytes.tolist()) == {8 * 420}
    assert len(schedule.sends) == 2 * (p - 1)


def star_of_three(op: Op, *, in_turn: bool) -> Schedule:
    """Ranks 1 and 2 send rank 0 all they have, and get what it has then; `in_turn`: rank 2 after rank 1."""
    sends = [
        Send(0, 1, 0, 0, op.nbytes, reduce=True),
        Send(0, 2, 0, 0, op.nbytes, reduce=True, ready=(0,) if in_turn else ()),
        *(Send(0, 0, rank, 0, op.nbytes, reduce=False, needs=(0, 1), ready=(rank - 1,)) for rank in (1, 2)),
    ]
    return Schedule.of(3, (op,), sends)


@pytest.mark.long
def test_a_gtopk_whose_children_may_come_in_either_order_is_refused() -> None:
    """The sum of an allreduce is the same in both."""
    op = Op("gtopk", 80, members=(0, 1, 2), dense_nbytes=400)
    check_correct(star_of_three(op, in_turn=True))
    check_correct(star_of_three(Op("allreduce", 80, members=(0, 1, 2)), in_turn=False))
    with pytest.raises(ValueError, match="add those of send 0 and add those of send 1 in either order"):
        check_correct(star_of_three(op, in_turn=False))


def test_pairs_that_would_be_merged_in_parts_are_refused() -> None:
    schedule = planned("star:hosts=8", "gtopk:0.1", 4 * 4201).schedule
    nbytes = schedule.sends.nbytes.copy()
    nbytes[0] -= 8
    with pytest.raises(
        ValueError, match="send 0 has 3352 of the 3360 bytes of operation 0; a send must have all pairs"
    ):
        check_schedule(replace(schedule, sends=replace(schedule.sends, nbytes=nbytes)))


def leaf_bytes(plan: Plan) -> dict[tuple[str, str], int]:
    """Payload from each leaf to the spines, and back."""
    found: dict[tuple[str, str], int] = {}
    nbytes: dict[tuple[int, int], int] = {}
    for send in plan.schedule.sends:
        nbytes[send.src, send.dst] = nbytes.get((send.src, send.dst), 0) + send.nbytes
    for flow in plan.flows:
        for egress in flow.path:
            ends = egress.node, plan.fabric.peers[egress].node
            for leaf, way in ((ends[0], "up"), (ends[1], "down")):
                if leaf.startswith("leaf") and "spine" in "".join(ends):
                    found[leaf, way] = found.get((leaf, way), 0) + nbytes.get((flow.src, flow.dst), 0)
    return found


def test_between_switches_hitopk_sends_the_kept_pairs_of_all_other_switches_and_no_byte_more() -> None:
    """(m-1) RHO d pairs of 8 bytes each way (papers: HiTopKComm), 4 switches with 4 ranks, 0.01 of 4e5."""
    d, share, m = 400_000, Fraction(1, 100), 4
    plan = planned(LEAVES, "hitopk:0.01", 4 * d)
    assert leaf_bytes(plan) == {
        (f"leaf{leaf}", way): (m - 1) * share * d * 8 for leaf in range(m) for way in ("up", "down")
    }
    dense = 2 * 3 * d  # 2 (n-1)/n of 4d bytes
    assert sent_nbytes(plan.schedule) == [dense + 3 * share * (d // 4) * 8] * 16
    assert asked_nbytes(plan.schedule) == 4 * d
    closed = closed_time(plan, nominal_costs(plan))
    assert plan.prediction.bound_s == pytest.approx((dense + 3 * 8000) * 8 / (50e6 * ETA))
    assert closed.time_s == pytest.approx(plan.prediction.bound_s)


def test_hitopk_of_ranks_that_are_alone_under_their_switches_is_topk() -> None:
    """Each switch's links carry what its rank sends."""
    one = planned("leaf-spine:leaves=4,spines=2,hosts=1,rate=50M", "hitopk:0.01", 400_000)
    other = planned("leaf-spine:leaves=4,spines=2,hosts=1,rate=50M", "topk:0.01", 400_000)
    assert one.schedule.sends == other.schedule.sends


@pytest.mark.parametrize("p", range(2, 18))
@pytest.mark.parametrize("n_numbers", [17, 4201])
def test_topk_is_right_for_any_number_of_ranks_and_odd_sizes(p: int, n_numbers: int) -> None:
    check_correct(planned(f"star:hosts={p}", "topk:0.1", 4 * n_numbers).schedule)


@pytest.mark.parametrize("leaves", [2, 3, 5])
@pytest.mark.parametrize("hosts", [2, 3])
def test_hitopk_is_right_for_any_equal_switches(leaves: int, hosts: int) -> None:
    plan = planned(f"leaf-spine:leaves={leaves},spines=2,hosts={hosts}", "hitopk:0.1", 4 * 4201)
    check_correct(plan.schedule)


@pytest.mark.parametrize(
    ("algorithm", "nbytes", "reason"),
    [
        ("topk:0", 4000, "topk:0.01 keeps one in a hundred"),
        ("topk:1.01", 4000, "above 0 and at most 1"),
        (
            "topk:0.0009",
            4000,
            "less than one of 1,000 numbers: choose topk:1/1000 or more, or larger buffers",
        ),
        ("hitopk:0.01", 4000, "hitopk needs at least 2 first switches with the same number of ranks each"),
    ],
)
def test_shares_that_keep_nothing_are_refused_with_what_works(
    algorithm: str, nbytes: int, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        planned("star:hosts=4", algorithm, nbytes)


@pytest.mark.parametrize("share", ["1%", "0.01", "1/100"])
def test_a_share_may_be_written_in_three_ways(share: str) -> None:
    """A hundredth of 10,000 numbers: 100 pairs of 8 bytes to each of 3 others."""
    assert sent_nbytes(planned("star:hosts=4", f"topk:{share}", 40_000).schedule) == [3 * 800] * 4


@pytest.mark.parametrize("text", ["", "x", "0.01%%", "-1", "1e9", "1/0", "1/2/3", "9" * 400])
def test_what_is_not_a_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a share: write it like"):
        planned("star:hosts=4", f"topk:{text}", 4000)


def test_pairs_have_no_other_type() -> None:
    with pytest.raises(Refused, match="pairs of a float32 and an index, not float16: leave --wire out"):
        planned("star:hosts=4", "topk:0.1", 4000, wire="float16")


def test_what_waited_for_an_allreduce_waits_for_its_last_stage() -> None:
    """Two buckets and a broadcast: the second bucket's first stage after the first one's last."""
    items = [
        {"kind": "allreduce", "tag": 1, "nbytes": 40_000},
        {
            "kind": "broadcast",
            "tag": 2,
            "nbytes": 10,
            "starts": [{"rank": r, "after": [0]} for r in range(4)],
        },
        {
            "kind": "allreduce",
            "tag": 3,
            "nbytes": 8000,
            "starts": [{"rank": r, "after": [0, 1]} for r in range(4)],
        },
    ]
    job = Workload(
        schema=SCHEMA, framing="gloo", n_ranks=4, items=tuple(map(Collective.model_validate, items))
    )
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2")
    schedule = plan_of(Cell(fabric, "hitopk:0.1", "linear", "ecmp"), Experiment(job, "test")).schedule
    kinds = ["reducescatter", "topk", "allgather", "broadcast", "reducescatter", "topk", "allgather"]
    assert schedule.stages == {0, 1, 2, 4, 5, 6}
    assert collective_of(schedule) is None
    assert [op.kind for op in schedule.ops] == kinds
    assert [op.tag for op in schedule.ops] == [1, 1, 1, 2, 3, 3, 3]
    after = {(gate.op, gate.after) for gate in schedule.gates}
    assert after == {(1, (0,)), (2, (1,)), (3, (2,)), (4, (2, 3)), (5, (4,)), (6, (5,))}
    assert schedule.sends.op.tolist() == sorted(schedule.sends.op.tolist())


def test_a_plan_file_keeps_all_of_it(tmp_path: Path) -> None:
    plan = planned(LEAVES, "hitopk:0.01", 400_000)
    assert collective_of(plan.schedule) == "allreduce"
    plans.save(plan, tmp_path / "plan.json")
    assert plans.load(tmp_path / "plan.json").schedule == plan.schedule


def test_a_gibibyte_is_planned_without_making_its_numbers() -> None:
    """A rank's numbers alone would be the gibibyte; its pairs are 21 MB."""
    tracemalloc.start()
    try:
        plan = planned("star:hosts=16", "topk:0.01", 1 << 30)
        most_nbytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most_nbytes < 1 << 27
    assert sent_nbytes(plan.schedule) == [15 * 8 * ((1 << 28) // 100)] * 16


Change = Callable[[tuple[Op, ...]], tuple[Op, ...]]


def changed(number: int, **values: object) -> Change:
    def change(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        return (*ops[:number], replace(ops[number], **values), *ops[number + 1 :])  # type: ignore[arg-type]

    return change


GROUPS = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed(1, groups=GROUPS), "each of its groups must have the ranks with the same chunk"),
        (
            changed(1, source=None),
            "its groups differ from the groups of the reducescatter that operation 1 carries on",
        ),
        (
            changed(2, groups=()),
            "its groups differ from the groups of the reducescatter that operation 1 carries on",
        ),
        (changed(1, source=2), "its source must be an earlier reducescatter, got operation 2"),
        (changed(2, source=0), "its source must be an earlier topk, got operation 0"),
        (changed(0, groups=GROUPS[:3]), "its groups must be of one size and have each member once"),
        (
            changed(0, groups=(*GROUPS[:3], (15, 14, 13, 12))),
            "its groups must be of one size and have each member once",
        ),
        (
            changed(1, nbytes=8001),
            "8001 bytes are not the same number of pairs of 8 bytes from each of 4 members",
        ),
        (changed(1, dense_nbytes=400), "pairs from the numbers in 400 bytes"),
        (changed(0, dense_nbytes=4), "it sends no pairs, so dense_nbytes must be 0, got 4"),
        (changed(1, dense_nbytes=400_004), "other members or sizes than its source"),
        (
            lambda ops: changed(1, groups=(), nbytes=16_000)(changed(0, groups=())(ops)),
            "operation 1, topk: it carries on operation 0, so it must be done in groups",
        ),
    ],
)
def test_stages_that_do_not_carry_each_other_on_are_refused(change: Change, reason: str) -> None:
    schedule = planned(LEAVES, "hitopk:0.01", 400_000).schedule
    with pytest.raises(ValueError, match=reason):
        check_schedule(replace(schedule, ops=change(schedule.ops)))


def test_a_gtopk_that_carries_on_another_operation_is_refused() -> None:
    schedule = planned("star:hosts=4", "gtopk:0.1", 4000).schedule
    with pytest.raises(ValueError, match="operation 0, gtopk: it cannot carry on another operation"):
        check_schedule(replace(schedule, ops=changed(0, source=0)(schedule.ops)))


def test_a_stage_that_does_not_wait_for_its_source_is_refused() -> None:
    schedule = planned(LEAVES, "hitopk:0.01", 400_000).schedule
    gates = tuple(gate for gate in schedule.gates if (gate.op, gate.rank) != (1, 5))
    with pytest.raises(ValueError, match="operation 1 carries on operation 0, so rank 5 must wait for it"):
        check_schedule(replace(schedule, gates=gates))


def test_a_send_out_of_its_group_is_refused() -> None:
    schedule: Schedule = planned(LEAVES, "hitopk:0.01", 400_000).schedule
    src = schedule.sends.src.copy()
    src[0] = 9
    with pytest.raises(
        ValueError, match="send 0 goes from rank 9 to 1, which are in different groups of operation 0"
    ):
        check_schedule(replace(schedule, sends=replace(schedule.sends, src=src)))
