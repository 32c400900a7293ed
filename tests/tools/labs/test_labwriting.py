"""The lab file in a folder of results makes the same plans again, wherever it is read from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.options import RunOptions
from gradwire.planning import plan as plans
from gradwire.planning.experiment import plan_of
from gradwire.planning.machines.machinesfile import Machines
from gradwire.planning.plan import Plan
from gradwire.results.matrixfile import About, Matrix
from gradwire.results.row import Row
from gradwire.tools import cli
from gradwire.tools.labs.file import read_lab
from gradwire.tools.labs.work import LabWork, lab_work
from gradwire.tools.labs.writing import FILE, save_lab, save_run_lab
from gradwire.tools.options.choices import RunChoices
from gradwire.tools.work import bench, replay
from gradwire.traces.making.training import training
from gradwire.traces.workload import save

ROOT = Path(__file__).parents[3]
JOB = "job.workload.json"
MIB = 1 << 20
ABOUT = About(("replay", "a b"), "2026-11-25T02:29:03Z", "0.1.0", "Replay")


@dataclass
class Carried:
    """What a command would carry out, and the folder that it left its lab in."""

    todo: list[Plan | Row] = field(default_factory=list)
    options: list[RunOptions] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Carried:
    asked = Carried()

    def carry_out(
        todo: Sequence[Plan | Row], options: RunOptions, folder: Path, described: About, **more: Any
    ) -> Matrix:
        asked.todo.extend(todo)
        asked.options.append(options)
        asked.folders.append(folder)
        save_lab(folder, more["lab"], described)
        return Matrix(folder, described, (), (), 0)

    monkeypatch.chdir(tmp_path)
    for command in (bench, replay):
        monkeypatch.setattr(command, "need_root_and_tools", lambda *_: None)
        monkeypatch.setattr(command, "carry_out", carry_out)
        monkeypatch.setattr(command, "show", lambda *_, **__: None)
    return asked


def gradwire(*arguments: str) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 0


def again(folder: Path) -> LabWork:
    return lab_work(read_lab(folder / FILE))


def test_the_lab_of_a_replay_makes_the_same_plans(
    carried: Carried, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(training("allreduce", n_ranks=4, nbytes=MIB, compute_ns=10**6, n_iterations=3), tmp_path / JOB)
    (tmp_path / "tensors").write_text("all 1000\n")
    matrix = ("--fabric", "star:hosts=4", "--fabric", str(ROOT / "docs" / "examples" / "bigraph.yaml"))
    cells = ("--algorithm", "ring", "--placement", "random", "--routes", "dmodk", "--ina", "off,on")
    network = ("--seed", "5", "--loss", "1%", "--send-delay", "1ms", "--keys", "tensors")
    traffic = ("--iteration", "2", "--scale-bytes", "1/8", "--slow", "1=x2", "--bucket-size", "256KiB")
    run = ("--repeat", "2", "--no-reroute", "--captures")
    gradwire("replay", JOB, *matrix, *cells, *network, *traffic, *run)
    work = again(carried.folders[0])
    assert work.todo() == carried.todo
    assert work.run
    assert [work.run.options] == carried.options
    monkeypatch.chdir("/")
    moved = again(tmp_path / carried.folders[0])
    assert [plan.flows for plan in moved.todo() if isinstance(plan, Plan)] == [
        plan.flows for plan in carried.todo if isinstance(plan, Plan)
    ]


def test_the_lab_of_a_bench_makes_the_same_plans(carried: Carried, tmp_path: Path) -> None:
    gradwire("bench", "alltoall", "-b", "64k", "-e", "1M", "-f", "4", "--ranks", "4", "--jobs", "2")
    (tmp_path / "sizes.csv").write_text("0,8\n4,0\n")
    gradwire("bench", "alltoall", "--sizes", "sizes.csv", "--fabric", "star:hosts=2", "--repeat", "1")
    made = [again(folder) for folder in carried.folders]
    assert [*made[0].todo(), *made[1].todo()] == carried.todo
    assert [work.mode for work in made] == ["bench", "bench"]


def test_the_lab_of_a_plan_file_and_of_a_single_run_carry_that_plan_out(
    carried: Carried, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("job: {bench: allreduce, begin: 4k}\nfabric: star:hosts=2\n")
    ((cell, experiment),) = lab_work(read_lab(tmp_path / "a.yaml")).work.cells
    plan = plan_of(cell, experiment)
    plans.save(plan, tmp_path / "plan.json")
    gradwire("replay", "plan.json", "--repeat", "7")
    assert [one.flows for one in again(carried.folders[0]).todo() if isinstance(one, Plan)] == [plan.flows]
    save_run_lab(tmp_path, RunOptions(7, captures=True, reroute=False))
    single = again(tmp_path)
    assert single.run
    assert single.run.options == RunOptions(7, captures=True, reroute=False)


def test_the_lab_of_a_run_on_several_machines_finds_them_when_its_folder_is_renamed(tmp_path: Path) -> None:
    """As each is, when its run is whole."""
    listed = [{"name": "a", "address": "192.0.2.1"}, {"name": "b", "address": "192.0.2.2", "ssh": "b"}]
    machines = Machines.model_validate({"machines": listed}).model_dump(mode="json")
    incomplete = tmp_path / "run.incomplete"
    incomplete.mkdir()
    (incomplete / "plan.json").touch()
    save_run_lab(incomplete, RunOptions(2, machines=machines))
    lab = read_lab(incomplete.rename(tmp_path / "run") / FILE)
    assert lab.choices(RunChoices()).options == RunOptions(2, machines=machines)


def test_the_lab_of_a_lab_is_the_same_with_its_expectations(tmp_path: Path) -> None:
    text = """\
name: from elsewhere
job: {make: ps, workers: 2, staleness: inf}
fabric:
  - {name: own, hosts: h0..3, switches: s, links: [{a: h0..3, b: s}]}
  - star:hosts=4
algorithm: [as-captured]
expect:
  - wrong == 0
  - {that: ratio <= 2, where: {fabric: [own, star*]}}
"""
    (tmp_path / "first.yaml").write_text(text)
    first = lab_work(read_lab(tmp_path / "first.yaml"))
    save_lab(tmp_path / "results", first.document, ABOUT)
    second = again(tmp_path / "results")
    assert (second.todo(), second.lab.expect, second.lab.name) == (
        first.todo(),
        first.lab.expect,
        "from elsewhere",
    )


def test_the_lab_of_other_results_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(FileExistsError, match="has results already; choose another folder"):
        save_lab(tmp_path, {"job": {"bench": "allreduce"}}, ABOUT)
    assert not (tmp_path / FILE).exists()


def test_the_command_and_the_date_are_comments_whatever_was_typed(tmp_path: Path) -> None:
    typed = About(("replay", "a\nb: c", "\x1b[2J\u2028d"), "2026-11-25T02:29:03Z", "0.1.0", "")
    save_lab(tmp_path, {"job": {"bench": "allreduce"}}, typed)
    lines = (tmp_path / FILE).read_text().split("\n")
    assert lines[0].startswith("# 2026-11-25T02:29:03Z, gradwire 0.1.0: gradwire replay 'a b: c'")
    assert [line[0] for line in lines[:3]] == ["#", "#", "j"]
    assert read_lab(tmp_path / FILE).name == "lab"
    assert json.dumps(lines[0]).isprintable()
