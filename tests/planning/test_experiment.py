"""Cells as plans: mistakes show before the first is run, and switches add up what they have room for."""

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from gradwire.planning import plan as plans
from gradwire.planning.experiment import Cell, Experiment, cells, plan_of, schedule_of
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.flowhash import flow_hash, switch_salt
from gradwire.planning.openflow.match import PROTO_TCP
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check
from gradwire.planning.refused import Refused
from gradwire.planning.trees.tree import DEFAULT_ELEMENTS
from gradwire.results.laboratory import planned
from gradwire.results.row import REFUSED, Row
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.workload import SCHEMA, CapturedConnection, Message, Start, Workload

FAT_TREE = parse_fabric("fat-tree:k=4,levels=2,rate=50M")
BIGRAPH = parse_fabric("bigraph:n=4,m=2,rate=50M")
STAR = parse_fabric("star:hosts=8")
NBYTES = 8 * 4200
JOB = Experiment(made_allreduce(8, NBYTES), "test")
FOUR = made_allreduce(4, NBYTES)
PUSHES = Workload(
    schema=SCHEMA,
    framing="made",
    n_ranks=4,
    items=tuple(Message(src=r, dst=0, nbytes=NBYTES, role="push", start=Start(rank=r)) for r in (1, 2, 3)),
)


def test_a_cell_that_makes_no_sense_is_a_row_and_the_others_are_plans() -> None:
    work = [
        (cell, JOB) for cell in cells([FAT_TREE, BIGRAPH], ["halving-doubling"], ["hdrm"], ["ecmp", "direct"])
    ]
    made = planned(work)
    assert [isinstance(one, Row) for one in made] == [True, True, False, False]
    assert isinstance(made[0], Row)
    assert (made[0].verdict, made[0].time_s) == (REFUSED, None)
    assert "hdrm works only on a BiGraph" in made[0].reasons[0]


def test_the_only_cell_is_refused_as_an_error_before_anything_is_made() -> None:
    with pytest.raises(Refused, match="hdrm works only on a BiGraph"):
        planned([(Cell(FAT_TREE, "halving-doubling", "hdrm", "direct"), JOB)])


def test_halving_doubling_serves_a_number_of_ranks_that_is_no_power_of_two() -> None:
    """In 2 floor(lg n) + 3 steps (see traces.schedules.algorithms.doubling)."""
    job = Experiment(made_allreduce(6, 4200), "test")
    plan = plan_of(Cell(FAT_TREE, "halving-doubling", "linear", "ecmp"), job)
    assert {send.step for send in plan.schedule.sends} == set(range(2 * 2 + 3))


@pytest.mark.parametrize(
    ("algorithm", "placement", "routes"),
    [("rign", "linear", "ecmp"), ("ring", "liner", "ecmp"), ("ring", "linear", "ecpm")],
)
def test_a_misspelt_name_is_an_error_before_anything_is_run(
    algorithm: str, placement: str, routes: str
) -> None:
    good = (Cell(FAT_TREE, "ring", "linear", "ecmp"), JOB)
    with pytest.raises(ValueError, match=r"no .*'(rign|liner|ecpm)'") as error:
        planned([good, (Cell(FAT_TREE, algorithm, placement, routes), JOB)])
    assert not isinstance(error.value, Refused)


def added_up(fabric: str, algorithm: str, job: Experiment = JOB, placement: str = "linear") -> Plan:
    """The plan; what it is must be what a file may hold."""
    plan = plan_of(Cell(parse_fabric(fabric), algorithm, placement, "ecmp"), job)
    check(plan)
    return plan


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "bigraph:n=4,m=2", "leaf-spine:leaves=4,spines=2,hosts=2"])
@pytest.mark.parametrize("placement", ["linear", "random"])
def test_with_ina_one_tree_serves_all_allreduces_and_no_rank_sends_to_another(
    spec: str, placement: str
) -> None:
    plan = added_up(spec, "ina", Experiment(made_allreduce(8, NBYTES, 3), "test"), placement)
    assert [(tree.givers, tree.takers) for tree in plan.trees] == [(tuple(range(8)),) * 2]
    assert len(plan.schedule.aggregations) == 3
    assert (len(plan.schedule.sends), plan.flows, plan.host_side) == (0, (), ())


