"""`gradwire audit` as a person calls it: tables that fit, JSON that is complete, and the exit code."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gradwire.emu.records import load_repeats
from gradwire.planning import plan as plans
from gradwire.planning.failures import parse_failures
from gradwire.planning.plan import Plan
from gradwire.results.audit.runaudit import audit_run
from gradwire.tools.cli import main
from tests.documented import documented_fields
from tests.made_counters import switches_json, write_counters
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run
from tests.made_sums import sums_json

TREE = "fat-tree:k=4,levels=2"
COLLIDING = allreduce_plan(TREE, "halving-doubling", "random", nbytes=MIB)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["audit", *arguments])
    return int(left.value.code or 0)


def saved(path: Path, plan: Plan) -> str:
    plans.save(plan, path)
    return str(path)


def counted_run(folder: Path, plan: Plan, counted: Plan | None = None) -> str:
    made_run(folder, plan)
    write_counters(folder, switches_json(counted or plan))
    return str(folder)


def printed(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> list[dict[str, Any]]:
    run(*arguments, "--json")
    value: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return value


@pytest.mark.parametrize("spec", [TREE, "bigraph:n=16,m=8"])
def test_the_tables_of_a_plan_fit_100_columns_and_a_screen_or_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    plan = saved(tmp_path / "plan.json", allreduce_plan(spec, "halving-doubling", "random"))
    assert run(plan) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("rules per switch: ") for line in lines)


def test_the_worst_phase_is_shown_with_the_flows_that_meet_on_its_worst_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = saved(tmp_path / "plan.json", COLLIDING)
    (found,) = printed(capsys, [plan])
    worst = found["phases"][found["worst_phase"]]
    link = next(link for link in worst["links"] if link["link"] == worst["worst_link"])
    assert worst["worst_link"] in worst["collisions"]
    run(plan)
    shown = capsys.readouterr().out
    assert f"Phase {found['worst_phase']}: {worst['name']}\n" in shown
    flows = shown.split(f"flows through {worst['worst_link']}\n")[1].splitlines()
    for line, number in zip(flows, link["flows"], strict=False):
        flow = found["flows"][number]
        assert line.startswith(f"r{flow['src']}→r{flow['dst']}  {flow['src_ip']}:{flow['sport']} → ")
        assert line.endswith(" ".join(flow["path"]))


def test_a_phase_is_chosen_by_its_number_and_all_are_shown_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = saved(tmp_path / "plan.json", COLLIDING)
    run(plan, "--phase", "1")
    assert "Phase 1: allreduce 0, step 1\n" in capsys.readouterr().out
    run(plan, "--phase", "all")
    assert capsys.readouterr().out.count("\nPhase ") == 3


@pytest.mark.parametrize("phase", ["3", "-1", "x", "²"])
def test_a_phase_that_the_plan_has_not_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], phase: str
) -> None:
    assert run(saved(tmp_path / "plan.json", COLLIDING), f"--phase={phase}") == 1
    error = capsys.readouterr().err
    assert "has phases 0 to 2; give one, or all" in error
    assert error.count("\n") == 1


def test_the_json_has_the_documented_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = printed(capsys, [counted_run(tmp_path / "run", COLLIDING)])
    phase, held = found["phases"][0], found["run"]
    for heading, value in (
        ("audit --json", found),
        ("audit --json: phases", phase),
        ("audit --json: phases, links", phase["links"][0]),
        ("audit --json: run", held),
        ("audit --json: run, links", held["links"][0]),
    ):
        assert set(value) == documented_fields(heading), heading
    assert set(held["flows"][0]) == {
        "flow", "src", "dst", "payload_nbytes", "expected_nbytes", "spare_nbytes", "counted"
    }  # fmt: skip


def test_the_json_of_a_plan_has_every_link_of_every_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = printed(capsys, [saved(tmp_path / "plan.json", COLLIDING)])
    assert found["run"] is None
    assert sum(phase["times"] for phase in found["phases"]) == 6
    payload = sum(
        link["payload_nbytes"] * phase["times"]
        for phase in found["phases"]
        for link in phase["links"]
        if link["node"] in COLLIDING.fabric.hosts
    )
    assert payload == COLLIDING.schedule.payload_nbytes


def test_a_run_that_agrees_leaves_with_0_and_one_that_does_not_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = counted_run(tmp_path / "runs" / "good", COLLIDING)
    assert run(good) == 0
    assert "Counted bytes agree with the plan on all 32 links" in capsys.readouterr().out
    other = allreduce_plan(TREE, "halving-doubling", "random", seed=1, nbytes=MIB)
    bad = counted_run(tmp_path / "runs" / "bad", COLLIDING, counted=other)
    assert run(bad) == 3
    shown = capsys.readouterr().out
    assert "does not agree" in shown
    assert "less: r" in shown
    assert "; --json lists all" in shown
    assert run(str(tmp_path / "runs"), "--json") == 3  # both of them
    both = json.loads(capsys.readouterr().out)
    assert [one["run"]["agrees"] for one in both] == [False, True]


def test_the_drawing_names_the_worst_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "fabric.svg"
    plan = saved(tmp_path / "plan.json", COLLIDING)
    assert run(plan, "--svg", str(svg)) == 0
    titles = [
        node.text or "" for node in ET.fromstring(svg.read_text()).iter("{http://www.w3.org/2000/svg}title")
    ]
    (worst,) = [text for text in titles if text.startswith("worst link: ")]
    assert worst.endswith("2.00 × the busiest host link")
    assert run(plan, plan, "--svg", str(svg)) == 1
    assert "--svg draws one plan, got 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("plan.json", "{}", "not a plan"),
        ("switches.json", "{}", "not a counters file"),
        ("repeats.json", "[]", "no repeat finished"),
        ("switches.json", "[" * 100_000, "not a counters file"),
    ],
)
def test_a_run_with_a_spoilt_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, reason: str
) -> None:
    folder = counted_run(tmp_path / "run", COLLIDING)
    (Path(folder) / name).write_text(content)
    assert run(folder) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_a_folder_without_runs_and_an_absent_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(tmp_path)) == 1
    assert "there is no plan.json in it" in capsys.readouterr().err
    assert run(str(tmp_path / "absent.json")) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_a_failed_cable_moved_is_told_and_is_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = replace(COLLIDING, failures=parse_failures("leaf0-spine0@0.1", COLLIDING.fabric))
    folder = counted_run(tmp_path / "run", failed)
    value = switches_json(failed)
    row = next(row for row in value["flows"] if row["switch"] == "spine0")
    row["switch"] = "spine1"
    write_counters(Path(folder), value)
    assert run(folder, "--svg", str(tmp_path / "fabric.svg")) == 0
    shown = capsys.readouterr().out
    assert "between switches flows could move, and 1 did" in " ".join(shown.split())
    assert "counted off their paths: r" in shown


def test_a_plan_of_sums_is_told_with_its_trees_and_its_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = allreduce_plan(TREE, "ina", nbytes=1 << 14)
    made_run(tmp_path / "run", plan)
    repeats = json.loads((tmp_path / "run" / "repeats.json").read_text())
    repeats[0]["aggregated"] = [{"sent": 18, "received": 18}] * 8
    (tmp_path / "run" / "repeats.json").write_text(json.dumps(repeats))
    write_counters(tmp_path / "run", sums_json(plan))
    assert run(str(tmp_path / "run")) == 0
    output = capsys.readouterr().out
    assert "allreduce 0, added up" in output
    assert "job 1: sums of r0…r7" in output
    assert max(map(len, output.splitlines())) <= 100
    (value,) = printed(capsys, [str(tmp_path / "run")])
    assert value["run"]["agrees"]
    (phase,) = value["phases"]
    (tree,) = value["trees"]
    for heading, made in (
        ("audit --json", value),
        ("audit --json: phases, links", phase["links"][0]),
        ("audit --json: run, sums", value["run"]["sums"][0]),
        ("plan --json: trees", tree),
    ):
        assert set(made) == documented_fields(heading), heading
    assert phase["links"][0]["trees"] == [0]
    assert tree["switches"][tree["root"]] == ["leaf0", "leaf1", "leaf2", "leaf3"]
    assert tree["switches"]["leaf2"] == ["h4", "h5"]


def test_a_link_that_carried_much_that_is_not_the_plans_is_named_and_the_plans_own_bytes_are_not(
    tmp_path: Path,
) -> None:
    double = allreduce_plan(TREE, "ring", nbytes=2 * MIB)
    single = allreduce_plan(TREE, "ring", nbytes=MIB)

    def foreign(name: str, counted: Plan) -> tuple[str, ...]:
        folder = Path(counted_run(tmp_path / name, single, counted=counted))
        held = audit_run(folder, single, load_repeats(folder, single), 0)
        assert held is not None
        return held.foreign

    assert foreign("same", single) == ()
    (reason,) = foreign("double", double)
    assert reason.endswith("that are not the plan's: keep other traffic off")
