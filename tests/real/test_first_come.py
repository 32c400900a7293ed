"""Asynchronous servers on real packets: who comes first is served first, and what pulls hold is checked."""

from pathlib import Path

import pytest

from gradwire.emu import records, run
from gradwire.emu.events import load_events
from gradwire.emu.options import RunOptions
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.expand import expand
from tests.made_plans import schedule_plan
from tests.made_servers import first_come_first_served, first_come_job

pytestmark = [pytest.mark.real, pytest.mark.untimed]

STAR, LEAF_SPINE = "star:hosts=4,rate=100M", "leaf-spine:leaves=2,spines=1,hosts=2,rate=100M,uplink_rate=50M"


def carried_out(plan: Plan, folder: Path) -> Path:
    run.run(plan, folder, RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
    return folder


def answered(plan: Plan, folder: Path) -> list[int]:
    """The workers in the order in which their answers came."""
    sends = plan.schedule.sends
    arrived = [
        (t_ns, sends[send].dst)
        for send, t_ns in load_events(folder, plan, 0).of("arrived").send_ns.items()
        if sends[send].src == 0
    ]
    return [worker for _, worker in sorted(arrived)]


def test_a_lock_serves_in_the_order_of_arrival_and_every_contribution_counts_once(tmp_path: Path) -> None:
    """Listed first is the slowest, whom no other waits for; gaps of 100 ms are more than a busy machine's."""
    compute_ms = [[900], [100, 200, 300], [200, 250]]
    workload, _ = first_come_job(compute_ms, served_ms=5)
    plan = schedule_plan(LEAF_SPINE, expand(workload))
    folder = carried_out(plan, tmp_path / "run")
    assert {repeat.wrong for repeat in records.load_repeats(folder)} == {0}
    due = first_come_first_served([[ms / 1e3 for ms in times] for times in compute_ms], 0.02)
    assert answered(plan, folder) == [worker for worker, _ in due]


def test_hogwild_adds_every_push_once_while_others_read(tmp_path: Path) -> None:
    """Pulls of 2 MB take 160 ms, and pushes of others come meanwhile."""
    workload, _ = first_come_job([[5, 5], [50, 5], [95, 5]], served_ms=1, nbytes=2_000_000, lock=False)
    plan = schedule_plan(STAR, expand(workload))
    folder = carried_out(plan, tmp_path / "run")
    assert {repeat.wrong for repeat in records.load_repeats(folder)} == {0}
    events, sends = load_events(folder, plan, 0), plan.schedule.sends
    queued, handed, arrived = (events.of(name).send_ns for name in ("queued", "handed", "arrived"))
    pulls = [number for number in queued if sends[number].src == 0]
    pushes_ns = [t_ns for number, t_ns in arrived.items() if sends[number].dst == 0]
    assert any(queued[pull] < t_ns < handed[pull] for pull in pulls for t_ns in pushes_ns)