def test_with_ina_at_the_leaves_each_first_switch_has_a_tree_of_its_own() -> None:
    plan = added_up("leaf-spine:leaves=4,spines=2,hosts=2", "ina:leaf")
    assert [[node.switch for node in tree.nodes] for tree in plan.trees] == [[f"leaf{i}"] for i in range(4)]
    assert [tree.givers for tree in plan.trees] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert plan.flows


def test_leaves_are_those_of_where_the_ranks_of_each_job_are() -> None:
    job = Experiment(FOUR, "test", beside=(FOUR,))
    plan = added_up("leaf-spine:leaves=2,spines=2,hosts=4", "ina:leaf", job)
    assert [(tree.nodes[0].switch, tree.givers) for tree in plan.trees] == [
        ("leaf0", (0, 1, 2, 3)),
        ("leaf1", (4, 5, 6, 7)),
    ]
    drawn = added_up("leaf-spine:leaves=2,spines=2,hosts=4", "ina:leaf", replace(job, seed=3), "random")
    for tree in drawn.trees:
        (node,) = tree.nodes
        assert {drawn.fabric.neighbours[node.switch][child.port] for child in node.children} == {
            drawn.placement[rank] for rank in tree.members
        }


def test_jobs_without_slots_are_done_by_their_hosts_and_the_plan_says_why() -> None:
    job = Experiment(FOUR, "test", beside=(FOUR,), switch_slots=132, slots=128)
    plan = added_up("star:hosts=8", "ina", job)
    assert plan.host_side == ("job 2 of 2: switch0 has 4 of 132 slots left, 8 are needed",)
    assert [tree.givers for tree in plan.trees] == [(0, 1, 2, 3)]
    assert {rank for send in plan.schedule.sends for rank in (send.src, send.dst)} == {4, 5, 6, 7}
    assert len(plan.schedule.sends) == 2 * 3 * 4  # a ring's
    assert (plan.algorithm, plan.switch_slots) == ("ina", 132)


@pytest.mark.parametrize(
    ("algorithm", "changed", "reason"),
    [
        ("ina", {}, "switches can add up nothing in this job: 1 of 1 pushes"),
        ("as-captured", {"wire": "bfloat16"}, "nothing is added up in this job"),
        ("ring", {"iterations": (0,)}, "nothing to send in iteration 0"),
        ("as-captured", {"iterations": (0,)}, "nothing to send in iteration 0"),
    ],
)
def test_what_is_wrong_with_one_of_several_jobs_is_said_with_its_name(
    algorithm: str, changed: dict[str, Any], reason: str
) -> None:
    other = Message(src=0, dst=1, nbytes=8, role="push", iteration=1, start=Start(rank=0))
    beside = PUSHES.model_copy(update={"items": (other,), "source": "easgd of 4"})
    job = replace(Experiment(FOUR, "test", beside=(beside,)), **changed)
    with pytest.raises(ValueError, match=f"^job 2 of 2, easgd of 4: {reason}"):
        added_up("star:hosts=8", algorithm, job)
    alone = replace(job, workload=beside, beside=())
    with pytest.raises(ValueError, match=f"^{reason}"):
        added_up("star:hosts=8", algorithm, alone)


@pytest.mark.parametrize("algorithm", ["ina", "ring"])
def test_a_job_whose_tree_would_have_no_place_after_a_failure_is_done_by_its_hosts(algorithm: str) -> None:
    spec, pair = "leaf-spine:leaves=4,spines=2,hosts=1", made_allreduce(2, NBYTES)
    cuts = ("leaf0-spine0@0.5", "leaf2-spine0@0.5")
    plan = added_up(spec, algorithm, Experiment(pair, "test", beside=(pair,), fail=cuts, switch_slots=12))
    if algorithm == "ring":
        assert (plan.host_side, plan.trees) == ((), ())
        return
    (reason,) = plan.host_side
    (tree,) = plan.trees
    hosts_job = {1: 0, 2: 1}[int(reason[4])]
    assert reason == (
        f"job {hosts_job + 1} of 2: at 0.5 s, with leaf0-spine0, leaf2-spine0 down, "
        "spine1 has 4 of 12 slots left, 8 are needed"
    )
    assert tree.slots == 12  # now that it is alone
    assert {send.src for send in plan.schedule.sends} == {2 * hosts_job, 2 * hosts_job + 1}
    assert set(tree.members).isdisjoint(send.src for send in plan.schedule.sends)


