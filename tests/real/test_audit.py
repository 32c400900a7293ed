"""Real counters against the plan: they agree to the byte, and do not when somebody has changed them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.real.commands import CARRIED_OUT, gradwire, with_given_calibration

pytestmark = pytest.mark.real

FABRIC = "leaf-spine:leaves=2,spines=2,hosts=2,rate=20M"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An allreduce on four hosts in two repeats; its flows share the two spines by hash."""
    out = tmp_path_factory.mktemp("audit") / "runs"
    done = with_given_calibration(
        *("bench", "allreduce", "-b", "256KiB", "--repeat", "2", "--fabric", FABRIC),
        *("--algorithm", "halving-doubling", "--out", str(out), "--json"),
    )
    assert done.returncode in CARRIED_OUT, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["wrong"] == 0
    return Path(row["folder"])


@pytest.fixture
def copy(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


def audit(folder: Path, exit_code: int) -> dict[str, Any]:
    done = gradwire("audit", str(folder), "--json")
    assert done.returncode == exit_code, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    held: dict[str, Any] = found["run"]
    return held


def spine_rule(value: dict[str, Any]) -> dict[str, Any]:
    """A flow's rule at a spine that it went through."""
    row: dict[str, Any] = next(
        row for row in value["flows"] if row["switch"].startswith("spine") and row["priority"] == 300
    )
    assert row["bytes"] > 0
    return row


def test_a_runs_counters_agree_with_its_plan_on_every_link(run_folder: Path) -> None:
    held = audit(run_folder, 0)
    assert held["agrees"]
    assert len(held["links"]) == 2 * (4 + 4)
    assert all(link["held"] and 0 <= link["off_nbytes"] <= link["spare_nbytes"] for link in held["links"])
    resent = [repeat["retransmits"] for repeat in json.loads((run_folder / "repeats.json").read_text())]
    if not any(map(sum, resent)):
        assert all(link["off_nbytes"] < 0.001 * link["expected_nbytes"] + 200 for link in held["links"])


def test_every_phase_passed_its_links_while_it_was_under_way(run_folder: Path) -> None:
    held = audit(run_folder, 0)
    assert held["resolution_s"] < 0.1
    assert held["windows"]
    assert all(window["agrees"] for window in held["windows"])


def test_a_flow_whose_count_somebody_drops_is_missing(copy: Path) -> None:
    value = json.loads((copy / "switches.json").read_text())
    spine_rule(value).update(packets=0, bytes=0)
    (copy / "switches.json").write_text(json.dumps(value))
    (finding,) = audit(copy, 3)["findings"]
    assert finding["kind"] == "less"
    assert " at spine" in finding["where"]


def test_a_flow_that_somebody_moves_to_the_other_spine_is_astray(copy: Path) -> None:
    value = json.loads((copy / "switches.json").read_text())
    row = spine_rule(value)
    row["switch"] = "spine1" if row["switch"] == "spine0" else "spine0"
    (copy / "switches.json").write_text(json.dumps(value))
    assert [finding["kind"] for finding in audit(copy, 3)["findings"]] == ["less", "astray"]
