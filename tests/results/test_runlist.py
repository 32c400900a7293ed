"""What `runs` lists of a folder: every kind of result, parts of results, and what cannot be read."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from gradwire.planning.runfiles import BadRun
from gradwire.results import runlist
from gradwire.results.matrixfile import RESULT
from gradwire.results.runlist import ListedRun, listed_runs
from gradwire.results.trustresult import Live, TrustMatrix, TrustRow, save
from gradwire.results.verdict import Verdict
from gradwire.tools import cli
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import VALID, made_matrix

SMALL, LARGE = (allreduce_plan("star:hosts=4", "ring", nbytes=nbytes) for nbytes in (MIB, 2 * MIB))
INVALID = Verdict(valid=False, reasons=("the CPUs were busy",))


def listed(folder: Path) -> dict[str, ListedRun]:
    return {each.folder: each for each in listed_runs(folder)}


def test_a_matrix_is_listed_with_what_came_out(tmp_path: Path) -> None:
    made_matrix(
        tmp_path / "m", [SMALL, LARGE, LARGE], (2.0, 1.0), verdicts=(VALID, VALID, INVALID), n_cells=5
    )
    (one,) = listed_runs(tmp_path)
    assert (one.folder, one.kind, one.command, one.job) == ("m", "runs", "bench", "A job")
    assert (one.done, one.n_cells, one.valid, one.not_valid, one.refused) == (3, 5, 2, 1, 0)
    assert (one.best_s, one.problem) == (1.5, "")
    assert one.nbytes == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


def test_folders_without_results_are_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the 30,000 files of a checkout's .venv: `serve .` took a minute a page in a slow VM."""
    made_matrix(tmp_path / "matrix", [SMALL])
    (tmp_path / ".venv" / "lib").mkdir(parents=True)
    measured = list[Path]()

    def sizes(folder: Path) -> list[int]:
        measured.append(folder)
        return [1]

    monkeypatch.setattr(runlist, "_sizes", sizes)
    assert [(one.folder, one.nbytes) for one in listed_runs(tmp_path)] == [("matrix", 1)]
    assert measured == [tmp_path / "matrix"]


def test_the_best_time_is_of_the_largest_size_and_of_a_valid_cell(tmp_path: Path) -> None:
    folder = made_matrix(tmp_path / "m", [SMALL, LARGE, LARGE], verdicts=(VALID, VALID, INVALID))
    value = json.loads((folder / RESULT).read_text())
    for row, median_s in zip(value["rows"], (0.1, 0.9, 0.5), strict=True):
        row["time_s"]["median"] = median_s
    (folder / RESULT).write_text(json.dumps(value))
    assert listed_runs(tmp_path)[0].best_s == 0.9


def test_each_kind_of_result_is_named_and_other_folders_are_left_out(tmp_path: Path) -> None:
    made_matrix(tmp_path / "matrix", [SMALL])
    made_matrix(tmp_path / "before", [SMALL])
    (tmp_path / "before" / RESULT).unlink()
    save_at = tmp_path / "trust"
    save_at.mkdir()
    save(
        TrustMatrix("ddp-mlp", 2, "ecmp", 128, (Live("a", "live"),), (TrustRow("a", "a", "valid"),)), save_at
    )
    (tmp_path / "injected" / "inject").mkdir(parents=True)
    (tmp_path / "injected" / "inject" / "inject.json").write_text("{}")
    (tmp_path / "emu" / "inject").mkdir(parents=True)  # of a checkout: no results
    (tmp_path / "captured").mkdir()
    (tmp_path / "captured" / "manifest.json").write_text("{}")
    (tmp_path / "captured" / "h0.pcap.gz").write_bytes(b"")
    (tmp_path / "paper").mkdir()
    made = {"began": "2026-07-04T10:15:00Z", "command": ["reproduce", "eflops"], "title": "EFLOPS"}
    value = {"schema": "gradwire.reproduction/1", "about": made, "claims": []}
    (tmp_path / "paper" / RESULT).write_text(json.dumps(value))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / RESULT).write_text('{"schema": "gradwire.matrix/8"}')
    (tmp_path / "else").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "matrix")
    (tmp_path / "file").write_text("")
    found = listed(tmp_path)
    assert {name: each.kind for name, each in found.items()} == {
        "before": "runs",
        "broken": "unknown",
        "captured": "capture",
        "injected": "injection",
        "matrix": "runs",
        "paper": "reproduction",
        "trust": "trust",
    }
    assert (found["paper"].job, found["paper"].n_cells) == ("EFLOPS", None)
    assert found["before"].problem == "no cell is done"
    assert "a newer gradwire wrote" in found["broken"].problem
    assert (found["trust"].job, found["trust"].done, found["trust"].n_cells) == ("ddp-mlp", 1, 1)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, said in (("nowhere", "there is no such folder"), ("file", "this is a file")):
        with pytest.raises(BadRun, match=said):
            listed_runs(tmp_path / name)


def test_the_command_prints_a_line_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_matrix(tmp_path / "monday", [SMALL], (0.308,), n_cells=8)
    with pytest.raises(SystemExit) as left:
        cli.main(["runs", str(tmp_path)])
    assert left.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in ("monday", "2026-07-04", "bench", "1 of 8", "1 valid", "308 ms"):
        assert words in said
    with pytest.raises(SystemExit):
        cli.main(["runs", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == [asdict(each) for each in listed_runs(tmp_path)]
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit) as left:
        cli.main(["runs", str(tmp_path / "none")])
    assert (left.value.code, capsys.readouterr().out) == (0, f"no results in {tmp_path / 'none'}\n")
