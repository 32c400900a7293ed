"""A run in which a cable of an aggregation tree fails: the tree moves, and every sum is right."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.records import load_repeats
from gradwire.emu.watch import RunFailed
from gradwire.planning import experiment
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import Failure, parse_failures
from gradwire.planning.plan import Plan, load
from gradwire.planning.trees.tree import Tree
from gradwire.traces.making.collectives import made_allreduce
from tests.real.commands import CARRIED_OUT, with_given_calibration
from tests.real.test_run import carried_out, plan_of

pytestmark = pytest.mark.real

SPEC = "leaf-spine:leaves=3,spines=2,hosts=1,rate=50M"
OTHER = {"spine0": "spine1", "spine1": "spine0"}
NBYTES = 6_000_000  # 0.96 s at 50 Mb/s, headers not counted


def failing_plan(down_s: float, up_s: float | None) -> Plan:
    """An allreduce in the network; a cable of its tree goes down."""
    plan = plan_of(SPEC, "ina", NBYTES)
    leaf = plan.trees[0].nodes[1]
    assert leaf.parent_port is not None
    up_ns = None if up_s is None else int(up_s * 1e9)
    return replace(plan, failures=(Failure(Egress(leaf.switch, leaf.parent_port), int(down_s * 1e9), up_ns),))


def control(folder: Path, *events: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "control.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] in events]


def root(tree: Tree) -> str:
    return tree.nodes[0].switch


def test_a_tree_moves_in_mid_tensor_and_back_between_repeats_and_no_sum_is_wrong(tmp_path: Path) -> None:
    plan = failing_plan(0.3, 0.7)
    folder = carried_out(plan, tmp_path / "run", repeats=2)
    repeats = load_repeats(folder)
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    moves = control(folder, "tree_moved")
    home, other = root(plan.trees[0]), OTHER[root(plan.trees[0])]
    n_outages = len(moves) // 2  # on a busy machine a cable may be up before its failure is heard
    assert 1 <= n_outages <= len(repeats)
    assert [(move["from"], move["to"]) for move in moves] == [(home, other), (other, home)] * n_outages
    assert [move["epoch"] for move in moves] == list(range(1, len(moves) + 1))
    for rank in range(plan.n_ranks):
        assert 1 <= sum(repeat.aggregated[rank].moves for repeat in repeats) <= len(moves)


def test_a_tree_leaves_a_switch_that_fails_with_all_its_cables(tmp_path: Path) -> None:
    plan = plan_of(SPEC, "ina", NBYTES)
    home = root(plan.trees[0])
    plan = replace(plan, failures=parse_failures(f"{home}@0.3", plan.fabric))
    folder = carried_out(plan, tmp_path / "run", repeats=1)
    repeats = load_repeats(folder)
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    moves = [(move["from"], move["to"]) for move in control(folder, "tree_moved")]
    assert moves == [(home, OTHER[home]), (OTHER[home], home)] * len(repeats)
    cables = {f"{home}-leaf{leaf}" for leaf in range(3)}
    assert {line["cable"] for line in json.loads((folder / "failures.json").read_text())} == cables


def test_a_tree_whose_cable_stays_down_stays_away_until_the_repeat_is_over(tmp_path: Path) -> None:
    plan = failing_plan(0.3, None)
    folder = carried_out(plan, tmp_path / "run", repeats=1)
    assert all(repeat.wrong == 0 for repeat in load_repeats(folder))
    events = [line["event"] for line in control(folder, "tree_moved", "port_down", "port_up", "settled")]
    away = ["port_down", "port_down", "tree_moved"]
    assert events == [*away, "port_up", "port_up", "tree_moved", "settled"] * len(load_repeats(folder))


def test_without_planning_anew_a_tree_with_a_failed_cable_ends_with_a_named_error(tmp_path: Path) -> None:
    plan = failing_plan(0.3, None)
    with pytest.raises(RunFailed, match="rank"):
        carried_out(plan, tmp_path / "run", repeats=1, reroute=False)
    assert not control(tmp_path / "run.incomplete", "tree_moved")


def test_of_two_jobs_that_one_spine_has_no_room_for_one_is_done_by_hosts_and_the_others_tree_moves(
    tmp_path: Path,
) -> None:
    """Each leaf at which a job begins loses its cable to the spine of the tree that is granted."""
    spec, nbytes, pair = "leaf-spine:leaves=4,spines=2,hosts=1,rate=50M", 2 << 20, made_allreduce(2, 2 << 20)

    def planned(spine: str) -> Plan:
        cuts = (f"leaf0-{spine}@0.1", f"leaf2-{spine}@0.1")
        job = experiment.Experiment(pair, "test", beside=(pair,), switch_slots=12, fail=cuts)
        return experiment.plan_of(experiment.Cell(parse_fabric(spec), "ina", "linear", "ecmp"), job)

    failing = next(spine for spine in ("spine0", "spine1") if root(planned(spine).trees[0]) == spine)
    done = with_given_calibration(
        *("bench", "allreduce", "-b", str(nbytes), "--ranks", "2", "--jobs", "2", "--ina", "on", "-n", "1"),
        *("--fabric", spec, "--switch-slots", "12", "--out", str(tmp_path / "runs"), "--verbose"),
        *(option for leaf in (0, 2) for option in ("--fail", f"leaf{leaf}-{failing}@0.1")),
    )
    assert done.returncode in CARRIED_OUT, done.stderr
    (folder,) = (tmp_path / "runs").glob("01-*")
    row = json.loads((folder / "result.json").read_text())
    assert row["wrong"] == 0
    assert [repeat.wrong for repeat in load_repeats(folder)] == [0] * len(load_repeats(folder))
    (reason,) = row["host_side"]
    assert f" of 2: at 0.1 s, with leaf0-{failing}, leaf2-{failing} down, spine" in reason
    assert reason.endswith(" has 4 of 12 slots left, 8 are needed")
    assert f"done by the hosts: {reason}" in " ".join((done.stdout + done.stderr).split())
    plan = load(folder / "plan.json")
    by_hosts = {send.src for send in plan.schedule.sends}
    assert {*by_hosts, *plan.trees[0].members} == {0, 1, 2, 3}
    moves = control(folder, "tree_moved", "tree_lost")
    assert "tree_moved" in {move["event"] for move in moves}
    assert "tree_lost" not in {move["event"] for move in moves}
