"""Agents on loopback: real processes, real TCP, real sums; no root."""

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from multiprocessing.connection import Connection as Pipe
from typing import Any

import pytest

from gradwire.emu.aggregation.worker import WorkerFailed
from gradwire.emu.replay import fleet, processes, rankrepeat
from gradwire.emu.replay.outcome import Complaint, Outcome
from gradwire.emu.watch import RunFailed, Watch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import Failure
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce, made_collective, made_uneven_alltoall
from gradwire.traces.schedules.dtypes import DType
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.kinds import CONTRACTS, CollectiveKind
from gradwire.traces.schedules.names import AS_CAPTURED, BY_COLLECTIVE, OF_HOSTS
from gradwire.traces.schedules.schedule import Gate, Op, Schedule, sent_nbytes
from gradwire.traces.schedules.sends import Send, Sends


def on_loopback(schedule: Schedule) -> Plan:
    """A plan whose hosts are addresses of 127.0.0.0/8."""
    fabric = parse_fabric(f"star:hosts={max(2, schedule.n_ranks)}")
    plan = resolve(
        fabric,
        schedule,
        algorithm="",
        placement="linear",
        routes="ecmp",
        seed=os.getpid(),
        transport=fabric_transport(fabric),
    )
    flows = [
        replace(flow, src_ip=f"127{flow.src_ip[2:]}", dst_ip=f"127{flow.dst_ip[2:]}") for flow in plan.flows
    ]
    return replace(plan, flows=tuple(flows))


def run(schedule: Schedule, repeats: int = 1) -> list[list[Outcome]]:
    return run_plan(on_loopback(schedule), repeats)


def run_plan(plan: Plan, repeats: int = 1) -> list[list[Outcome]]:
    with started_here(plan) as agents:
        agents.connect()
        outcomes = [agents.run(repeat, 20) for repeat in range(repeats)]
        agents.end()
    return outcomes


@contextmanager
def started_here(plan: Plan) -> Iterator[fleet.Fleet]:
    """All in this process's own network namespace."""
    if os.geteuid() != 0:
        pytest.skip("setns, even into one's own namespace, needs root")
    with processes.started(plan, dict.fromkeys(plan.fabric.hosts, os.getpid()), Watch()) as agents:
        yield agents


@contextmanager
def played(n_ranks: int) -> Iterator[tuple[fleet.Fleet, list["Pipe[Any, Any]"], Watch]]:
    """A fleet whose agents are played by the test, at the other ends of their pipes."""
    pairs = [multiprocessing.Pipe() for _ in range(n_ranks)]
    watch = Watch()
    with ExitStack() as opened:
        for ours, theirs in pairs:
            opened.enter_context(ours)
            opened.enter_context(theirs)
        agents = [fleet.Agent(rank, ours) for rank, (ours, _) in enumerate(pairs)]
        yield fleet.Fleet(agents, watch), [theirs for _, theirs in pairs], watch


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_as_many_bytes_are_sent_and_added_as_another_type(dtype: DType) -> None:
    schedule = expand(made_allreduce(4, 4 * 4201), "ring", wire=dtype)
    (outcomes,) = run(schedule)
    assert sum(outcome.wrong for outcome in outcomes) == 0
    assert [outcome.sent_nbytes for outcome in outcomes] == sent_nbytes(schedule)
    assert sum(outcome.sent_nbytes for outcome in outcomes) == 2 * 3 * 2 * 4201


@pytest.mark.broad(6)
@pytest.mark.parametrize("algorithm", [AS_CAPTURED, *OF_HOSTS])
def test_every_sum_is_right_and_tcp_counts_what_the_plan_says(algorithm: str) -> None:
    schedule = expand(made_allreduce(8, 8 * 4200), algorithm)
    for outcomes in run(schedule, repeats=2):
        assert sum(outcome.wrong for outcome in outcomes) == 0
        assert [outcome.sent_nbytes for outcome in outcomes] == sent_nbytes(schedule)
        if algorithm in (AS_CAPTURED, "ring", "halving-doubling", "all-pairs"):
            assert {outcome.sent_nbytes for outcome in outcomes} == {2 * 7 * 4200}


