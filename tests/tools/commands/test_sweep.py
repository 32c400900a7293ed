"""`gradwire sweep`: a study's cells are planned once, kept, and compared."""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from gradwire.results.studyresults import CellResult
from gradwire.results.verdict import Verdict
from gradwire.tools import cli
from gradwire.tools.labs.file import read_lab
from gradwire.tools.plans.matrix import planned
from gradwire.tools.sweep import cellreplaying, study
from gradwire.tools.sweep.cellfiles import load_cell, save_cell
from gradwire.tools.sweep.study import parse_seeds, study_of
from gradwire.tools.work import sweep
from gradwire.tools.work.sweep import run_study, work_out
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run

STUDY = """
name: two
mode: plan
job: {bench: allreduce, begin: 1MiB, ranks: 4}
fabric: star:hosts=4,rate=50M
algorithm: [ring, all-pairs]
placement: random
seeds: [5, 7..8]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "two.yaml").write_text(STUDY)
    return tmp_path / "two.yaml"


def swept(path: Path, out: Path, capsys: pytest.CaptureFixture[str], processes: int = 1) -> dict[str, Any]:
    run_study(path, out, processes, as_json=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refuse_to_plan(*_: Any, **__: Any) -> Any:
    raise AssertionError("planned again")


def test_seeds_are_numbers_and_ranges_each_once() -> None:
    assert parse_seeds(["3", "0..2", "2..4"]) == (3, 0, 1, 2, 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "is not a seed"),
        ("-1", "is not a seed"),
        ("4..2", "lower number first"),
        ("0..999999999", "at most 1,000 seeds"),
        ("9" * 4000, "is not a seed"),
    ],
)
def test_what_is_not_a_seed_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_seeds([text])


@pytest.mark.parametrize("processes", [1, 2])
def test_every_cell_is_planned_with_every_seed(
    processes: int, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a star both algorithms take the bound: 2 · 3/4 · 1 MiB over a link's payload rate."""
    found = swept(path, tmp_path / "out", capsys, processes)
    names = [(cell["seed"], cell["algorithm"]) for cell in found["cells"]]
    assert names == [(seed, algorithm) for seed in (5, 7, 8) for algorithm in ("ring", "all-pairs")]
    for cell in found["cells"]:
        assert cell["fluid_s"] == pytest.approx(1.5 * (1 << 20) * 8 / (50e6 * 1448 / 1514), rel=1e-6)
    rows = pd.read_parquet(tmp_path / "out" / "rows.parquet")
    assert list(rows["seed"]) == [5, 5, 7, 7, 8, 8]
    assert "ring" in (tmp_path / "out" / "study.html").read_text()


