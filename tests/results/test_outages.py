"""What the page says of a failure is what the run's two files say, and no answer is taken for another's."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.records import load_repeats
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.outages import Outage, outages, settled
from gradwire.results.row import Spread
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events, made_run

FABRIC = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
START_NS = 10**12
MS = 10**6
S = 10**9
PLAN = allreduce_plan("star:hosts=2", routes="adaptive")


def change(repeat: int, event: str, due_ms: int, port: int = 3) -> dict[str, object]:
    """Of the cable at a port of leaf0 (3 is spine1's, 2 is spine0's), carried out 1 ms late."""
    due_ns = START_NS + due_ms * MS
    return {
        "repeat": repeat,
        "cable": f"leaf0-spine{port - 2}",
        "switch": "leaf0",
        "port": port,
        "event": event,
        "start_ns": START_NS,
        "due_ns": due_ns,
        "done_ns": due_ns + MS,
    }


def line(event: str, at_ms: int, switch: str = "leaf0", port: int = 3, **more: object) -> dict[str, object]:
    where = {"switch": switch, "port": port} if event.startswith("port") else {}
    return {"time_ns": START_NS + at_ms * MS, "event": event, **where, **more}


def written(folder: Path, changes: list[dict[str, object]], lines: list[dict[str, object]]) -> Path:
    (folder / "failures.json").write_text(json.dumps(changes))
    (folder / "control.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


def test_a_run_without_failures_has_none(tmp_path: Path) -> None:
    assert outages(tmp_path, FABRIC, 0) == ()


def test_the_switchs_word_and_the_new_paths_are_timed_from_the_failure(tmp_path: Path) -> None:
    lines = [
        line("port_down", 504),
        line("port_down", 505, "spine1", 1),
        line("rerouted", 551, flows=6, rules=9, down=["leaf0→spine1"], seconds=0.047),
        line("port_up", 1503, "spine1", 1),
        line("rerouted", 1541, flows=6, down=[]),
    ]
    folder = written(tmp_path, [change(0, "down", 500), change(0, "up", 1500)], lines)
    assert outages(folder, FABRIC, 0) == (
        Outage("leaf0-spine1", "down", 0.501, 0.003, 0.05, 6),
        Outage("leaf0-spine1", "up", 1.501, 0.002, 0.04, 6),
    )


def test_without_rerouting_only_the_switchs_report_is_there(tmp_path: Path) -> None:
    lines = [line("port_down", 504), line("port_up", 1504)]
    folder = written(tmp_path, [change(0, "down", 500), change(0, "up", 1500)], lines)
    assert [(one.heard_s, one.rerouted_s) for one in outages(folder, FABRIC, 0)] == [
        (0.003, None),
        (0.003, None),
    ]


def test_an_answer_to_a_later_change_is_not_taken_for_an_earlier_ones(tmp_path: Path) -> None:
    lines = [line("port_up", 1504), line("rerouted", 1520, flows=2)]
    folder = written(tmp_path, [change(0, "down", 500), change(0, "up", 1500)], lines)
    assert outages(folder, FABRIC, 0)[0] == Outage("leaf0-spine1", "down", 0.501)


def test_what_was_done_after_the_next_word_is_no_answer_to_the_one_before(tmp_path: Path) -> None:
    lines = [line("port_down", 504), line("port_up", 1504), line("rerouted", 1520, flows=2)]
    folder = written(tmp_path, [change(0, "down", 500), change(0, "up", 1500)], lines)
    assert [one.n_flows for one in outages(folder, FABRIC, 0)] == [None, 2]


def test_two_cables_that_fail_together_share_an_answer(tmp_path: Path) -> None:
    lines = [line("port_down", 503), line("port_down", 504, port=2), line("rerouted", 540, flows=8)]
    folder = written(tmp_path, [change(0, "down", 500), change(0, "down", 501, port=2)], lines)
    assert [one.n_flows for one in outages(folder, FABRIC, 0)] == [8, 8]


def test_only_the_repeat_that_is_asked_for_is_returned(tmp_path: Path) -> None:
    folder = written(tmp_path, [change(0, "down", 500), change(1, "down", 700)], [])
    assert [one.at_s for one in outages(folder, FABRIC, 1)] == [0.701]


@pytest.mark.parametrize("wrong", ["{}", "[{}]", "[1]", "no json"])
def test_a_file_of_something_else_is_an_error(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "failures.json").write_text(wrong)
    with pytest.raises(ValueError, match=r"failures\.json: "):
        outages(tmp_path, FABRIC, 0)


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