@pytest.mark.broad(5)
@pytest.mark.parametrize("kind", [kind for kind in BY_COLLECTIVE if kind != "allreduce"])
def test_every_rank_holds_what_each_collective_owes_it_in_two_repeats(kind: CollectiveKind) -> None:
    """By its most intricate algorithm; what is only copied has 1,003 bytes, which is not a multiple of 4."""
    name = {"alltoall": "bruck", "broadcast": "tree:chains", "reduce": "tree:binary"}.get(
        kind, "halving-doubling"
    )
    schedule = expand(made_collective(kind, 8, 4 * 1001 if CONTRACTS[kind].adds else 1003), name)
    for outcomes in run(schedule, repeats=2):
        assert sum(outcome.wrong for outcome in outcomes) == 0
        assert [outcome.sent_nbytes for outcome in outcomes] == sent_nbytes(schedule)


def test_blocks_of_uneven_sizes_come_where_they_belong() -> None:
    sizes = ((0, 5, 70_001), (1, 2, 3), (999, 0, 7))
    (outcomes,) = run(expand(made_uneven_alltoall(sizes)))
    assert sum(outcome.wrong for outcome in outcomes) == 0
    assert [outcome.sent_nbytes for outcome in outcomes] == [70_006, 4, 999]


def test_a_block_that_is_put_at_another_place_makes_wrong_bytes() -> None:
    schedule = expand(made_collective("alltoall", 4, 4000), "bruck")
    sends = schedule.sends
    spoiled = replace(sends, shift=sends.shift - 8 * (sends.step == 1))
    plan = on_loopback(schedule)
    (outcomes,) = run_plan(replace(plan, schedule=replace(schedule, sends=spoiled)))
    assert sum(outcome.wrong for outcome in outcomes) > 0


def test_a_chunk_that_is_not_added_makes_wrong_elements() -> None:
    schedule = expand(made_allreduce(4, 4 * 1000), "ring")
    sends = schedule.sends
    spoiled = replace(sends, reduce=sends.reduce & (sends.step != 1))  # no plan that was checked has this
    plan = on_loopback(schedule)
    (outcomes,) = run_plan(replace(plan, schedule=replace(schedule, sends=spoiled)))
    assert sum(outcome.wrong for outcome in outcomes) > 0


def test_each_send_is_handed_over_and_arrives_once_and_after_what_it_needs() -> None:
    schedule = expand(made_allreduce(4, 40_000, count=2), "as-captured", scale=Fraction(1, 2))
    (outcomes,) = run(schedule)
    arrived = Counter(number for outcome in outcomes for number in outcome.times.arrived_ns)
    assert arrived == Counter(range(len(schedule.sends)))
    for rank, outcome in enumerate(outcomes):
        for number, queued_ns in outcome.times.queued_ns.items():
            needs = [other for other in schedule.sends[number].needs if schedule.sends[other].dst == rank]
            assert all(outcome.times.arrived_ns[other] <= queued_ns for other in needs)


def test_a_compute_gap_delays_what_follows_it() -> None:
    gap_ns = 50_000_000
    schedule = Schedule.of(
        2,
        (Op("message", 10), Op("message", 10, root=1)),
        (Send(0, 0, 1, 0, 10, False), Send(1, 1, 0, 0, 10, False)),
        (Gate(1, 1, (0,), gap_ns),),
    )
    ((_, second),) = run(schedule)
    assert second.times.queued_ns[1] - second.times.arrived_ns[0] >= gap_ns


