"""`gradwire report`: what a run showed is shown again from its folder, and several runs side by side."""

import json
from pathlib import Path

import pytest

from gradwire.results.matrixfile import RESULT, load_matrix
from gradwire.results.trustresult import Live, TrustMatrix, TrustRow, save
from gradwire.results.verdict import Verdict
from gradwire.tools import cli
from gradwire.tools.report.sidebyside import run_names, side_by_side
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import VALID, made_matrix
from tests.tools.report.test_report import Page

RING, HALVING = (allreduce_plan("star:hosts=4", name, nbytes=MIB) for name in ("ring", "halving-doubling"))
INVALID = Verdict(valid=False, reasons=("the CPUs were busy",))


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(["report", *map(str, words)])
    printed = capsys.readouterr()
    assert left.value.code == code, printed.err
    return printed.out if code == 0 else printed.err


def test_tables_and_page_are_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_matrix(tmp_path / "m", [RING, HALVING], (0.5, 0.7, 0.6), verdicts=(VALID, INVALID))
    shown = said(capsys, folder, "--html", tmp_path / "page.html")
    assert "gradwire bench allreduce (2026-07-04 10:15:00 UTC, version 0.1.0)" in shown
    assert shown.count("600 ms") >= 2
    assert "not valid" in shown and "the CPUs were busy" in shown
    page = Page((tmp_path / "page.html").read_text())
    assert "A job" in page.text and "gradwire bench allreduce" in page.text
    assert len(page.all("details")) == 2
    assert page.all("script")
    assert not any("src" in attributes for attributes in page.all("script"))


def test_json_has_the_rows_with_the_runs_where_they_are_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_matrix(tmp_path / "m", [RING])
    folder = (tmp_path / "m").rename(tmp_path / "moved")
    (one,) = json.loads(said(capsys, folder, "--json"))
    assert one["folder"] == str(folder)
    assert one["about"]["command"] == ["bench", "allreduce"]
    assert [row["folder"] for row in one["rows"]] == [str(folder / "01")]


def test_several_runs_are_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0.55 s is 10 % more than 0.5 s; halving-doubling was in the second run only."""
    before = made_matrix(tmp_path / "before", [RING], (0.5,))
    after = made_matrix(tmp_path / "after", [RING, HALVING], (0.55,), verdicts=(VALID, INVALID))
    table = side_by_side([load_matrix(before), load_matrix(after)])
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["ring", "500 ms", "550 ms (+10.0%)"],
        ["halving-doubling", "–", "550 ms, not valid"],
    ]
    assert "star:hosts=4, linear, ecmp, 4 ranks, 1048576 bytes" in table.title
    shown = said(capsys, before, after, "--html", tmp_path / "page.html")
    assert "550 ms (+10.0%)" in shown
    assert str(before) in shown and str(after) in shown
    page = Page((tmp_path / "page.html").read_text())
    assert "550 ms (+10.0%)" in page.text
    assert len(page.all("details")) == 3
    for name in ("before", "after"):
        assert f"ring · linear · ecmp · {name}" in page.text


def test_runs_whose_folders_have_one_name_are_told_by_their_paths(tmp_path: Path) -> None:
    folders = [made_matrix(tmp_path / name / "m", [RING]) for name in ("a", "b")]
    assert run_names([load_matrix(folder) for folder in folders]) == [str(folder) for folder in folders]


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_matrix(tmp_path / "m", [RING], n_cells=4)
    assert "incomplete: 1 of 4 cells done" in said(capsys, folder, "--html", tmp_path / "page.html")
    assert "incomplete: 1 of 4 cells done" in (tmp_path / "page.html").read_text()


def test_results_of_trust_have_their_own_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    live, row = Live("star:hosts=2", "live/01"), TrustRow("star:hosts=2", "star:hosts=2", "valid")
    save(TrustMatrix("ddp-mlp", 2, "ecmp", 128, (live,), (row,), n_rows=1), folder)
    assert "live and replayed" in said(capsys, folder)
    assert json.loads(said(capsys, folder, "--json"))[0]["schema"] == "gradwire.trust/1"
    assert "results of trust; give its folder alone" in said(capsys, folder, folder, code=1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema": "gradwire.matrix/2", "cells": []}', "a newer gradwire wrote"),
        (None, "it has no result.json"),
    ],
)
def test_a_folder_that_cannot_be_shown_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, reason: str
) -> None:
    if text is not None:
        (tmp_path / RESULT).write_text(text)
    line = said(capsys, tmp_path, code=1)
    assert reason in line and line.count("\n") == 1


def test_a_run_that_was_deleted_is_named_when_the_page_needs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_matrix(tmp_path / "m", [RING])
    for path in (folder / "01").iterdir():
        path.unlink()
    (folder / "01").rmdir()
    assert "1 s" in said(capsys, folder)
    line = said(capsys, folder, "--html", tmp_path / "page.html", code=1)
    assert "01/plan.json: No such file or directory" in line
