"""The commands inspect and extract, as typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from traces.workload import load

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "traces" / "samples" / "ddp_gloo_8"


def gradwire(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tools", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_inspect_shows_the_tables_in_100_columns() -> None:
    done = gradwire("inspect", SAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "…" not in done.stdout
    for heading in ("8 ranks, gloo", "Payload from rank to rank", "Collectives and messages", "Iterations"):
        assert heading in done.stdout


def test_inspect_prints_one_json_value(tmp_path: Path) -> None:
    done = gradwire("inspect", SAMPLE, "--json", "--csv", tmp_path)
    assert len(json.loads(done.stdout)["iterations"]) == 3
    assert {path.name for path in tmp_path.iterdir()} == {
        "transfers.csv", "iterations.csv", "matrix.csv", "messages.csv",
    }  # fmt: skip


def test_extract_writes_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "job.workload.json"
    done = gradwire("extract", SAMPLE, "-o", path)
    assert done.returncode == 0
    assert "8 ranks" in done.stdout
    assert load(path).iterations == (-1, 0, 1, 2)


@pytest.mark.parametrize("command", ["inspect", "extract"])
def test_bad_input_is_one_line_and_leaves_nothing_behind(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.pcap").write_text("not a capture")
    out = tmp_path / "out.workload.json"
    options: list[str | Path] = ["-o", out] if command == "extract" else []
    done = gradwire(command, tmp_path / "a.pcap", *options)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "a.pcap" in line
    assert not out.exists()
