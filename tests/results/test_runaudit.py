"""A run's folder against its plan: the sentence, and what the files can lack."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.aggregation.figures import RankFigures
from gradwire.emu.records import load_repeats
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import parse_failures
from gradwire.planning.plan import Plan
from gradwire.results.audit.runaudit import RunAudit, audit_run, middle
from tests.made_counters import switches_json, write_counters
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events, made_repeat, made_run, sample_ports
from tests.made_sums import sums_json

SEGMENT_NBYTES = 1448
PLAN = allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling")


def audited(folder: Path, plan: Plan = PLAN, counted: Plan | None = None) -> RunAudit:
    """A run of two repeats of `plan` in which the switches counted what `counted` sends."""
    made_run(folder, plan, times_s=(1.0, 2.0))
    write_counters(folder, switches_json(counted or plan, repeats=2))
    repeats = load_repeats(folder)
    found = audit_run(folder, plan, repeats, middle(repeats))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("times_s", "number"), [((3.0, 1.0, 2.0), 2), ((4.0, 1.0, 3.0, 2.0), 3), ((5.0,), 0)]
)
def test_the_middle_repeat_has_the_median_time_or_the_faster_of_two(
    times_s: tuple[float, ...], number: int
) -> None:
    assert middle([made_repeat(2, time_s) for time_s in times_s]) == number


def test_a_run_whose_switches_counted_the_plan_agrees_to_the_byte(tmp_path: Path) -> None:
    found = audited(tmp_path / "run")
    assert found.agrees
    assert found.sentence == (
        "Counted bytes agree with the plan on all 32 links, and of all 24 flows at every switch of their"
        " paths and nowhere else; to the byte."
    )


def test_a_run_that_took_other_routes_does_not_agree(tmp_path: Path) -> None:
    found = audited(
        tmp_path / "run", counted=allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", seed=1)
    )
    assert not found.agrees
    assert found.sentence.startswith("Counted bytes do not agree with the plan: ")
    assert found.sentence.endswith("more findings.")


def test_without_counters_there_is_nothing_to_hold_against_the_plan(tmp_path: Path) -> None:
    made_run(tmp_path / "run", PLAN)
    assert audit_run(tmp_path / "run", PLAN, load_repeats(tmp_path / "run"), 0) is None


def test_counts_of_open_vswitch_may_come_late(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made_run(folder, PLAN)
    value = switches_json(PLAN)
    value["flows"][0]["bytes"] -= 1448
    write_counters(folder, value)
    for switch, agrees in (("gradwire", False), ("ovs", True)):
        (folder / "options.json").write_text(json.dumps({"repeats": 1, "switch": switch, "captures": False}))
        found = audit_run(folder, PLAN, load_repeats(folder), 0)
        assert found is not None
        assert found.agrees is agrees


REBALANCED = '{"time_ns": 1, "event": "rebalanced", "flows": 1, "rules": 2}\n'


@pytest.mark.parametrize(
    ("routes", "fail", "log", "n_moves"),
    [
        ("ecmp", (), "", 0),
        ("ecmp", ("leaf0-spine0@1",), "", 4 * 2),
        ("ecmp", ("leaf0-spine0@1", "leaf1-spine0@1,2"), REBALANCED, 2 * 4 * 2),
        ("adaptive", (), REBALANCED * 3, 3 + 2),
    ],
)
def test_each_move_explains_one_window_of_selective_acknowledgements(
    tmp_path: Path, routes: str, fail: tuple[str, ...], log: str, n_moves: int
) -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", routes=routes, nbytes=32 << 20)
    failures = tuple(failure for text in fail for failure in parse_failures(text, plan.fabric))
    plan = replace(
        plan, failures=failures, transport=replace(plan.transport, rcvbuf_nbytes=SEGMENT_NBYTES // 2)
    )
    made_run(tmp_path / "run", plan, times_s=(1.0, 2.0))
    (tmp_path / "run" / "control.jsonl").write_text(log)
    write_counters(tmp_path / "run", switches_json(plan, repeats=2))
    found = audit_run(tmp_path / "run", plan, load_repeats(tmp_path / "run"), 0)
    assert found is not None
    window = 1 + 1
    for one in found.agreement.flows:
        packets = max(count.packets for count in one.counted.values())
        assert one.spare_nbytes == 64 + 28 * (packets // 100 + 1 + n_moves * window)


def test_a_run_of_sums_is_held_against_its_trees(tmp_path: Path) -> None:
    """One contribution comes twice: the leaf, not answered yet, sends its sum again, and hears that it has to
    wait.
    """
    plan = allreduce_plan("fat-tree:k=4,levels=2", "ina", nbytes=1 << 14)
    sentence = "Counted bytes agree with the plan on all 32 links, and of the tree at each of its switches, "
    for name, again, ending in (
        ("none", (), "to the packet; to the byte."),
        ("one", ((3, 5),), "3 packets more, for what was sent again; farthest: h3→leaf1, 1.02 kB more"),
    ):
        folder = tmp_path / name
        made_run(folder, plan, times_s=(1.0, 2.0))
        figures = [
            {"sent": 17 + (number == 0), "retransmitted": 0, "received": 17 + (number == 0)}
            for number in (0, 1)
        ]
        repeats = json.loads((folder / "repeats.json").read_text())
        for number, repeat in enumerate(repeats):
            repeat["aggregated"] = [
                {**figures[number], "retransmitted": int(number == 1 and (rank, 5) in again)}
                for rank in range(8)
            ]
        (folder / "repeats.json").write_text(json.dumps(repeats))
        write_counters(folder, sums_json(plan, 2, again))
        found = audit_run(folder, plan, load_repeats(folder, plan), 0)
        assert found is not None
        assert found.findings == ()
        assert found.sentence.startswith(sentence + ending)


def test_a_window_of_a_sum_is_of_all_its_ranks_events(tmp_path: Path) -> None:
    plan = allreduce_plan("star:hosts=2", "ina", nbytes=4096)
    made_run(tmp_path / "run", plan)
    folder = tmp_path / "run"
    events = [
        {"rank": rank, "event": event, "t_ns": t_ns, "op": 0, "nbytes": 4096}
        for rank, of_rank in enumerate([(20, 28), (22, 29)])
        for event, t_ns in zip(("aggregation_begun", "aggregated"), of_rank, strict=True)
    ]
    made_events(folder, 0, events)
    repeats = [replace(repeat, aggregated=(RankFigures(),) * 2) for repeat in load_repeats(folder)]
    write_counters(folder, sums_json(plan, 1))
    packets = 4096 // 1024 + 1
    sample_ports(folder, [{Egress("switch0", 1): (4096 + 66 * packets, packets)}])
    found = audit_run(folder, plan, repeats, 0)
    assert found is not None
    assert found.findings == ()
    (window,) = found.windows
    assert (window.planned_nbytes, window.counted_nbytes) == (4096, 4096)
