"""Commands that send packets, as a person calls them or with a calibration that is given and not measured.

To measure a calibration takes longer than a small run itself.  A run with a given one sends all its packets,
adds up and counts like any other: enough for tests of what runs send.  It cannot show that a calibration
works, nor anything that follows from one: predicted times, error bars, and whether a row is valid.
"""

import json
import subprocess
from typing import Any
from unittest.mock import patch

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from gradwire.results.laboratory import Laboratory
from gradwire.tools.__main__ import run
from tests.made_runs import CALIBRATED

PS = "traces/samples/ps_1srv_4wk"
CARRIED_OUT = (0, 3)  # 3: this machine was too busy for the times to be believed, and the command said so
LIMIT_S = 300


def gradwire(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`./gradwire ARGUMENTS`, called in the project's folder."""
    return _called([str(PROJECT / "gradwire"), *arguments])


def with_given_calibration(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`./gradwire ARGUMENTS` on fabrics whose calibration is `CALIBRATED` of tests.made_runs."""
    return _called(python("tests.real.commands", *arguments))


def _called(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def rows(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    """What a command printed with --json, after its exit code has been compared with the rows' verdicts."""
    assert done.returncode in CARRIED_OUT, done.stderr
    made: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == (3 if any(row["verdict"] == "not valid" for row in made) else 0)
    return made


if __name__ == "__main__":
    with patch.object(Laboratory, "calibration", lambda _laboratory, _fabric: CALIBRATED):
        run()
