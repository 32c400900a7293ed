"""Plans from files: what is out of range is refused with its place, in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import BadPlan, Plan
from gradwire.planning.plancheck import check_schedule
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_tree_plans import TWO_LEVELS, star_tree, summed, tree_plan, two_level_tree

Value = dict[str, Any]


def made_plan() -> Plan:
    fabric = parse_fabric("fat-tree:k=4,levels=2")
    return resolve(
        fabric,
        expand(made_allreduce(4, 4000, count=2), "ring", scale=Fraction(1)),
        algorithm="ring",
        placement="linear",
        routes="ecmp",
        seed=0,
        transport=fabric_transport(fabric),
    )


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    plans.save(made_plan(), tmp_path / "plan.json")
    assert plans.load(tmp_path / "plan.json") == made_plan()


def spoiled(change: Callable[[Value], None], folder: Path, plan: Plan | None = None) -> Path:
    value = json.loads(json.dumps(plans.to_json(plan or made_plan())))
    change(value)
    path = folder / "plan.json"
    path.write_text(json.dumps(value))
    return path


def send(number: int, **fields: object) -> Callable[[Value], None]:
    """Change columns of one send."""

    def change(value: Value) -> None:
        for name, changed in fields.items():
            value["schedule"]["sends"][name][number] = changed

    return change


def no_sends(value: Value) -> Value:
    return {name: [] for name in value["schedule"]["sends"]}


def flow(number: int, **fields: object) -> Callable[[Value], None]:
    return lambda value: value["flows"][number].update(fields)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (send(0, op=999), "send 0 names operation 999, the plan has 2"),
        (send(0, op=-1), "send 0 names operation -1"),
        (send(0, dst=0), "send 0 goes from rank 0 to 0; these must be two ranks from 0 to 3"),
        (send(0, dst=9), "send 0 goes from rank 0 to 9; these must be two ranks from 0 to 3"),
        (send(0, offset=3999), "bytes at offset 3999 exceed"),
        (send(0, nbytes=-4), "send 0: -4 bytes at offset 0"),
        (send(0, offset=2), "send 0 adds bytes that are not whole"),
        (send(5, needs=[5]), "send 5 waits for send 5, which does not come before it"),
        (send(5, ready=[99_999]), "send 5 waits for send 99999"),
        (send(4, needs=[1]), "which rank 0 neither sends nor receives"),
        (send(0, src="zero"), "schedule.sends: the column src of the sends must have whole numbers"),
        (lambda value: value["schedule"]["gates"][0].update(after=[1]), "gate 0: operation 1 cannot come"),
        (lambda value: value["schedule"]["gates"][0].update(gap_ns=-1), "gate 0"),
        (
            lambda value: value["schedule"]["gates"].append(value["schedule"]["gates"][0]),
            "two gates at rank 0",
        ),
        (
            lambda value: value["schedule"]["ops"][0].update(nbytes=4001),
            "operation 0, allreduce: 4001 bytes",
        ),
        (lambda value: value["schedule"]["ops"][0].update(nbytes=1 << 51), f"{1 << 51} bytes"),
        (lambda value: value["schedule"]["ops"][0].update(root=4), "root 4"),
        (
            lambda value: value["schedule"]["ops"][0].update(room_nbytes=-1),
            "room for -1 bytes is out of range",
        ),
        (lambda value: value["schedule"]["ops"][0].update(room_nbytes=1 << 60), "operation 0: room for"),
        (
            lambda value: value["schedule"]["ops"][0].update(dense_nbytes=-(10**30)),
            "operation 0: a dense_nbytes of -1000000000000000000000000000000 is out of range",
        ),
        (
            lambda value: value["schedule"]["ops"][0].update(dense_nbytes=1 << 60),
            "operation 0: a dense_nbytes",
        ),
        (
            lambda value: value["schedule"]["ops"][0].update(sizes=[[1] * 4] * 4),
            "operation 0: only an alltoall has sizes, from each member to each; it is allreduce of 4 members",
        ),
        (
            lambda value: value["schedule"]["ops"][0].update(kind="alltoall", sizes=[[1] * 4] * 3),
            "operation 0: only an alltoall has sizes, from each member to each; it is alltoall of 4 members",
        ),
        (
            lambda value: value["schedule"]["ops"][0].update(kind="alltoall", sizes=[[1] * 4] * 4),
            "operation 0: with its sizes nbytes must be 4",
        ),
        (lambda value: value["schedule"]["ops"][0].update(tag=1 << 32), "tag 4294967296"),
        (lambda value: value["schedule"]["gates"][0].update(gap_ns=10**18), "gate 0"),
        (lambda value: value["schedule"].update(sends=no_sends(value), gates=[]), "it sends nothing"),
        (send(0, reduce=1), "the column reduce of the sends must have true and false"),
        (send(0, nbytes=True), "the column nbytes of the sends must have whole numbers"),
        (send(0, nbytes=1 << 70), "the column nbytes of the sends has a number that is too large"),
        (send(0, offset=(1 << 63) - 4), "exceed the operation's 4000"),
        (send(0, shift=-4), "bytes at offset -4 exceed the operation's 4000"),
        (send(0, shift=3004), "1000 bytes at offset 3004 exceed the operation's 4000"),
        (send(0, needs=7), "the column needs of the sends must have lists"),
        (send(0, needs=["one"]), "the column needs of the sends must have whole numbers"),
        (lambda value: value["schedule"]["sends"]["src"].pop(), "the columns of the sends differ in length"),
        (lambda value: value["schedule"]["sends"].pop("src"), "the sends must be the columns op, src, dst"),
        (lambda value: value["schedule"].update(sends=[]), "the sends must be the columns op, src, dst"),
        (lambda value: value["schedule"].update(n_ranks=5), "each of 5 ranks needs a host of its own"),
        (
            lambda value: value.update(placement=["h0", "h1", "h2", "h2"]),
            "needs a host of its own, got 3 hosts",
        ),
        (lambda value: value.update(placement=["h0", "h1", "h2", "h99"]), "'h99' is not a host"),
        (lambda value: value.update(fabric="torus:k=3"), "torus"),
        (
            lambda value: value.update(schema="gradwire.plan/2"),
            "it is gradwire.plan/2, which an older gradwire wrote",
        ),
        (lambda value: value.update(schema="else"), "its schema is not gradwire.plan/3"),
        (lambda value: value.pop("fabric"), "fabric is missing"),
        (lambda value: value.pop("flows"), "flows"),
        (lambda value: value["flows"].pop(), "one flow in each direction"),
        (lambda value: value.update(flows=[]), "sends to 1, but there is no flow"),
        (flow(0, sport=0), "ports"),
        (flow(0, sport=70_000), "ports"),
        (flow(0, src_ip="8.8.8.8"), "addresses are not the addresses of"),
        (flow(0, path=[]), "ends at h"),
        (flow(0, path=[{"node": "nowhere", "port": 1}]), "leaves port 1 of nowhere"),
        (lambda value: value["transport"].update(congestion_control="cubic; rm -rf"), "congestion control"),
        (lambda value: value["transport"].update(rcvbuf_nbytes=1 << 40), "socket buffers"),
        (lambda value: value["transport"].update(gso_max_nbytes=1), "segments must have 1500 to 65536 bytes"),
        (
            lambda value: value.update(
                fabric=f"{value['fabric']},mtu=9000", transport=value["transport"] | {"gso_max_nbytes": 8999}
            ),
            "segments must have 9000 to 65536 bytes",
        ),
        (lambda value: value["prediction"].update(fluid_s=1e300), "it would take"),
        (lambda value: value["prediction"].update(fluid_s=float("nan")), "it would take"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(
    change: Callable[[Value], None], reason: str, tmp_path: Path
) -> None:
    path = spoiled(change, tmp_path)
    with pytest.raises(BadPlan) as refusal:
        plans.load(path)
    assert reason in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: not a plan: ")
    assert "\n" not in str(refusal.value)


def test_of_many_operations_that_a_gate_waits_for_the_first_are_named() -> None:
    ops = tuple(Op(kind="message", nbytes=4, members=(0, 1)) for _ in range(100))
    sends = [Send(number, 0, 1, 0, 4, reduce=False) for number in range(100)]
    gates = (Gate(99, 0, tuple(range(99)), gap_ns=-1),)
    with pytest.raises(ValueError, match=r"cannot come -1 ns after 0, 1, 2, 3, 4, 5 and 93 more$"):
        check_schedule(Schedule.of(2, ops, sends, gates))


def test_operations_whose_sends_wait_for_each_other_in_one_slot_are_refused() -> None:
    """The second of a slot waits for the first, which is of an operation that waits for the second's."""
    ops = Op("message", 4, tag=7), Op("message", 4, tag=7)
    gates = (Gate(1, 0, (0,)),)
    sends = Send(0, 0, 1, 0, 4, reduce=False), Send(1, 0, 1, 0, 4, reduce=False)
    check_schedule(Schedule.of(2, ops, sends, gates))
    with pytest.raises(
        ValueError, match=r"^send 1 of operation 0 comes after one of operation 1; sends must"
    ):
        check_schedule(Schedule.of(2, ops, reversed(sends), gates))