def test_a_long_chain_of_sends_that_may_all_leave_is_sent() -> None:
    """All are announced while rank 0 computes, so each leaves as soon as the one before has."""
    n = 2000
    sends = [Send(0, 0, 1, 4 * i, 4, reduce=False, needs=(i - 1,) if i else ()) for i in range(n)]
    (outcomes,) = run(Schedule.of(2, (Op("message", 4 * n),), sends, (Gate(0, 0, (), 200_000_000),)))
    assert [outcome.wrong for outcome in outcomes] == [0, 0]


def test_with_rendezvous_all_is_answered_and_sent_in_every_repeat() -> None:
    ring = expand(made_allreduce(4, 40_000), "ring")
    asked = replace(ring, ops=tuple(replace(op, rendezvous=True) for op in ring.ops))
    for outcomes in run(asked, repeats=2):
        assert [outcome.wrong for outcome in outcomes] == [0] * 4


def test_the_death_of_an_agent_is_named() -> None:
    plan = on_loopback(expand(made_allreduce(4, 4 << 20), "ring"))
    with started_here(plan) as agents:
        agents.connect()
        os.kill(agents.pids[2], signal.SIGKILL)
        with pytest.raises(RunFailed, match=r"agent of rank 2 on h2 .* was killed \(SIGKILL\)"):
            agents.run(0, 20)


@pytest.mark.parametrize(("algorithm", "n_ranks"), [("ring", 2), ("ring", 8), ("as-captured", 8)])
def test_chunks_of_no_bytes_are_sent_and_added_like_others(algorithm: str, n_ranks: int) -> None:
    (outcomes,) = run(expand(made_allreduce(n_ranks, 4), algorithm))
    assert sum(outcome.wrong for outcome in outcomes) == 0


def test_what_nobody_thought_of_in_an_agent_is_told() -> None:
    plan = on_loopback(expand(made_allreduce(4, 4000), "ring"))
    sends = plan.schedule.sends
    beyond = replace(sends[0], offset=10**9)  # no plan that was checked has this
    spoiled = replace(plan, schedule=replace(plan.schedule, sends=Sends.of((beyond, *sends[1:]))))
    with pytest.raises(RunFailed, match=r"rank \d: a bug in gradwire: \w+"):
        run_plan(spoiled)


def test_a_rank_that_waits_in_vain_is_named_once_with_the_failures_of_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankrepeat, "STALL_S", 0.3)
    schedule = Schedule.of(
        2,
        (Op("message", 10), Op("message", 10, root=1)),
        (Send(0, 0, 1, 0, 10, False), Send(1, 1, 0, 0, 10, False)),
        (Gate(1, 1, (0,), 60 * 10**9),),
    )
    monkeypatch.setattr(rankrepeat, "longest_quiet_s", lambda schedule, rank: 0.0)
    plan = on_loopback(schedule)
    port = plan.flows[0].path[-1]
    with pytest.raises(RunFailed) as failed:
        run_plan(replace(plan, failures=(Failure(port, 0),)))
    name = f"{port.node}-{plan.fabric.peers[port].node}"
    assert str(failed.value) == (
        "rank 0: nothing happened for 0 s; the rank waits for send 1 from rank 1 (unfinished sends: 1); "
        f"planned failures: {name} down from 0 s on"
    )


def test_a_rank_that_waits_while_another_computes_longer_is_not_stalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankrepeat, "STALL_S", 0.3)
    schedule = Schedule.of(
        2,
        (Op("message", 10), Op("message", 10, root=1)),
        (Send(0, 0, 1, 0, 10, False), Send(1, 1, 0, 0, 10, False)),
        (Gate(1, 1, (0,), 10**9),),
    )
    (outcomes,) = run_plan(on_loopback(schedule))
    assert sum(outcome.wrong for outcome in outcomes) == 0