def test_hosts_that_a_failure_cuts_off_are_an_error_with_aggregation_too() -> None:
    cuts = ("leaf0-spine0@0.5", "leaf0-spine1@0.5")
    with pytest.raises(ValueError, match=r"rank 0 on h0 is cut off for good; say when leaf0-spine0"):
        added_up(
            "leaf-spine:leaves=2,spines=2,hosts=1",
            "ina",
            Experiment(made_allreduce(2, NBYTES), "test", fail=cuts),
        )


def test_without_any_slots_the_plan_is_that_of_a_ring() -> None:
    made, ring = (
        added_up("fat-tree:k=4", algorithm, replace(JOB, switch_slots=0)) for algorithm in ("ina", "ring")
    )
    assert (made.schedule, made.flows, made.trees) == (ring.schedule, ring.flows, ())
    assert made.prediction == ring.prediction
    assert len(made.host_side) == 1


def test_a_job_with_more_ranks_than_a_switch_can_tell_apart_is_done_by_its_hosts() -> None:
    plan = added_up("star:hosts=65", "ina", Experiment(made_allreduce(65, NBYTES), "test"))
    assert plan.host_side == ("job 1 of 1: switch0 would add up 65 children, the limit is 64",)


def test_pushes_to_a_server_are_added_up_on_the_way_or_sent_as_they_were() -> None:
    plan = added_up("star:hosts=8", "ina", Experiment(PUSHES, "test"))
    assert [(tree.givers, tree.takers) for tree in plan.trees] == [((1, 2, 3), (0,))]
    full = added_up("star:hosts=8", "ina", Experiment(PUSHES, "test", switch_slots=0))
    assert full.schedule == schedule_of(Experiment(PUSHES, "test"), "as-captured")


def test_pushes_that_cannot_be_added_up_are_named() -> None:
    odd = Message(src=1, dst=0, nbytes=NBYTES + 1, role="push", start=Start(rank=1))
    plan = added_up(
        "star:hosts=8", "ina", Experiment(PUSHES.model_copy(update={"items": (*PUSHES.items, odd)}), "test")
    )
    assert len(plan.host_side) == 1
    assert plan.host_side[0].startswith("job 1 of 1: 1 of 4 pushes to rank 0 stay messages")
    assert len(plan.schedule.sends) == 1


def test_a_plan_doubts_what_a_server_does_that_answers_who_comes_first() -> None:
    """With each push answered by itself the order is chance; with all answered together it is not."""
    answers = tuple(
        Message(src=0, dst=r, nbytes=NBYTES, role="pull", start=Start(rank=0, after=(r - 1,)))
        for r in (1, 2, 3)
    )
    captured = {"addresses": tuple(f"10.0.0.{rank + 1}" for rank in range(PUSHES.n_ranks)), "source": "ps"}
    each = PUSHES.model_copy(update={"items": (*PUSHES.items, *answers), **captured})
    cell = Cell(STAR, "as-captured", "linear", "ecmp")
    (doubt,) = plan_of(cell, Experiment(each, "test")).doubts
    assert doubt.startswith("server 0 of ps answers the worker that comes first")
    assert plan_of(cell, Experiment(each, "test", captured_on=STAR)).doubts == ()
    assert len(plan_of(cell, Experiment(each, "test", captured_on=BIGRAPH)).doubts) == 1
    assert plan_of(cell, Experiment(PUSHES, "test")).doubts == ()
    locked = [
        item.model_copy(update={"lock_until": n})
        if isinstance(item, Message) and item.role == "push"
        else item
        for n, item in enumerate(each.items)
    ]
    with_lock = each.model_copy(update={"items": tuple(locked)})
    assert plan_of(cell, Experiment(with_lock, "test")).doubts == ()
    made = each.model_copy(update={"addresses": ()})  # where nobody came first, because nothing was captured
    assert plan_of(cell, Experiment(made, "test")).doubts == ()