@pytest.mark.parametrize("members", [(), (0, 1)])
def test_a_root_that_takes_no_part_is_refused(members: tuple[int, ...]) -> None:
    sends = (Send(0, 0, 1, 0, 4, reduce=False),)
    check_schedule(Schedule.of(3, (Op("broadcast", 4, members=members),), sends))
    with pytest.raises(ValueError, match=r"^operation 0: its root 2 must be among its members$"):
        check_schedule(Schedule.of(3, (Op("broadcast", 4, root=2, members=members),), sends))


def leafwise_plan() -> Plan:
    """Sums of each leaf, sends, and a reduce."""
    schedule = expand(made_allreduce(4, 4000, count=2), "ina:leaf", hints=Hints(((0, 1), (2, 3))))
    nodes = two_level_tree().nodes[1:]
    trees = [
        replace(star_tree(ranks, number=number), nodes=(replace(nodes[number], parent_port=None),))
        for number, (ranks, _) in enumerate(schedule.groups)
    ]
    return tree_plan(TWO_LEVELS, schedule, trees, loss="1%")


def server_plan() -> Plan:
    tree = star_tree((0, 1, 2, 3), server=2)
    return tree_plan("star:hosts=4", summed(tree, 4, [400, 40, 4]), [tree])


@pytest.mark.parametrize("made", [leafwise_plan, server_plan])
def test_a_plan_with_trees_comes_back_from_its_file(made: Callable[[], Plan], tmp_path: Path) -> None:
    plans.save(made(), tmp_path / "plan.json")
    assert plans.load(tmp_path / "plan.json") == made()


