"""A run's records: they say what was counted, in files that pandas reads, with the documented names."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gradwire.emu.aggregation.figures import RankFigures, SumError
from gradwire.emu.events import EVENTS, load_events
from gradwire.emu.network.cables import Done
from gradwire.emu.records import LINK_COLUMNS, RepeatCounts, RunRecords, load_repeats
from gradwire.emu.replay.outcome import Outcome, RankTimes
from gradwire.emu.sampler import LinkRow
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import CableChange, Failure
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun
from tests.documented import documented_fields
from tests.made_plans import messages, schedule_plan
from tests.made_runs import made_events
from tests.made_tree_plans import star_tree, summed, tree_plan

START_NS = 1_000_000_000
NBYTES = 1000


def counts(softnet_dropped: int = 0, **more: Any) -> RepeatCounts:
    """Half idle; two readings of one port, which sent three frames between them."""
    rows = (
        LinkRow(START_NS, "switch0-eth1", 500, 5, 0, 60, 1, 3000, 7),
        LinkRow(START_NS + 20_000_000, "switch0-eth1", 500 + 3 * 1514, 8, 0, 60, 1, None, None),
    )
    return RepeatCounts(0.5, 0.0, softnet_dropped, {}, stall_s=0.001, link_rows=rows, **more)


def outcome(rank: int, late_ns: int) -> Outcome:
    """Each rank sends to the other, and has its message before its own has been handed over."""
    began_ns = START_NS + late_ns
    times = RankTimes(
        start_ns=START_NS,
        began_ns=began_ns,
        done_ns=START_NS + 500_000_000,
        queued_ns={rank: began_ns + 10},
        handed_ns={rank: began_ns + 30},
        arrived_ns={1 - rank: began_ns + 20},
        late_gap_ns=0,
    )
    return Outcome(times, wrong=0, sent_nbytes=NBYTES, retransmits=0)


def summed_plan() -> Plan:
    tree = star_tree((0, 1))
    return tree_plan("star:hosts=2", summed(tree, 2, [40, 400]), [tree])


def summed_outcome(rank: int) -> Outcome:
    """Two sums; that of the second is there before that of the first has begun to be looked at."""
    times = RankTimes(
        START_NS, START_NS, START_NS + 50, begun_ns={0: START_NS + 1, 1: START_NS + 3}, late_gap_ns=0
    )
    times.aggregated_ns |= {1: START_NS + 4, 0: START_NS + 5}
    errors = (SumError(0, 1e-9, 1e-10, 2e-9), SumError(1, 0.0, 0.0, 1e-9))
    return Outcome(times, 0, 0, 0, RankFigures(sent=7 + rank, received=7, errors=errors))


@pytest.fixture
def plan() -> Plan:
    return schedule_plan("star:hosts=2", messages(2, [(0, 1, NBYTES), (1, 0, NBYTES)]))


def record(folder: Path, plan: Plan, softnet_dropped: tuple[int, ...] = (0, 0)) -> RunRecords:
    """Repeats in which two ranks swap a message, with this many packets lost in the kernel."""
    folder.mkdir()
    with RunRecords(folder, plan) as made:
        for number, lost in enumerate(softnet_dropped):
            counted = replace(counts(lost), queue_dropped={"switch0-eth2": 2})
            made.repeat(number, [outcome(0, late_ns=3_000_000), outcome(1, late_ns=0)], [counted])
    return made


def test_a_repeat_lasts_from_the_common_start_to_the_last_end(tmp_path: Path, plan: Plan) -> None:
    record(tmp_path / "run", plan)
    first, second = load_repeats(tmp_path / "run")
    assert first == second
    assert (first.time_s, first.start_skew_s, first.dropped) == (0.5, 0.003, 2)
    assert first.sent_nbytes == (NBYTES, NBYTES)


def test_a_repeat_with_packets_lost_in_the_kernel_does_not_count(tmp_path: Path, plan: Plan) -> None:
    assert record(tmp_path / "run", plan, (0, 7, 0)).n_counted == 2


def test_a_warm_up_is_recorded_and_does_not_count(tmp_path: Path, plan: Plan) -> None:
    with RunRecords(tmp_path, plan) as made:
        for number in range(3):
            ranks = [outcome(0, late_ns=0), outcome(1, late_ns=0)]
            made.repeat(number, ranks, [counts()], is_warmup=number == 0)
    repeats = load_repeats(tmp_path, plan)
    assert (made.n_counted, [each.counts for each in repeats]) == (2, [False, True, True])
    assert [each.disturbed for each in repeats] == [()] * 3


def test_what_others_took_from_start_to_end_is_recorded_and_disturbs(tmp_path: Path, plan: Plan) -> None:
    with RunRecords(tmp_path, plan) as made:
        ranks = [outcome(0, late_ns=0), outcome(1, late_ns=0)]
        made.repeat(0, ranks, [counts(cpu_lost_s=(0.0, 0.04), stopped_s={0: 0.0, 1: 0.0})])
    (repeat,) = load_repeats(tmp_path, plan)
    assert (repeat.cpu_lost_s, repeat.run_delay_s, made.n_counted) == ((0.0, 0.04), (0.0, 0.0), 0)
    (reason,) = repeat.disturbed
    assert "processor 1 lost 8%" in str(reason)


def test_reasons_of_older_files_are_sentences(tmp_path: Path, plan: Plan) -> None:
    record(tmp_path / "run", plan)
    path = tmp_path / "run" / "repeats.json"
    path.write_text(json.dumps([json.loads(path.read_text())[0] | {"disturbed": ["it {} stood"]}]))
    assert [str(reason) for reason in load_repeats(tmp_path / "run")[0].disturbed] == ["it  stood"]


def test_pandas_reads_what_each_port_sent_in_a_repeat(tmp_path: Path, plan: Plan) -> None:
    record(tmp_path / "run", plan)
    links = pd.read_parquet(tmp_path / "run" / "links.parquet")
    assert tuple(links.columns) == LINK_COLUMNS
    sent = links.groupby(["repeat", "interface"])["tx_bytes"].agg(lambda counts: counts.max() - counts.min())
    assert sent.to_dict() == {(0, "switch0-eth1"): 3 * 1514, (1, "switch0-eth1"): 3 * 1514}
    first = links[links.repeat == 0]
    assert first.rx_bytes.tolist() == [60, 60]
    assert first.queue_nbytes.tolist()[:1] == [3000]
    assert first.queue_dropped.isna().tolist() == [False, True]


def test_the_events_of_each_rank_are_in_the_order_of_time_and_as_documented(
    tmp_path: Path, plan: Plan
) -> None:
    record(tmp_path / "run", plan)
    events = pd.read_parquet(tmp_path / "run" / "events")
    assert list(zip(events["repeat"], events["rank"], strict=True)) == [
        (repeat, rank) for repeat in (0, 1) for rank in (0, 1) for _ in range(5)
    ]
    assert list(events["event"]) == 4 * ["start", "queued", "arrived", "handed", "done"]
    assert list(events.query("event == 'arrived'")["send"]) == 2 * [1, 0]
    sends = plan.schedule.sends
    for event in events.query("send >= 0").to_dict("records"):
        send = sends[event["send"]]
        assert all(event[name] == getattr(send, name) for name in ("op", "src", "dst", "nbytes"))
    assert set(events.columns) == documented_fields("events/repeat-N.parquet")
    assert set(EVENTS) == documented_fields("events/repeat-N.parquet: the events")


def test_sums_of_switches_are_recorded_by_rank_and_as_events_with_their_operation(tmp_path: Path) -> None:
    plan = summed_plan()
    counted = [counts()]
    with RunRecords(tmp_path, plan) as made:
        made.repeat(0, [summed_outcome(0), summed_outcome(1)], counted)
    (repeat,) = load_repeats(tmp_path, plan)
    assert repeat.aggregated == (summed_outcome(0).aggregated, summed_outcome(1).aggregated)
    events = pd.read_parquet(tmp_path / "events").query("event.str.startswith('aggregat') and rank == 0")
    of_first_rank = list(zip(events["event"], events["op"], events["t_ns"] - START_NS, strict=True))
    assert of_first_rank == [
        ("aggregation_begun", 0, 1),
        ("aggregation_begun", 1, 3),
        ("aggregated", 1, 4),
        ("aggregated", 0, 5),
    ]
    assert list(events["nbytes"]) == [plan.schedule.ops[op].nbytes for op in events["op"]]
    with pytest.raises(BadRun, match=r"repeat 0: aggregated has 2 values, the plan asks for 0"):
        load_repeats(tmp_path, replace(plan, trees=()))


def test_an_event_of_an_operation_that_there_is_not_is_no_event_of_the_plan(tmp_path: Path) -> None:
    made_events(tmp_path, 0, [{"event": "aggregated", "t_ns": 1, "op": 2}])
    with pytest.raises(BadRun, match=r"repeat-0\.parquet: operation 2 is not in the plan"):
        load_events(tmp_path, summed_plan(), 0)


def test_more_events_than_the_plan_explains_are_not_read(tmp_path: Path, plan: Plan) -> None:
    """Each of two ranks starts, ends, and begins and ends computing at most once for each of two messages; of
    either send there are three events.
    """
    event = {"event": "done", "t_ns": 1}
    most = 2 * (2 + 2 * 2) + 3 * 2
    made_events(tmp_path, 0, [event] * most)
    assert len(load_events(tmp_path, plan, 0)) == most
    made_events(tmp_path, 0, [event] * (most + 1))
    with pytest.raises(BadRun, match=rf"it has {most + 1} rows, and the plan explains {most} at most"):
        load_events(tmp_path, plan, 0)


def test_events_of_an_earlier_version_are_refused_with_what_to_do(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "rank-0.jsonl").write_text("{}")
    with pytest.raises(BadRun, match=r"an earlier version wrote these events, as JSON; run it again"):
        load_events(tmp_path, plan, 0)


def test_what_happened_to_cables_is_recorded_as_documented_and_only_of_a_plan_with_failures(
    tmp_path: Path, plan: Plan
) -> None:
    record(tmp_path / "without", plan)
    assert not (tmp_path / "without" / "failures.json").exists()
    port = Egress("switch0", 1)
    failing = replace(plan, failures=(Failure(port, 200_000_000, 300_000_000),))
    down = Done(CableChange(200_000_000, port, is_up=False), START_NS + 200_000_000, START_NS + 200_400_000)
    (tmp_path / "with").mkdir()
    with RunRecords(tmp_path / "with", failing) as made:
        counted = [counts(changes=(down,))]
        made.repeat(0, [outcome(0, late_ns=0), outcome(1, late_ns=0)], counted)
    (change,) = json.loads((tmp_path / "with" / "failures.json").read_text())
    assert set(change) == documented_fields("failures.json")
    assert (change["cable"], change["event"]) == ("switch0-h0", "down")
    assert (change["start_ns"], change["done_ns"]) == (START_NS, START_NS + 200_400_000)
