"""Whole runs in which switches add up: every sum is right, whatever is lost on the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gradwire.emu import records, run
from gradwire.emu.options import RunOptions
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.schedule import together
from tests.made_tree_plans import TWO_LEVELS, star_tree, summed, tree_plan, two_level_tree

pytestmark = pytest.mark.real

ELEMENTS = 256
PACKET = 4 * ELEMENTS
SIZES = (2000 * PACKET, 40, 100 * PACKET + 4)  # whole packets, less than one, one more
N_DATA = 2000 + 1 + 101

TRIES = 3


def carried_out(plan: Plan, folder: Path, **options: Any) -> list[records.Repeat]:
    run.run(plan, folder, RunOptions(**options), lambda phase, more: None, lambda work: None)
    return records.load_repeats(folder, plan)


def star_plan(n_ranks: int, sizes: tuple[int, ...] = SIZES, loss: str = "0%", rate: str = "100M") -> Plan:
    tree = star_tree(range(n_ranks), slots=128, elements=ELEMENTS)
    return tree_plan(f"star:hosts={n_ranks},rate={rate}", summed(tree, n_ranks, sizes), [tree], loss)


def two_level_plan(loss: str = "0%") -> Plan:
    tree = two_level_tree(slots=128, elements=ELEMENTS)
    return tree_plan(f"{TWO_LEVELS},rate=100M", summed(tree, 4, SIZES), [tree], loss)


def leafwise_plan() -> Plan:
    schedule = expand(made_allreduce(4, 400_000, count=3), "ina:leaf", hints=Hints(((0, 1), (2, 3))))
    leaves = two_level_tree().nodes[1:]
    trees = [
        replace(
            star_tree(ranks, slots=64, number=number, elements=ELEMENTS),
            nodes=(replace(leaves[number], parent_port=None),),
        )
        for number, (ranks, _) in enumerate(schedule.groups)
    ]
    return tree_plan(f"{TWO_LEVELS},rate=100M", schedule, trees)


@pytest.mark.parametrize("made", [star_plan, two_level_plan])
def test_all_sums_are_right_and_no_rank_sends_a_packet_more_than_it_must(made: Any, tmp_path: Path) -> None:
    plan = made(4) if made is star_plan else made()
    repeats = carried_out(plan, tmp_path / "run", repeats=2)
    for number, repeat in enumerate(repeats):
        assert repeat.wrong == 0
        for figures in repeat.aggregated:
            assert figures.sent == figures.received == N_DATA + len(SIZES) + (number == 0)
            assert [error.op for error in figures.errors] == [0, 1, 2]
            assert all(0 < error.rms <= error.largest <= error.bound for error in figures.errors)
        assert not any(repeat.sent_nbytes)
        assert not repeat.queue_dropped
    # 1,090 bytes of frame for 1,024 of payload; what is beyond is latency.
    least_s = sum(SIZES) / PACKET * (PACKET + 66) * 8 / 100e6
    assert least_s <= min(repeat.time_s for repeat in repeats) < 2 * least_s


def test_only_the_server_has_a_sum_of_what_workers_push(tmp_path: Path) -> None:
    tree = star_tree(range(4), server=1, slots=128, elements=ELEMENTS)
    plan = tree_plan("star:hosts=4,rate=100M", summed(tree, 4, SIZES), [tree])
    (repeat, *_) = carried_out(plan, tmp_path / "run", repeats=1)
    assert repeat.wrong == 0
    assert [len(figures.errors) for figures in repeat.aggregated] == [0, 3, 0, 0]


def test_hosts_do_the_rest_of_what_each_leaf_has_added_up(tmp_path: Path) -> None:
    """With 2 leaves of 2 ranks each rank sends S/2 round the ring of its shard, then S/2 to the other."""
    plan = leafwise_plan()
    (repeat, *_) = carried_out(plan, tmp_path / "run", repeats=1)
    assert repeat.wrong == 0
    assert set(repeat.sent_nbytes) == {3 * 400_000}
    events = pd.read_parquet(tmp_path / "run" / "events").query("rank == 0")
    assert list(events.query("op == 0")["event"])[:2] == ["aggregation_begun", "aggregated"]
    assert list(events["event"]).count("aggregated") >= 3


def test_two_jobs_share_a_switch(tmp_path: Path) -> None:
    trees = [
        star_tree((0, 1, 2), slots=64, elements=ELEMENTS),
        star_tree((0, 1, 2), slots=32, number=1, elements=64),
    ]
    schedule = together([summed(tree, 3, SIZES) for tree in trees])
    second = star_tree((3, 4, 5), slots=32, number=1, elements=64)
    plan = tree_plan("star:hosts=6,rate=100M", schedule, [trees[0], second])
    (repeat, *_) = carried_out(plan, tmp_path / "run", repeats=1)
    assert repeat.wrong == 0
    assert len({figures.sent for figures in repeat.aggregated}) == 2


@pytest.mark.parametrize("loss", ["0.1%", "1%", "5%"])
@pytest.mark.parametrize("levels", [1, 2])
def test_with_packets_lost_both_ways_the_sums_are_right(loss: str, levels: int, tmp_path: Path) -> None:
    """A packet crosses every link of the tree up, its result every link down. A round in which none of the
    2L crossings loses it has the chance (1 - loss)^2L: a rank sends a packet again (1 - loss)^-2L - 1 times
    on average if each loss makes all ranks send it again; most are answered to one rank alone."""
    plan = star_plan(4, loss=loss) if levels == 1 else two_level_plan(loss)
    share = float(loss.rstrip("%")) / 100
    n_links = 4 if levels == 1 else 6
    most = 2 * ((1 - share) ** (-2 * n_links) - 1) + 0.05  # and what a late timer sends again in vain
    shares = []
    for number in range(TRIES):  # a machine that stalls makes hosts send again what was not lost
        (repeat, *_) = carried_out(plan, tmp_path / f"run{number}", repeats=1)
        assert repeat.wrong == 0
        sent = sum(figures.sent for figures in repeat.aggregated)
        again = sum(figures.retransmitted for figures in repeat.aggregated)
        assert (
            again > sent * share
        )  # a loss on the way up, or of a result on the way down, is answered by one
        shares.append(again / sent)
        if shares[-1] < most:
            return
    pytest.fail(f"of what was sent, {shares} was sent again, not under {most:.3f}")


def test_open_vswitch_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Open vSwitch cannot add up gradients"):
        carried_out(star_plan(2), tmp_path / "run", switch="ovs")
    assert not list(tmp_path.iterdir())