def test_where_nothing_can_be_added_up_the_cell_is_refused() -> None:
    lone = PUSHES.model_copy(update={"items": PUSHES.items[:1]})
    with pytest.raises(Refused, match="switches can add up nothing in this job"):
        plan_of(Cell(STAR, "ina", "linear", "ecmp"), Experiment(lone, "test"))


def test_the_terms_of_the_job_are_those_of_its_trees() -> None:
    (tree,) = added_up("star:hosts=8", "ina", replace(JOB, slots=16, elements=64)).trees
    assert (tree.slots, tree.elements) == (16, 64)
    (tree,) = added_up("star:hosts=8", "ina").trees
    assert (tree.slots, tree.elements) == (128, DEFAULT_ELEMENTS)


def test_the_bound_of_a_sum_is_its_bytes_and_headers_once_out_of_each_host_and_in() -> None:
    """256 elements of 4 bytes in frames of 1,090: 14 + 20 + 8 + 24 are headers."""
    plan = added_up("star:hosts=8,rate=100M", "ina", Experiment(made_allreduce(8, 1 << 20), "test"))
    assert plan.prediction.bound_s == pytest.approx((1 << 20) * 1090 / 1024 * 8 / 100e6)


def test_losses_are_read_and_a_cable_has_one() -> None:
    plan = added_up("star:hosts=8", "ring", replace(JOB, loss=("1%@h0-switch0", "2%@h1-switch0")))
    assert {loss.port: loss.ratio for loss in plan.losses if loss.port.node != "switch0"} == {
        Egress("h0", 0): 0.01,
        Egress("h1", 0): 0.02,
    }
    with pytest.raises(ValueError, match="loss: the cable from h1 to switch0 is named twice"):
        plan_of(Cell(STAR, "ring", "linear", "ecmp"), replace(JOB, loss=("1%", "2%@h1-switch0")))


def test_a_plan_with_trees_read_back_from_its_file_is_the_same(tmp_path: Path) -> None:
    job = Experiment(FOUR, "test", beside=(FOUR,), switch_slots=132, loss=("1%@hosts",))
    plan = added_up("bigraph:n=4,m=2", "ina", job, "random")
    plans.save(plan, tmp_path / "plan.json")
    assert plans.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize("change", [{"slots": 4}, {"elements": 2048}, {"loss": ("lots",)}])
def test_terms_and_losses_that_make_no_sense_are_errors_of_one_line(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"slots|elements|loss") as error:
        added_up("star:hosts=8", "ina", replace(JOB, **change))  # type: ignore[arg-type]
    assert not isinstance(error.value, Refused)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("beside", [(), (FOUR,)])
@pytest.mark.parametrize("seed", [0, 7])
def test_ecmp_takes_a_flows_path_by_the_ports_of_the_captured_connection(
    seed: int, beside: tuple[Workload, ...]
) -> None:
    """At the worker's switch, of two ways up the one that the hash of the captured 5-tuple names."""
    fabric = parse_fabric("leaf-spine:leaves=8,spines=2,hosts=1")
    first = sum(workload.n_ranks for workload in beside)
    server, worker = (int(IPv4Address(fabric.ip(f"h{rank + first}"))) for rank in (0, 3))
    leaf = f"leaf{first + 3}"
    ways_up = sorted(port for port, peer in fabric.neighbours[leaf].items() if peer.startswith("spine"))
    taken = []
    for port in range(2000, 2008):
        seen = PUSHES.model_copy(
            update={"connections": (CapturedConnection(a=0, b=3, port_a=port, port_b=4711),)}
        )
        workloads = (*beside, seen)
        job = Experiment(workloads[0], "test", seed=seed, beside=workloads[1:])
        plan = plan_of(Cell(fabric, "as-captured", "linear", "ecmp"), job)
        (flow,) = (flow for flow in plan.flows if (flow.src, flow.dst) == (first + 3, first))
        number = flow_hash(worker, server, PROTO_TCP, 4711, port, switch_salt(fabric.dpid(leaf), seed))
        assert flow.path[1] == Egress(leaf, ways_up[number % 2])
        taken.append(flow.path[1].port)
    assert set(taken) == set(ways_up)
