"""The command line on fabrics whose calibration is given and not measured: for tests of what runs send.

Such a run sends all its packets, adds up and counts like any other, but measures no calibration first, which
takes longer than a small run itself.  It cannot show that a calibration works, nor anything that follows from
one: predicted times, error bars, and whether a row is valid.
"""

import subprocess
from pathlib import Path
from unittest.mock import patch

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from gradwire.results.laboratory import Laboratory
from gradwire.tools.__main__ import run
from tests.made_runs import CALIBRATED


def uncalibrated(*arguments: str, cwd: Path = PROJECT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        python("tests.real.uncalibrated", *arguments),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


if __name__ == "__main__":
    with patch.object(Laboratory, "calibration", lambda _laboratory, _fabric: CALIBRATED):
        run()
