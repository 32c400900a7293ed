"""A lab with real packets, and the labs that its run leaves."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.jobs import read_plan
from gradwire.planning.plan import Plan
from gradwire.tools.labs.file import read_lab
from gradwire.tools.labs.work import lab_work

pytestmark = [pytest.mark.real, pytest.mark.untimed]

LAB = """\
job: {bench: allreduce, begin: 64KiB}
fabric: star:hosts=2,rate=50M
repeat: 1
expect:
  - wrong == 0
  - {that: time <= 1us, where: {algorithm: ring}}
draw: csv
"""


def run(lab: Path, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [str(PROJECT / "gradwire"), "run", str(lab), "--out", str(out), "--json", *more],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    (result,) = json.loads(done.stdout)
    assert isinstance(result, dict)
    assert done.returncode == result["exit_code"]
    return done.returncode, result


def test_a_labs_expectations_fail_or_hold_by_what_was_measured_and_its_run_can_be_planned_again(
    tmp_path: Path,
) -> None:
    """Two hosts send 32 KiB to each other twice: at 50 Mb/s not in a microsecond, but without a wrong sum."""
    (tmp_path / "lab.yaml").write_text(LAB)
    code, result = run(tmp_path / "lab.yaml", tmp_path / "first")
    (row,) = result["rows"]
    sums, too_short = result["expectations"]
    assert (sums["verdict"], sums["found"]) == ("holds", [0])
    assert too_short["verdict"] == ("fails" if row["verdict"] == "valid" else "not valid")
    assert too_short["found"][0] > 0.5 * 65536 * 8 / 50e6  # the links let their first frames pass at once
    assert code == (4 if row["verdict"] == "valid" else 3)
    assert {"lab.yaml", "result.json", "cells.csv"} <= {path.name for path in (tmp_path / "first").iterdir()}
    (plan,) = lab_work(read_lab(Path(row["folder"]) / "lab.yaml")).todo()
    assert plan == read_plan(Path(row["folder"]) / "plan.json")
    (planned,) = lab_work(read_lab(tmp_path / "first" / "lab.yaml")).todo()
    assert isinstance(plan, Plan)
    assert isinstance(planned, Plan)
    assert (planned.flows, planned.schedule) == (plan.flows, plan.schedule)
