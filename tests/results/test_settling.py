"""When adaptive routes moved flows for the last time, from a run's files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.records import load_repeats
from gradwire.results.row import Spread
from gradwire.results.settling import settled
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events, made_run

S = 10**9
PLAN = allreduce_plan("star:hosts=2", routes="adaptive")


def run_of(folder: Path, *moved_s: float) -> Path:
    """Three repeats of 2 s that start at 10, 20 and 30 s; the control log has these moves."""
    made_run(folder, PLAN, times_s=(2.0,) * 3)
    for repeat in range(3):
        start_ns = (repeat + 1) * 10 * S
        made_events(folder, repeat, [{"event": "start", "t_ns": start_ns, "due_ns": start_ns}])
    lines = [{"time_ns": round(s * S), "event": "rebalanced", "flows": 1} for s in moved_s]
    lines += [{"time_ns": round(31.9 * S), "event": "settled"}]
    (folder / "control.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def test_of_each_repeat_its_own_last_move_counts(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", 10.25, 10.5, 20.75, 22.5, 30.25)
    spread = settled(folder, PLAN, load_repeats(folder))
    assert spread is not None
    assert (spread.min, spread.median, spread.max) == pytest.approx((0.25, 0.5, 0.75))


def test_a_repeat_in_which_nothing_moves_is_settled_from_the_start(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run")
    assert settled(folder, PLAN, load_repeats(folder)) == Spread(0.0, 0.0, 0.0)


def test_routes_that_stay_have_no_time_until_they_are_settled(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", 10.5)
    assert settled(folder, replace(PLAN, routes="ecmp"), load_repeats(folder)) is None
