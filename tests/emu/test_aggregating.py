"""Agents with workers: real processes, between switches of the model."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from gradwire.emu.replay import aggregating, rankrepeat
from gradwire.emu.replay.outcome import Outcome
from gradwire.emu.watch import RunFailed
from gradwire.planning.openflow.pool import Pool
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Node
from gradwire.traces.framing.aggregation import Header, PacketKind
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.schedule import Gate
from tests.made_aggregating import Drop, nothing_lost, running
from tests.made_tree_plans import TWO_LEVELS, star_tree, summed, tree_plan, two_level_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="setns, even into one's own namespace, needs root")


def run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, repeats: int = 1, drop: Drop = nothing_lost
) -> list[list[Outcome]]:
    with running(plan, monkeypatch, drop) as (agents, _):
        outcomes = [agents.run(repeat, 20) for repeat in range(repeats)]
        agents.end()
    return outcomes


SIZES = (4 * 64 * 100, 40, 4 * 1000)


def test_every_repeat_ends_with_right_sums_and_each_chunk_is_sent_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = tree_plan(TWO_LEVELS, summed(two_level_tree(), 4, SIZES, gap_ns=1_000_000), [two_level_tree()])
    n_data = 100 + 1 + -(-1000 // 64)
    for number, outcomes in enumerate(run(plan, monkeypatch, repeats=2)):
        for outcome in outcomes:
            assert (outcome.wrong, outcome.sent_nbytes) == (0, 0)
            figures, times = outcome.aggregated, outcome.times
            assert figures is not None
            assert figures.sent == figures.received == n_data + len(SIZES) + (number == 0)  # primes, one sync
            assert [error.op for error in figures.errors] == [0, 1, 2]
            assert all(0 < error.rms <= error.largest <= error.bound for error in figures.errors)
            assert list(times.begun_ns) == list(times.aggregated_ns) == [0, 1, 2]
            assert times.aggregated_ns[0] + 1_000_000 <= times.begun_ns[1] < times.aggregated_ns[1]


def test_only_the_server_gets_what_workers_push(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = star_tree((0, 1, 2, 3), server=2)
    (outcomes,) = run(tree_plan("star:hosts=4", summed(tree, 4, SIZES), [tree]), monkeypatch)
    assert [outcome.wrong for outcome in outcomes] == [0] * 4
    n_errors = [len(outcome.aggregated.errors) for outcome in outcomes if outcome.aggregated]
    assert n_errors == [0, 0, 3, 0]


def test_hosts_go_on_with_the_sums_of_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = expand(made_allreduce(4, 4 * 5000, count=3), "ina:leaf", hints=Hints(((0, 1), (2, 3))))
    nodes = [
        Node("leaf0", star_tree((0, 1)).nodes[0].children),
        Node("leaf1", star_tree((0, 1)).nodes[0].children),
    ]
    trees = [
        replace(star_tree(ranks, number=number), nodes=(nodes[number],))
        for number, ranks in enumerate(givers for givers, _ in schedule.groups[:2])
    ]
    for outcomes in run(tree_plan(TWO_LEVELS, schedule, trees), monkeypatch, repeats=2):
        assert [outcome.wrong for outcome in outcomes] == [0] * 4
        assert all(outcome.sent_nbytes and outcome.aggregated for outcome in outcomes)


def test_a_wrong_sum_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(self: Pool, held: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
        del self
        return tuple(a + 2 * b for a, b in zip(held, more, strict=True))

    monkeypatch.setattr(Pool, "_sum", doubled)
    tree = star_tree((0, 1))
    (outcomes,) = run(tree_plan("star:hosts=2", summed(tree, 2, SIZES), [tree]), monkeypatch)
    assert all(outcome.wrong > sum(SIZES) / 4 / 2 for outcome in outcomes)


def test_with_one_packet_in_ten_lost_each_way_the_sums_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(7)
    tree = two_level_tree(slots=32)
    plan = tree_plan(TWO_LEVELS, summed(tree, 4, (4 * 64 * 40, 40)), [tree])
    (outcomes,) = run(plan, monkeypatch, drop=lambda rank, header: draw.random() < 0.1)
    assert [outcome.wrong for outcome in outcomes] == [0] * 4
    assert all(outcome.aggregated and outcome.aggregated.retransmitted > 5 for outcome in outcomes)


def test_a_rank_that_is_done_contributes_again_when_its_tree_is_built_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rank 1 never hears of the first epoch's last results, and after it the old switches answer no more."""
    tree = star_tree((0, 1))
    plan = tree_plan("star:hosts=2", summed(tree, 2, [4 * 64 * 20]), [tree])
    (first, second), moved_ns = moved_after_losses(plan, monkeypatch)
    assert first.times.done_ns < moved_ns < second.times.done_ns
    assert (first.wrong, second.wrong) == (0, 0)


