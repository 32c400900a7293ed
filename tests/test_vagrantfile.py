"""The lab VM's description, as far as it can be checked without starting one."""

import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Vagrantfile").read_text()


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="Vagrant is not installed")
def test_vagrant_accepts_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Vagrantfile", tmp_path)
    done = subprocess.run(["vagrant", "validate"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_set_up_by_the_same_script_as_everything_else() -> None:
    (script,) = re.findall(r'provision "shell", inline: "/vagrant/(.*)"', TEXT)
    assert (ROOT / script).stat().st_mode & 0o100


def test_what_is_made_on_the_host_stays_there() -> None:
    (excluded,) = re.findall(r"rsync__exclude: \[(.*)\]", TEXT)
    patterns = re.findall(r'"([^"]+)"', excluded)
    for made in (".venv/", "emu/switch/build/", "emu/aggregation/build/"):
        assert any(fnmatch(made, pattern) for pattern in patterns), made


def test_every_variable_that_it_reads_is_documented_in_its_head() -> None:
    head, _, code = TEXT.partition("Vagrant.configure")
    assert set(re.findall(r"GRADWIRE_\w+", code)) == set(re.findall(r"GRADWIRE_\w+", head))


def test_links_are_copied_as_links() -> None:
    """One of them, .types/gradwire, leads to the folder that is copied."""
    (arguments,) = re.findall(r"rsync__args: \[(.*)\]", TEXT)
    assert "--archive" in arguments and "--copy-links" not in arguments