@pytest.mark.parametrize(
    ("complaints", "expected"),
    [
        ({0: Complaint("some of 2, 3", (2, 3)), 2: Complaint("it is 3", (3,))}, "rank 2: it is 3"),
        ({2: Complaint("it is 3", (3,)), 0: Complaint("some of 2, 3", (2, 3))}, "rank 2: it is 3"),
        ({1: Complaint("who knows"), 0: Complaint("2 and 3", (2, 3))}, "rank 0: 2 and 3"),
        ({1: Complaint("the socket failed"), 0: Complaint("rank 1 is gone")}, "rank 1: the socket failed"),
        ({0: Complaint("it is 3", (3,)), 2: Complaint("it is 1", (1,))}, "rank 0: it is 3"),
    ],
)
def test_of_complaints_the_one_that_blames_the_fewest_ranks_is_told_or_the_first(
    complaints: dict[int, Complaint], expected: str
) -> None:
    with played(4) as (agents, ends, _):

        def complain() -> None:
            for rank, complaint in complaints.items():
                ends[rank].send(("failed", complaint))
                time.sleep(0.1)

        complaining = threading.Thread(target=complain)
        complaining.start()
        with pytest.raises(RunFailed) as failed:
            agents.connect()
        complaining.join()
    assert str(failed.value) == expected


def test_a_complaint_of_a_worker_comes_with_the_ranks_that_it_blames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 2 blames one, ranks 0 and 1 more; rank 3 none, which is as inexact as all."""

    def fail(_: Plan, rank: int) -> None:
        raise WorkerFailed(f"{rank} complains", tuple(range(1, 4 - rank)))

    monkeypatch.setattr(processes, "take_seats", fail)
    with pytest.raises(RunFailed, match=r"^rank 2: 2 complains$"):
        run(expand(made_allreduce(4, 4000), "ring"))


@pytest.mark.parametrize("before", [(), (Complaint("it is 2", (2,)),)])
def test_a_complaint_about_a_stopped_rank_alone_is_told_without_waiting_for_others(
    monkeypatch: pytest.MonkeyPatch, before: tuple[Complaint, ...]
) -> None:
    """Also if another rank alone was blamed before."""
    monkeypatch.setattr(fleet, "_BLAME_S", 30.0)
    monkeypatch.setattr(fleet.Fleet, "_stopped", lambda _, ranks: [rank for rank in ranks if rank == 1])
    with played(4) as (agents, ends, _):
        for rank, complaint in enumerate((*before, Complaint("it is 1", (1,)))):
            ends[3 - rank].send(("failed", complaint))
        began_s = time.monotonic()
        with pytest.raises(RunFailed, match=r"^rank [23]: it is 1$"):
            agents.connect()
    assert time.monotonic() - began_s < 15


def test_a_death_is_told_and_not_that_a_rank_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch dies while it is looked whether the rank is stopped."""
    with (
        played(3) as (agents, ends, watch),
        subprocess.Popen(["sleep", "60"]) as process,
        watch.over("the switch", process.pid),
    ):

        def stopped(_: object, ranks: tuple[int, ...]) -> list[int]:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is not reaped here
            return list(ranks)

        monkeypatch.setattr(fleet.Fleet, "_stopped", stopped)
        ends[0].send(("failed", Complaint("it is 1", (1,))))
        with pytest.raises(RunFailed, match="the switch"):
            agents.connect()


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_process_that_dies_is_told_and_not_the_complaints_that_came_before(is_cut: bool) -> None:
    """Its pipe may end before its death shows."""
    with played(3) as (agents, ends, watch), subprocess.Popen(["sleep", "60"]) as process:
        ends[0].send(("failed", Complaint("it is 1", (1,))))
        with watch.over("the agent of rank 2 on h2", process.pid):
            dying = threading.Timer(0.2, process.kill)
            dying.start()
            if is_cut:
                ends[2].close()
            with pytest.raises(RunFailed, match=r"^the agent of rank 2 on h2 .* was killed \(SIGKILL\)$"):
                agents.connect()
            dying.join()


def test_an_agent_that_is_gone_without_a_death_is_told_before_any_complaint() -> None:
    with played(3) as (agents, ends, _):
        ends[0].send(("failed", Complaint("it is 1", (1,))))
        ends[1].close()
        with pytest.raises(RunFailed, match=r"^the agent of rank 1 is gone$"):
            agents.connect()


