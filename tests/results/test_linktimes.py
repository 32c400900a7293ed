"""What each link carried in each window is the difference of two readings over what the link can carry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradwire.emu.records import LINK_COLUMNS
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun
from gradwire.results.linktimes import RunTimes, run_times
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events

TO_H0, FROM_H0 = Egress("switch0", 1), Egress("h0", 0)
START_NS = 10**12
FRAMES_IN_20_MS = 100_000_000 // 8 // 1514 // 50  # of 1514 bytes at 100 Mb/s, just below 165.1


@pytest.fixture(scope="module")
def plan() -> Plan:
    return allreduce_plan("star:hosts=2,rate=100M")


def write(folder: Path, readings: Sequence[tuple[int, int, int, int | None, int | None]]) -> None:
    """`links.parquet` of switch0-eth1 in repeat 1: (ms after the start, frames sent, frames received, waiting
    bytes, dropped packets); and the start in the events of rank 0.
    """
    folder.mkdir(exist_ok=True)
    made_events(folder, 0, [{"event": "start", "t_ns": 5, "due_ns": 0}])
    other = {"event": "queued", "t_ns": 7, "send": 0, "op": 0}
    made_events(folder, 1, [{"event": "start", "t_ns": 5, "due_ns": START_NS}, other])
    rows: list[tuple[Any, ...]] = [(0, 5, "switch0-eth1", 9, 9, 0, 9, 9, 9, 9)]
    rows += [
        (1, START_NS + ms * 10**6, "switch0-eth1", 1514 * tx, tx, 0, 1514 * rx, rx, waiting, dropped)
        for ms, tx, rx, waiting, dropped in readings
    ]
    columns = dict(zip(LINK_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "links.parquet")


def times(folder: Path, plan: Plan, time_s: float, most: int = 400) -> RunTimes:
    found = run_times(folder, plan, 1, time_s, (TO_H0, FROM_H0), most)
    assert found
    return found


def test_a_link_that_sends_frame_after_frame_has_a_load_of_one(tmp_path: Path, plan: Plan) -> None:
    full = FRAMES_IN_20_MS
    write(tmp_path, [(0, 0, 0, 0, 0), (20, full, 0, 0, 0), (40, full, full // 2, 0, 0)])
    found = times(tmp_path, plan, 0.04)
    assert found.edges_s == pytest.approx((0, 0.02, 0.04))
    to_h0, from_h0 = found.links
    assert to_h0.load == pytest.approx((1, 0), abs=0.01)
    assert from_h0.load == pytest.approx((0, 0.5), abs=0.01)  # what the switch received
    assert from_h0.queue_nbytes == from_h0.dropped == ()  # the host's own queue was not read


def test_what_waits_is_the_most_of_a_windows_readings_and_what_is_dropped_their_sum(
    tmp_path: Path, plan: Plan
) -> None:
    queue = [(0, 5), (300, 5), (None, None), (100, 7), (0, 7)]
    write(tmp_path, [(20 * n, 0, 0, *each) for n, each in enumerate(queue)])
    (link, _) = times(tmp_path, plan, 0.08, most=2).links
    assert link.queue_nbytes == (300, 100)
    assert link.dropped == (0, 2)
    (link, _) = times(tmp_path, plan, 0.08, most=4).links
    assert link.queue_nbytes == (0, 300, None, 100)  # a queue that was not read is not an empty one


def test_windows_are_of_the_repeat_alone_and_no_more_than_wanted(tmp_path: Path, plan: Plan) -> None:
    write(tmp_path, [(20 * n - 100, 10 * n, 0, 0, 0) for n in range(1000)])
    assert times(tmp_path, plan, 0.05).edges_s == pytest.approx((0, 0.02, 0.04, 0.06))
    found = times(tmp_path, plan, 10.0, most=7)
    assert len(found.edges_s) == 8
    assert (found.edges_s[0], found.edges_s[-1]) == (0.0, 10.0)
    per_window = 10 * 1514 * 8 / 0.02 / 100e6
    assert found.links[0].load == pytest.approx([per_window] * 7)


def test_a_run_of_before_has_no_queues_and_none_without_readings_has_times(
    tmp_path: Path, plan: Plan
) -> None:
    write(tmp_path, [(0, 0, 0, 0, 0), (20, 3, 3, 0, 0)])
    path = tmp_path / "links.parquet"
    pq.write_table(pq.read_table(path).select(LINK_COLUMNS[:6]), path)
    (link,) = times(tmp_path, plan, 0.02).links  # what hosts send was not counted
    assert link.egress == TO_H0
    assert link.queue_nbytes == ()
    assert run_times(tmp_path, plan, 7, 0.02, (TO_H0,)) is None
    path.unlink()
    assert run_times(tmp_path, plan, 1, 0.02, (TO_H0,)) is None


def test_events_that_cannot_be_read_are_named(tmp_path: Path, plan: Plan) -> None:
    write(tmp_path, [(0, 0, 0, 0, 0), (20, 3, 3, 0, 0)])
    made_events(tmp_path, 1, [{"event": "start", "t_ns": "soon", "due_ns": START_NS}])
    with pytest.raises(BadRun, match=r"repeat-1\.parquet: its column t_ns has the wrong type, string"):
        run_times(tmp_path, plan, 1, 0.02, (TO_H0,))