LAST = 21  # of 20 data chunks, after sync and prime


def moved_after_losses(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Outcome], int]:
    """Rank 1 misses the last results of the first group's first epoch; a while later its tree moves: when."""
    missed, moved_ns = threading.Event(), 0

    def drop(rank: int, header: Header) -> bool:
        is_last = header.kind == PacketKind.RESULT and header.epoch == 0 and header.chunk >= LAST
        is_lost = rank == 1 and is_last and header.job == plan.trees[0].job
        if is_lost:
            missed.set()
        return is_lost

    with running(plan, monkeypatch, drop) as (agents, switches):

        def move() -> None:
            nonlocal moved_ns
            missed.wait(10)
            time.sleep(0.3)
            moved_ns = time.monotonic_ns()
            switches.rebuild(0)

        moving = threading.Thread(target=move)
        moving.start()
        outcomes = agents.run(0, 10)
        agents.end()
        moving.join()
    return outcomes, moved_ns


def test_a_rank_that_is_busy_with_one_group_contributes_again_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As before, and rank 0 waits for the next group's sum, which rank 1 cannot begin without the first."""
    trees = star_tree((0, 1)), star_tree((0, 1), server=0, number=1)
    everybody, push = summed(trees[0], 2, [4 * 64 * 20]), summed(trees[1], 2, [4 * 64])
    schedule = replace(
        everybody,
        ops=(*everybody.ops, *push.ops),
        gates=tuple(Gate(1, rank, (0,), 0) for rank in (0, 1)),
        aggregations=(*everybody.aggregations, replace(push.aggregations[0], op=1)),
    )
    plan = tree_plan("star:hosts=2", schedule, trees)
    outcomes, _ = moved_after_losses(plan, monkeypatch)
    assert [outcome.wrong for outcome in outcomes] == [0, 0]
    assert all(outcome.times.done_ns - outcome.times.start_ns < 3_000_000_000 for outcome in outcomes)


def test_a_rank_that_stops_in_the_middle_is_named_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = two_level_tree()
    plan = tree_plan(TWO_LEVELS, summed(tree, 4, [4 * 64 * 50]), [tree])

    def drop(rank: int, header: Header) -> bool:
        return rank == 3 and header.chunk > 10

    with (
        running(plan, monkeypatch, drop, patience_s=0.6) as (agents, _),
        pytest.raises(RunFailed, match=r"nothing comes from (rank 3|some of ranks 2, 3)|no switch answers"),
    ):
        agents.run(0, 10)


def test_ranks_that_compute_for_longer_than_any_patience_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankrepeat, "STALL_S", 0.5)
    tree = star_tree((0, 1))
    schedule = summed(tree, 2, [400, 400])
    schedule = replace(schedule, gates=(Gate(1, 0, (0,), 1_200_000_000), Gate(1, 1, (0,))))
    with running(tree_plan("star:hosts=2", schedule, [tree]), monkeypatch, patience_s=0.7) as (agents, _):
        outcomes = agents.run(0, 10)
        agents.end()
    assert [outcome.wrong for outcome in outcomes] == [0, 0]
    assert outcomes[1].aggregated is not None
    assert outcomes[1].aggregated.statuses > 0


def test_the_first_timeout_is_about_a_window_of_the_slowest_cable() -> None:
    tree = two_level_tree(slots=100, elements=256)
    plan = tree_plan(f"{TWO_LEVELS},rate=100M,uplink_rate=50M", summed(tree, 4, [400]), [tree])
    assert aggregating.round_trip_ns(plan, tree) == pytest.approx(100 * 1090 * 8 / 50e6 * 1e9)