def test_cells_that_are_kept_are_not_planned_again_and_come_to_the_same(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = swept(path, tmp_path / "out", capsys)
    monkeypatch.setattr(cellreplaying, "planned", refuse_to_plan)
    assert swept(path, tmp_path / "out", capsys) == first


@pytest.mark.parametrize("left", ["", '{"schema": "gradwire.cell/1"', "[1]"])
def test_only_what_is_missing_or_cut_short_is_planned_again(
    left: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = swept(path, tmp_path / "out", capsys)
    one = min((tmp_path / "out" / "cells").iterdir())
    one.write_text(left)
    real, calls = planned, []

    def counted(work: Any, **options: Any) -> Any:
        calls.append(work)
        return real(work, **options)

    monkeypatch.setattr(cellreplaying, "planned", counted)
    assert swept(path, tmp_path / "out", capsys) == first
    assert len(calls) == 1


def test_cells_of_other_code_are_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {each.key for each in study_of(read_lab(path)).cells}
    monkeypatch.setattr(study, "code_digest", lambda sends: b"other")
    assert len(before) == 6
    assert not before & {each.key for each in study_of(read_lab(path)).cells}


@pytest.mark.parametrize(
    "change",
    [
        ("begin: 1MiB", "begin: 2MiB"),
        ("rate=50M", "rate=51M"),
        ("placement: random", "placement: linear"),
        ("seeds:", "wire: float16\nseeds:"),
    ],
)
def test_whatever_changes_a_cell_changes_its_key(change: tuple[str, str], path: Path) -> None:
    before = {each.key for each in study_of(read_lab(path)).cells}
    path.write_text(STUDY.replace(*change))
    assert not before & {each.key for each in study_of(read_lab(path)).cells}


def test_a_cell_that_cannot_be_planned_is_listed_and_the_others_go_on(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(STUDY + "routes: [ecmp, direct]\n")
    found = swept(path, tmp_path / "out", capsys)
    by_routes = {(cell["routes"], cell["refused"] is not None) for cell in found["cells"]}
    assert by_routes == {("ecmp", False), ("direct", True)}
    assert found["exit_code"] == 0
    assert "direct" in (tmp_path / "out" / "study.html").read_text().split("Refused")[1]


def test_an_expectation_is_checked_with_each_seed(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(STUDY + "expect: ratio >= 2\n")
    found = swept(path, tmp_path / "out", capsys)
    assert [each["verdict"] for each in found["expectations"]] == ["fails"] * 3
    assert found["exit_code"] == 4


def _die(_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_named_and_what_was_kept_stays(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = study_of(read_lab(path)).cells
    work_out(cells[:2], tmp_path, partial(sweep.in_processes, n_processes=1), quiet=True)
    monkeypatch.setattr(sweep, "plan_cell", _die)
    with pytest.raises(
        OSError, match=r"a planning process was killed .*, with \S+, random, ecmp on star:hosts=4"
    ):
        work_out(cells, tmp_path, partial(sweep.in_processes, n_processes=2), quiet=True)
    assert [load_cell(tmp_path, each) is not None for each in cells] == [True] * 2 + [False] * 4


def test_an_interruption_says_what_is_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[Any], Any] = cellreplaying.plan_cell
    cells = study_of(read_lab(path)).cells

    def interrupted(each: Any) -> Any:
        if each is cells[3]:
            raise KeyboardInterrupt
        return real(each)

    monkeypatch.setattr(sweep, "plan_cell", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"3 cells in .*; the same command goes on from there"):
        work_out(cells, tmp_path, partial(sweep.in_processes, n_processes=1), quiet=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (STUDY + "seed: 3\n", "line 9: seed has no effect beside seeds"),
        (STUDY.replace("[5, 7..8]", "[5, x]"), "line 8: 'x' is not a seed"),
        (STUDY + "draw: svg\n", "line 9: sweep always writes a page"),
    ],
)
def test_what_is_not_a_study_is_refused_with_its_line(text: str, why: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        study_of(read_lab(path))


SENT = STUDY.replace("mode: plan", "repeat: 2")


def test_a_study_without_mode_plan_sends_packets_and_its_cells_depend_on_how(path: Path) -> None:
    """Its keys are others than those of plans, and of other repeats."""
    keys = set()
    for text in (STUDY, SENT, SENT.replace("repeat: 2", "repeat: 3")):
        path.write_text(text)
        made = study_of(read_lab(path))
        assert made.sends == (text != STUDY)
        keys |= {each.key for each in made.cells}
    assert len(keys) == 18


def test_packets_are_sent_one_cell_at_a_time(path: Path, tmp_path: Path) -> None:
    path.write_text(SENT)
    with pytest.raises(ValueError, match=r"--processes: .* sends packets, one cell at a time"):
        run_study(path, tmp_path / "out", 2, as_json=True)


def test_a_row_is_kept_and_one_that_is_not_valid_is_done_again_if_asked(path: Path, tmp_path: Path) -> None:
    path.write_text(SENT)
    cells = study_of(read_lab(path)).cells[:3]
    (tmp_path / "cells").mkdir()
    plan = allreduce_plan("star:hosts=4,rate=50M", "ring", nbytes=MIB)
    (planned_,) = planned([(cells[0].cell, cells[0].experiment)], in_full=False, quiet=True)
    rows = [made_run(tmp_path / "0", plan), made_run(tmp_path / "1", plan, verdict=Verdict(False, ("busy",)))]
    for each, row in zip(cells, rows, strict=False):
        save_cell(tmp_path, each, CellResult("", each.seed, planned_.cell, row))
    save_cell(tmp_path, cells[2], CellResult("", 8, planned_.cell, failed="no room on the disk"))
    found = [load_cell(tmp_path, each) for each in cells]
    assert [one and one.row for one in found] == [*rows, None]
    assert len(list((tmp_path / "cells").iterdir())) == 2
    assert [load_cell(tmp_path, each, retry=True) is not None for each in cells] == [True, False, False]


def test_run_sends_a_study_to_sweep(path: Path) -> None:
    done = CliRunner().invoke(cli.application("run"), ["run", "--check", str(path)])
    assert done.exit_code == 1
    assert "line 8: seeds makes this a study: run it with gradwire sweep" in done.output


def test_without_ray_a_cluster_is_refused_in_one_line(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FileNotFoundError, match=r"^--ray: Ray is not installed: run \S+ setup --ray$"):
        run_study(path, tmp_path / "out", None, ray="127.0.0.1:6379", as_json=True)


def test_a_study_that_is_done_needs_no_cluster(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = swept(path, tmp_path / "out", capsys)
    monkeypatch.setitem(sys.modules, "ray", None)
    run_study(path, tmp_path / "out", None, ray="127.0.0.1:6379", as_json=True)
    assert json.loads(capsys.readouterr().out) == done


def test_processes_and_a_cluster_cannot_both_be_asked_for(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["sweep", str(path), "--processes", "2", "--ray", "127.0.0.1:6379"])
    assert left.value.code == 1
    assert "--processes and --ray cannot be used together" in capsys.readouterr().err


def test_an_expectation_names_the_seeds_with_which_it_fails_and_holds_once_for_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a ring over one switch with two ranks on slow cables the bound depends on where the ranks are."""
    lab = tmp_path / "slow.yaml"
    lab.write_text(
        "name: slow\nmode: plan\njob: {bench: allreduce, begin: 1MiB, ranks: 2}\n"
        "fabric: 'star:hosts=4,rate=50M,rate@h0=10M,rate@h1=10M'\nalgorithm: ring\nplacement: random\n"
        "seeds: 0..9\nexpect: ['time <= 300ms']\n"
    )
    found = swept(lab, tmp_path / "out", capsys)
    slow = [cell["seed"] for cell in found["cells"] if cell["fluid_s"] > 0.3]
    assert 0 < len(slow) < 10
    said = {each["expectation"]: each["verdict"] for each in found["expectations"]}
    (held,) = [name for name, verdict in said.items() if verdict == "holds"]
    assert said == {held: "holds"} | {f"{held}, seed {seed}": "fails" for seed in slow}


JOBS = """
name: jobs
mode: plan
jobs:
  sums: {bench: allreduce, begin: 1MiB, ranks: 4}
  gathered: {bench: allgather, begin: 1MiB, ranks: 4}
  too many: {bench: allreduce, begin: 1MiB, ranks: 5}
fabric: star:hosts=4,rate=50M
algorithm: ring
placement: random
seeds: 0..1
"""


def test_every_job_is_planned_in_every_cell_and_what_cannot_be_is_listed(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ring of four takes 2 · 3/4 S β for an allreduce, half of that for an allgather."""
    path.write_text(
        JOBS + "expect:\n  - 'time of {job: sums} / time of {job: gathered} >= 1.999'\n"
        "  - {that: time <= 150ms, where: {job: gathered}}\n"
    )
    found = swept(path, tmp_path / "out", capsys)
    share = {"sums": 1.5, "gathered": 0.75}
    assert [(cell["job"], cell["seed"]) for cell in found["cells"]] == [
        (job, seed) for seed in (0, 1) for job in (*share, "too many")
    ]
    for cell in found["cells"]:
        if cell["job"] in share:
            nominal_s = (1 << 20) * 8 / (50e6 * 1448 / 1514)
            assert cell["fluid_s"] == pytest.approx(share[cell["job"]] * nominal_s, rel=1e-6)
        else:
            assert "5 ranks" in cell["refused"] or "5 hosts" in cell["refused"]
    assert [each["verdict"] for each in found["expectations"]] == ["holds", "holds"]
    assert found["exit_code"] == 0
    rows = pd.read_parquet(tmp_path / "out" / "rows.parquet")
    assert list(rows["job"])[:3] == ["sums", "gathered", "too many"]
    page = (tmp_path / "out" / "study.html").read_text()
    assert "sums: ring, random, ecmp on star:hosts=4,rate=50M: " in page
    assert "too many: ring" in page.split("Refused")[1]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("jobs:", "job: {bench: allreduce}\njobs:", "line 6: job has no effect beside jobs"),
        (
            "gathered: {bench: allgather",
            "gathered: {bench: sorting",
            "line 6: jobs.gathered.bench is 'sorting'",
        ),
        ("gathered: {", "'a/b': {", "line 6: the name of a job, 'a/b' can have"),
        (
            "gathered: {bench: allgather, begin: 1MiB",
            "gathered: {bench: allgather, begin: 1MB?",
            "line 6: '1MB",
        ),
        ("{bench: allgather, begin: 1MiB, ranks: 4}", "nowhere.pcap", "line 6: .*nowhere.pcap"),
        ("{bench: allgather, begin: 1MiB, ranks: 4}", "{}", "line 6: jobs.gathered is not a path"),
        ("seeds: 0..1", "expect: 'time of {job: none} <= 1s'", "line 11: no cell that runs has job: none"),
    ],
)
def test_what_is_wrong_with_one_of_several_jobs_is_said_with_its_line(
    old: str, new: str, why: str, path: Path
) -> None:
    path.write_text(JOBS.replace(old, new))
    with pytest.raises(ValueError, match=why):
        study_of(read_lab(path))


def test_seeds_change_how_long_ranks_compute_only_where_that_is_drawn(path: Path) -> None:
    """With jitter each seed has a workload of its own, else all share one."""
    text = STUDY.replace("{bench: allreduce, begin: 1MiB, ranks: 4}", "{make: collective, workers: 4}")
    for more, n_workloads in (("", 1), ("jitter: 10%\n", 3)):
        path.write_text(text + more)
        cells = study_of(read_lab(path)).cells
        assert len({each.experiment.workload for each in cells}) == n_workloads
        assert [each.experiment.seed for each in cells] == [5, 5, 7, 7, 8, 8]
        assert len({each.key for each in cells}) == 6
