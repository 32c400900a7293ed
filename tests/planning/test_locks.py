"""A lock serves in the order of arrival, one at a time: in the model and in the state of agents."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gradwire.emu.replay.state import RankState
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import Simulated, simulate
from gradwire.planning.plan import Plan, load, save
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Schedule, together
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan
from tests.made_servers import MS, NBYTES, first_come_first_served, first_come_job

MESSAGE_S = NBYTES * 8 / (100e6 * PAYLOAD_EFFICIENCY)
SERVED_MS = 5
SERVICE_S = 2 * MESSAGE_S + SERVED_MS / 1e3
JOBS = {
    "all at once": [[1], [2], [3], [4]],
    "in another order than listed": [[40, 7], [10, 11], [25, 3]],
    "one is slow": [[900], [10, 10, 10, 10], [12, 17, 23, 31]],
    "nobody waits": [[100], [200], [300]],
}


def plan_of(compute_ms: Sequence[Sequence[int]], *, lock: bool = True) -> tuple[Plan, list[tuple[int, int]]]:
    """A plan, and of each push the worker and the send that answers it."""
    workload, served = first_come_job(compute_ms, SERVED_MS, lock=lock)
    schedule = expand(workload)
    send_of = {op: send for send, op in enumerate(schedule.sends.op.tolist())}
    plan = schedule_plan(f"star:hosts={len(compute_ms) + 1},rate=100M", schedule)
    return plan, [(each.worker, send_of[each.answer]) for each in served]


def in_order_of_ends(simulated: Simulated, answers: list[tuple[int, int]]) -> list[tuple[int, float]]:
    ends = [(worker, simulated.ends_s[send]) for worker, send in answers]
    return sorted(ends, key=lambda each: each[1])


@pytest.mark.parametrize("compute_ms", JOBS.values(), ids=JOBS)
def test_a_server_with_a_lock_is_one_queue(compute_ms: list[list[int]]) -> None:
    """Who is served when, by a recursion that knows neither schedules nor links.

    An answer of 40 kB is in the server's socket at once, so the next push comes while it is on its way.
    """
    plan, answers = plan_of(compute_ms)
    found = in_order_of_ends(simulate(plan.fabric, plan.flows, plan.schedule), answers)
    service_s, compute_s = SERVICE_S - MESSAGE_S, [[ms / 1e3 for ms in times] for times in compute_ms]
    due = first_come_first_served(compute_s, service_s, MESSAGE_S)
    assert [worker for worker, _ in found] == [worker for worker, _ in due]
    assert [end_s for _, end_s in found] == pytest.approx([end_s for _, end_s in due], rel=1e-6)


def test_an_answer_larger_than_a_socket_keeps_the_server_until_its_last_byte_is_in_that() -> None:
    """Of 170 kB at 20 Mb/s that was when 87 kB had arrived, in a replay."""
    workload, _ = first_come_job([[1], [1]], 0, nbytes=170_000)
    plan = schedule_plan("star:hosts=3,rate=20M", expand(workload))
    message_s, taken_s = (nbytes * 8 / (20e6 * PAYLOAD_EFFICIENCY) for nbytes in (170_000, 87_000))
    took_s = simulate(plan.fabric, plan.flows, plan.schedule).time_s
    assert took_s == pytest.approx(0.001 + message_s + taken_s + 2 * message_s, abs=0.0005)


def test_others_do_not_wait_for_a_slow_worker() -> None:
    """With the captured order they would: the slow one was listed first."""
    plan, answers = plan_of(JOBS["one is slow"])
    simulated = simulate(plan.fabric, plan.flows, plan.schedule)
    slow_s = simulated.ready_s[0]
    assert slow_s == pytest.approx(0.9)
    assert all(simulated.ends_s[send] < slow_s for worker, send in answers if worker != 1)


@pytest.mark.parametrize("segment_nbytes", [0, 12_500])
def test_hosts_that_cost_something_serve_in_the_same_order(segment_nbytes: int) -> None:
    """What asks is then a notice of the worker's, whose way and handling take little beside the gaps here."""
    costs = HostCosts(0.0001, 0.0, 0.0001, n_cpus=64, segment_nbytes=segment_nbytes, buffer_nbytes=200_000)
    for compute_ms in ([[40, 7], [10, 30], [25, 8]], [[900], [10, 10, 10], [14, 19, 25]]):
        plan, answers = plan_of(compute_ms)
        found = in_order_of_ends(simulate(plan.fabric, plan.flows, plan.schedule, hosts=costs), answers)
        due = first_come_first_served([[ms / 1e3 for ms in times] for times in compute_ms], SERVICE_S)
        assert [worker for worker, _ in found] == [worker for worker, _ in due]


def test_without_a_lock_pushes_share_the_link() -> None:
    """Three at once: all arrive after three messages' time, where the first would have after one."""
    plan, answers = plan_of([[1], [1], [1]], lock=False)
    simulated = simulate(plan.fabric, plan.flows, plan.schedule)
    ends_s = [simulated.ends_s[send] for _, send in answers]
    assert ends_s == pytest.approx([(1 + SERVED_MS) / 1e3 + 6 * MESSAGE_S] * 3)


def test_the_agents_state_announces_who_asks_first_and_the_next_after_the_answer() -> None:
    plan, _ = plan_of([[1], [2], [3]])
    server = RankState(plan.schedule, 0)
    pushes = [n for n, send in enumerate(plan.schedule.sends) if send.dst == 0]
    begun = server.begin()
    assert (begun.receives, begun.gaps) == ([], [])
    assert server.asked(pushes[2]).receives == [pushes[2]]
    assert server.asked(pushes[0]).receives == []
    assert server.asked(pushes[1]).receives == []
    possible = server.finished(pushes[2])
    assert possible.receives == []
    ((computing, gap_ns),) = possible.gaps
    assert gap_ns == SERVED_MS * MS
    (answer,) = server.opened(computing).sends
    assert plan.schedule.sends[answer].dst == plan.schedule.sends[pushes[2]].src
    assert server.finished(answer).receives == [pushes[0]]


def test_a_job_beside_another_keeps_its_lock() -> None:
    one, _ = first_come_job([[1], [2]], SERVED_MS)
    both = together([expand(one), expand(one)])
    (first, second) = both.locks
    assert (first.rank, second.rank) == (0, 3)
    n_ops = len(expand(one).ops)
    assert second.sections == tuple((a + n_ops, b + n_ops) for a, b in first.sections)


def test_a_plan_file_keeps_locks(tmp_path: Path) -> None:
    plan, _ = plan_of([[1], [2]])
    save(plan, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json").schedule.locks == plan.schedule.locks


def test_a_section_that_is_left_out_ends_with_its_push() -> None:
    """Of two iterations one is chosen, and the answer belongs to the other."""
    workload, (served, *_) = first_come_job([[1, 1], [2, 2]], SERVED_MS)
    items = list(workload.items)
    items[served.answer] = items[served.answer].model_copy(update={"iteration": 1})
    schedule: Schedule = expand(workload.model_copy(update={"items": tuple(items)}), iterations=(0,))
    assert len(schedule.locks[0].sections) == 2
    assert any(first == last for first, last in schedule.locks[0].sections)