def aggregation(number: int, **fields: object) -> Callable[[Value], None]:
    return lambda value: value["schedule"]["aggregations"][number].update(fields)


def tree(number: int, **fields: object) -> Callable[[Value], None]:
    return lambda value: value["trees"][number].update(fields)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (aggregation(0, op=7), "aggregation 0 names operation 7, the plan has 2"),
        (aggregation(0, op=1), "aggregation 2 of operation 1 comes after one of a later operation"),
        (aggregation(0, givers=[]), "aggregation 0: its givers and takers must be ranks in ascending order"),
        (aggregation(0, givers=[1, 0]), "ranks in ascending order"),
        (aggregation(0, givers=[0, 0]), "ranks in ascending order"),
        (aggregation(0, givers=[-1, 0]), "ranks in ascending order"),
        (aggregation(0, takers=[0, 4]), "ranks in ascending order"),
        (aggregation(0, takers=[0]), "switches cannot do allreduce"),
        (
            lambda value: value["schedule"].update(
                sends=no_sends(value),
                gates=[],
                ops=[{**op, "members": [1, 2, 3], "givers": []} for op in value["schedule"]["ops"]],
            ),
            "aggregation 0: its givers and takers must be members of operation 0",
        ),
        (aggregation(0, givers=[0], takers=[0]), "switches cannot do allreduce"),
        (aggregation(1, givers=[0, 3], takers=[0, 3]), "operation 0 has rank 0 in two of its aggregations"),
        (
            lambda value: value["schedule"].update(
                sends=no_sends(value),
                gates=[],
                ops=[{**op, "kind": "allreduce"} for op in value["schedule"]["ops"]],
            ),
            "operation 0: nothing joins the sums of its 2 aggregations",
        ),
        (
            send(-1, op=0),
            "of operation 0 comes after one of operation 1; sends must be in the order of their operations",
        ),
        (lambda value: value["trees"].pop(), "trees: 2 reduce groups need 2 trees"),
        (
            lambda value: value["trees"].reverse(),
            "tree 0: its givers and takers differ from those of reduce group 0",
        ),
        (lambda value: value.update(switch_slots=-1), "switch_slots: a switch can have 0 to 65535, got -1"),
        (lambda value: value.update(switch_slots=7), "leaf0 grants 8 slots but has only 7"),
        (tree(0, elements=0), "tree 0: a packet cannot have 0 elements: choose 64, 256 or 2048"),
        (tree(0, elements=2048), "tree 0: 2048 elements in a packet need an mtu of at least 8244"),
        (tree(1, job=1), "trees: 2 trees have job 1"),
        (tree(1, udp_port=0xBEE0), "trees: 2 trees have udp_port 48864"),
        (lambda value: value["losses"][0].update(ratio=0.9), "of the packets, got 0.9"),
        (lambda value: value["losses"][0].update(port=["h0", 77]), "loss: h0 has no port 77"),
    ],
)
def test_aggregations_and_trees_that_make_no_sense_are_refused(
    change: Callable[[Value], None], reason: str, tmp_path: Path
) -> None:
    path = spoiled(change, tmp_path, leafwise_plan())
    with pytest.raises(BadPlan) as refusal:
        plans.load(path)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda value: value["schedule"]["ops"][0].update(root=1), "switches cannot do reduce"),
        (lambda value: value["schedule"]["ops"][0].update(kind="broadcast"), "switches cannot do broadcast"),
        (lambda value: value["schedule"]["ops"][0].update(kind="message"), "switches cannot do message"),
        (lambda value: value["schedule"]["ops"][0].update(nbytes=401), "401 bytes"),
        (lambda value: value["schedule"].update(aggregations=[]), "it sends nothing"),
    ],
)
def test_a_reduce_that_cannot_be_done_by_switches_is_refused(
    change: Callable[[Value], None], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(BadPlan, match=reason):
        plans.load(spoiled(change, tmp_path, server_plan()))


def test_a_send_of_a_reduce_is_refused(tmp_path: Path) -> None:
    def change(value: Value) -> None:
        value["schedule"]["ops"][1].update(kind="reduce")
        value["schedule"]["aggregations"][2].update(takers=[0])
        value["schedule"]["aggregations"][3:] = []

    with pytest.raises(BadPlan, match="operation 1, a reduce that switches do"):
        plans.load(spoiled(change, tmp_path, leafwise_plan()))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "\x00\xff"])
def test_what_is_no_json_is_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(BadPlan, match="not a plan"):
        plans.load(tmp_path / "plan.json")
