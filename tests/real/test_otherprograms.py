"""A run beside other programs says which ones kept its processors busy."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT

pytestmark = pytest.mark.real


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[str]:
    """The name of a program that uses all processors."""
    program = tmp_path / "keepsbusy.py"
    program.write_text("while True:\n    pass\n")
    command = [sys.executable, str(program)]
    processes = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    yield program.name
    for process in processes:
        process.kill()
        process.wait()


def test_a_row_that_is_not_valid_names_the_program_that_used_the_processors(
    busy: str, tmp_path: Path
) -> None:
    command = [str(PROJECT / "gradwire"), "bench", "allreduce", "-b", "256KiB", "--repeat", "1", "--json"]
    command += ["--fabric", "star:hosts=2,rate=20M", "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    (row,) = json.loads(done.stdout)
    assert done.returncode == 3, done.stderr
    (reason,) = (reason for reason in row["reasons"] if reason.startswith("CPU idle only"))
    assert f"{busy} " in reason
    assert "as other programs used" in reason