def test_nobody_checks_its_data_before_the_last_rank_is_done_and_the_machine_is_read() -> None:
    """A check takes all processors: the others would feel it, and it is none of the network's time."""
    seen = []
    with played(2) as (agents, ends, _):

        def play() -> None:
            for said in ("prepared", "done"):
                for end in ends:
                    end.recv()
                    seen.append(f"{said}, {end.poll()}")
                    end.send((said, ()))  # with "done" the accesses to centres
            for end in ends:
                what, _ = end.recv()
                seen.append(what)
                end.send(("outcome", None))

        playing = threading.Thread(target=play)
        playing.start()
        outcomes = agents.run(0, 20, lambda _: seen.append("begin"), lambda: seen.append("end"))
        playing.join()
    assert outcomes == [None, None]
    assert seen.index("begin") < seen.index("end")
    assert [what for what in seen if what != "begin"] == [
        *["prepared, False"] * 2,
        *["done, False"] * 2,
        "end",
        *["check"] * 2,
    ]


def test_the_common_start_is_still_to_come_when_it_is_said_and_comes_soon() -> None:
    left_ns = list[int]()
    with played(2) as (agents, ends, _):
        for end in ends:
            end.send(("prepared", None))
            end.send(("done", ()))
            end.send(("outcome", None))
        agents.run(0, 20, lambda start_ns: left_ns.append(start_ns - time.monotonic_ns()))
    assert 10_000_000 < left_ns[0] < 50_000_000  # 100 ms were a twentieth of the demo's time


def test_of_silent_ranks_the_one_that_is_stopped_is_told() -> None:
    plan = on_loopback(expand(made_allreduce(4, 4000), "ring"))
    with started_here(plan) as agents:
        agents.connect()
        os.kill(agents.pids[2], signal.SIGSTOP)
        with pytest.raises(RunFailed) as failed:
            agents.run(0, 1.0)
        os.kill(agents.pids[2], signal.SIGCONT)
        agents.end()
    assert str(failed.value) == "rank 2 (stopped: rank 2) did not report 'prepared' within 1 s"


def test_of_ranks_that_are_done_and_one_that_computes_on_that_one_is_told() -> None:
    """The others wait for it at their line."""
    with started_here(computing_plan()) as agents:
        agents.connect()
        with pytest.raises(RunFailed, match=r"^rank 2 did not report 'done' within 1 s$"):
            agents.run(0, 1.0)
        agents.end()


def test_one_that_dies_while_the_others_wait_for_it_at_their_line_is_told_at_once() -> None:
    with started_here(computing_plan()) as agents:
        agents.connect()
        dying = threading.Timer(0.5, os.kill, (agents.pids[2], signal.SIGKILL))
        dying.start()
        with pytest.raises(RunFailed, match=r"^the agent of rank 2 on h2 .* was killed \(SIGKILL\)$"):
            agents.run(0, 5.0)
        dying.join()


def computing_plan() -> Plan:
    """Rank 0 sends to rank 1, and rank 2 computes for 20 s."""
    ops = (Op("message", 100), Op("compute", 0, root=2))
    gates = (Gate(1, 2, (), 20_000_000_000),)
    return on_loopback(Schedule.of(3, ops, (Send(0, 0, 1, 0, 100, False),), gates))


def test_silent_ranks_are_told_where_none_is_stopped() -> None:
    with played(7) as (agents, ends, _):
        ends[1].send(("listening", None))
        with pytest.raises(RunFailed) as failed:
            agents.connect(timeout_s=0.1)
    assert str(failed.value) == "ranks 0, 2, 3, 4 and 2 more did not report 'listening' within 0 s"


def test_many_agents_are_shared_out_over_the_processors_neighbours_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert processes.processors(0, 31) == {3, 5}
    assert [processes.processors(number, 33) for number in range(33)] == [{3}] * 17 + [{5}] * 16
