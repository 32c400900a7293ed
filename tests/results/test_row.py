"""Rows: figures by their definitions, fields as documented."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.disturbance import Reason
from gradwire.planning.experiment import Cell, Experiment, plan_of, schedule_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.errorbar import Expected
from gradwire.planning.model.loads import plan_load
from gradwire.planning.model.predict import bound_s
from gradwire.planning.plan import Plan
from gradwire.results.planfigures import nominal_figures
from gradwire.results.row import FailedCable, Row, row
from gradwire.results.schedulesizes import asked_nbytes, busbw_nbytes, collective_of
from gradwire.results.verdict import Verdict
from gradwire.traces.making.collectives import made_allreduce, made_collective, made_uneven_alltoall
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE, DEFAULTS, PAIRWISE
from gradwire.traces.schedules.schedule import together
from gradwire.traces.schedules.sends import Sends
from tests.made_plans import messages
from tests.made_runs import made_repeat, made_run
from tests.planning.test_addedup import pushes

P = 8
NBYTES = 8 * 42_000


def plan() -> Plan:
    cell = Cell(parse_fabric("fat-tree:k=4,levels=2,rate=50M"), "ring", "linear", "dmodk")
    return plan_of(cell, Experiment(made_allreduce(P, NBYTES), "test"))


def row_of(*times_s: float, disturbed: float | None = None) -> Row:
    made = plan()
    repeats = [made_repeat(P, time_s) for time_s in times_s]
    if disturbed is not None:
        repeats.append(replace(made_repeat(P, disturbed), disturbed=(Reason("stalled"),)))
    return row(
        made,
        repeats,
        Verdict(valid=True),
        expected=Expected(0.1),
        figures=nominal_figures(made, plan_load(made)),
        folder=Path("run"),
    )


def test_figures_follow_their_definitions() -> None:
    made = row_of(0.3, 0.1, 0.2)
    assert made.time_s is not None
    assert (made.time_s.median, made.time_s.min, made.time_s.max) == (0.2, 0.1, 0.3)
    assert made.algbw_Bps == pytest.approx(NBYTES / 0.2)
    assert made.busbw_Bps == pytest.approx(NBYTES / 0.2 * 2 * (P - 1) / P)
    bound_s = 2 * (P - 1) / P * NBYTES * 8 / (50e6 * 1448 / 1514)
    assert made.bound_s == pytest.approx(bound_s)
    assert made.ratio == pytest.approx(0.2 / bound_s)
    assert made.ratio_predicted == pytest.approx(2.0)


def test_a_disturbed_repeat_is_counted_and_left_out_of_the_figures() -> None:
    made = row_of(0.2, 0.2, disturbed=9.0)
    assert made.time_s is not None
    assert (made.time_s.max, made.repeats, made.left_out) == (0.2, 2, 1)


def test_the_busbw_of_an_alltoall_is_nccls() -> None:
    made = Experiment(made_collective("alltoall", P, P * 1000), "test")
    schedule = schedule_of(made, PAIRWISE)
    assert busbw_nbytes(schedule, range(P)) == (P - 1) * 1000  # (p-1)/p of what each rank has


@pytest.mark.parametrize(
    ("kind", "busbw"),
    [  # nccl-tests, doc/PERFORMANCE.md
        ("allreduce", 2 * (P - 1) / P),
        ("reducescatter", (P - 1) / P),
        ("allgather", (P - 1) / P),
        ("alltoall", (P - 1) / P),
        ("broadcast", 1.0),
        ("reduce", 1.0),
    ],
)
def test_the_busbw_and_the_bound_of_a_collective_do_not_depend_on_its_algorithm(
    kind: CollectiveKind, busbw: float
) -> None:
    fabric = parse_fabric("star:hosts=8,rate=100M")
    for name in {DEFAULTS[kind], BY_COLLECTIVE[kind][1]} - {"as-captured"}:
        schedule = schedule_of(Experiment(made_collective(kind, P, NBYTES), "test"), name)
        assert busbw_nbytes(schedule, range(P)) == pytest.approx(busbw * NBYTES)
        expected_s = busbw * NBYTES * 8 / (100e6 * 1448 / 1514)
        assert bound_s(fabric, fabric.hosts, schedule) == pytest.approx(expected_s)
        assert (asked_nbytes(schedule), collective_of(schedule)) == (NBYTES, kind)


def test_uneven_blocks_have_the_busbw_and_the_bound_of_the_busiest_rank() -> None:
    fabric = parse_fabric("star:hosts=3,rate=100M")
    schedule = expand(made_uneven_alltoall(((9, 100, 200), (0, 9, 50), (400, 0, 9))), PAIRWISE)
    assert busbw_nbytes(schedule, range(3)) == 400
    assert bound_s(fabric, fabric.hosts, schedule) == pytest.approx(400 * 8 / (100e6 * 1448 / 1514))


def test_an_uneven_alltoall_takes_max_over_mean_of_an_even_one_in_a_plan() -> None:
    sizes = tuple(
        tuple((3 * src + 5 * dst) % 7 * 4096 * (src != dst) for dst in range(P)) for src in range(P)
    )
    sums = [*map(sum, sizes), *map(sum, zip(*sizes, strict=True))]
    mean = sum(map(sum, sizes)) / P
    even = made_collective("alltoall", P, round(mean * P / (P - 1)))
    cell = Cell(parse_fabric("star:hosts=8,rate=100M"), PAIRWISE, "linear", "ecmp")
    uneven_s, even_s = (
        plan_of(cell, Experiment(workload, "test")).prediction.fluid_s
        for workload in (made_uneven_alltoall(sizes), even)
    )
    assert uneven_s / even_s == pytest.approx(max(sums) / mean, rel=1e-3)


def test_several_kinds_and_messages_are_no_collective() -> None:
    two = together([expand(made_collective(kind, 2, 4000)) for kind in ("allreduce", "allgather")])
    assert collective_of(two) is None
    assert collective_of(messages(2, [(0, 1, 1000)])) is None
    assert collective_of(pushes(4, 1000)) is None


def test_jobs_side_by_side_have_the_busbw_of_the_larger() -> None:
    schedule = schedule_of(
        Experiment(made_allreduce(4, 4000), "test", beside=(made_allreduce(4, 8000),)), "ring"
    )
    assert [busbw_nbytes(schedule, ranks) for ranks in schedule.jobs] == [6000.0, 12000.0]


def test_an_outage_after_the_end_of_every_repeat_is_marked_as_late() -> None:
    during, after = FailedCable("leaf0-spine0", 0.25, None), FailedCable("leaf0-spine1", 50, 60)
    made = replace(row_of(0.2, 0.3), failures=(during, after))
    assert made.failure_lines() == (
        "leaf0-spine0 down from 0.25 s on",
        "leaf0-spine1 down from 50 s to 60 s, after the run was over",
    )
    refused = replace(made, time_s=None)
    assert refused.failure_lines()[1] == "leaf0-spine1 down from 50 s to 60 s"


def summed_plan(spec: str = "fat-tree:k=4,levels=2,rate=50M") -> Plan:
    cell = Cell(parse_fabric(spec), "ina", "linear", "dmodk")
    return plan_of(cell, Experiment(made_allreduce(P, NBYTES), "test"))


def test_what_switches_add_up_is_measured_against_the_buffer_once_and_its_busbw_beats_the_link(
    tmp_path: Path,
) -> None:
    made = made_run(tmp_path / "run", summed_plan(), times_s=(NBYTES * 8 / 50e6 / (1024 / 1090),))
    assert made.ratio == pytest.approx(1)
    assert made.busbw_Bps == pytest.approx(2 * (P - 1) / P * 50e6 / 8 * 1024 / 1090)
    assert made.busbw_Bps is not None
    assert made.busbw_Bps > 50e6 / 8


def test_pushes_have_the_same_busbw_whoever_adds_them_up() -> None:
    into, out_of = ([(rank, 0, 1000) for rank in range(1, 5)], [(0, rank, 1000) for rank in range(1, 5)])
    summed = pushes(4, 1000)
    assert busbw_nbytes(summed, range(5)) == busbw_nbytes(messages(5, [*into, *out_of]), range(5)) == 4000
    unanswered = replace(summed, ops=summed.ops[:1], sends=Sends.of(()), gates=())
    assert busbw_nbytes(unanswered, range(5)) == busbw_nbytes(messages(5, into), range(5)) == 4000


def test_a_servers_job_is_as_large_whoever_adds_the_pushes_up() -> None:
    """Rows of one job are compared; 4 workers push 1,000 bytes each and pull as many."""
    into, out_of = ([(rank, 0, 1000) for rank in range(1, 5)], [(0, rank, 1000) for rank in range(1, 5)])
    summed = pushes(4, 1000)
    assert asked_nbytes(summed) == asked_nbytes(messages(5, [*into, *out_of])) == 8000
    assert asked_nbytes(expand(made_allreduce(4, 1000), "ina")) == 1000


def test_a_row_says_why_hosts_do_what_switches_were_to_do(tmp_path: Path) -> None:
    made = replace(summed_plan(), host_side=("job 1 of 1: no slots",))
    assert made_run(tmp_path / "run", made).host_side == ("job 1 of 1: no slots",)
