"""Rows: figures by their definitions, fields as documented."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.disturbance import Reason
from gradwire.planning.experiment import Cell, Experiment, plan_of, schedule_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.errorbar import Expected
from gradwire.planning.plan import Plan
from gradwire.results.row import FailedCable, Row, asked_nbytes, busy_nbytes, row
from gradwire.results.verdict import Verdict
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.schedules.sends import Sends
from gradwire.traces.workload import made_allreduce, made_collective
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
    worst = made.flows[0].path[0]
    return row(
        made,
        repeats,
        Verdict(valid=True),
        expected=Expected(0.1),
        worst=worst,
        worst_flows=1,
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
    assert busy_nbytes(schedule, range(P)) == (P - 1) * 1000  # (p-1)/p of what each rank has


def test_jobs_side_by_side_have_the_busbw_of_the_larger() -> None:
    schedule = schedule_of(
        Experiment(made_allreduce(4, 4000), "test", beside=(made_allreduce(4, 8000),)), "ring"
    )
    assert [busy_nbytes(schedule, ranks) for ranks in schedule.jobs] == [6000.0, 12000.0]


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
    assert busy_nbytes(summed, range(5)) == busy_nbytes(messages(5, [*into, *out_of]), range(5)) == 4000
    unanswered = replace(summed, ops=summed.ops[:1], sends=Sends.of(()), gates=())
    assert busy_nbytes(unanswered, range(5)) == busy_nbytes(messages(5, into), range(5)) == 4000


def test_a_servers_job_is_as_large_whoever_adds_the_pushes_up() -> None:
    """Rows of one job are compared; 4 workers push 1,000 bytes each and pull as many."""
    into, out_of = ([(rank, 0, 1000) for rank in range(1, 5)], [(0, rank, 1000) for rank in range(1, 5)])
    summed = pushes(4, 1000)
    assert asked_nbytes(summed) == asked_nbytes(messages(5, [*into, *out_of])) == 8000
    assert asked_nbytes(expand(made_allreduce(4, 1000), "ina")) == 1000


def test_a_row_says_why_hosts_do_what_switches_were_to_do(tmp_path: Path) -> None:
    made = replace(summed_plan(), host_side=("job 1 of 1: no slots",))
    assert made_run(tmp_path / "run", made).host_side == ("job 1 of 1: no slots",)
