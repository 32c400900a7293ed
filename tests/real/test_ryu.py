"""Whole runs whose controller is real Ryu 4.34."""

import json
import subprocess
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT, RYU_PYTHON

pytestmark = [
    pytest.mark.real,
    pytest.mark.untimed,
    pytest.mark.skipif(not RYU_PYTHON.exists(), reason="no .venv-ryu: run ./gradwire setup --ryu"),
]
FABRIC = "leaf-spine:leaves=2,spines=2,hosts=2,rate=100M"


def gradwire(*arguments: str, commands: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(PROJECT / "gradwire"), *arguments, "--controller", "ryu"]
    return subprocess.run(command, input=commands, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_whose_cable_fails_has_its_sums_right_and_says_that_ryu_moved_its_flows(tmp_path: Path) -> None:
    job = tmp_path / "job.workload.json"
    made = [
        "make",
        "collective",
        "--workers",
        "4",
        "--nbytes",
        "4MiB",
        "--iterations",
        "1",
        "--out",
        str(job),
    ]
    subprocess.run([str(PROJECT / "gradwire"), *made], check=True, capture_output=True)
    failing = ["--fabric", FABRIC, "--fail", "leaf0-spine1@0.2", "--repeat", "1"]
    done = gradwire("replay", str(job), *failing, "--json", "--out", str(tmp_path / "runs"))
    assert done.returncode in {0, 3}, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["wrong"] == 0
    manifest = json.loads((Path(row["folder"]) / "manifest.json").read_text())
    assert manifest["controller"] == "ryu"
    events = [json.loads(line) for line in (Path(row["folder"]) / "control.jsonl").read_text().splitlines()]
    assert any(event["event"] == "rerouted" and event["flows"] for event in events)


def test_a_lab_whose_switch_stops_and_starts_is_led_by_ryu(tmp_path: Path) -> None:
    script = tmp_path / "lab.txt"
    script.write_text("pingall\nswitch spine1 stop\npingall\nswitch spine1 start\npingall\n")
    done = gradwire("up", FABRIC, "--script", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("0% dropped (12/12 received)") == 3
