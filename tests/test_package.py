"""The wheel: one top-level name, everything that reading and planning need, and nothing of the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gradwire

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "traces" / "samples" / "ps_1srv_4wk"
# As the script that pip makes, in a Python that has the libraries but finds gradwire in the wheel alone.
SCRIPT = """import sys
sys.path.insert(0, sys.argv.pop(1))
from gradwire.tools.__main__ import run
run()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # numba would compile for seconds what it keeps beside the source, which is in another folder here
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-I", "-c", SCRIPT, str(installed), *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_wheel_brings_one_name_and_its_types(installed: Path) -> None:
    names = {path.name for path in installed.iterdir()}
    assert names == {"gradwire", f"gradwire-{gradwire.__version__}.dist-info"}
    assert (installed / "gradwire" / "py.typed").is_file()
    folders = {path.name for path in (installed / "gradwire").iterdir() if path.is_dir()}
    assert folders == {"traces", "planning", "emu", "controller", "results", "tools"}


def test_the_wheel_has_every_module_of_the_checkout_that_users_run(installed: Path) -> None:
    kept = {path.relative_to(installed / "gradwire").as_posix() for path in installed.rglob("*.py")}
    here = {
        path.relative_to(ROOT).as_posix()
        for folder in ("traces", "planning", "emu", "controller", "results", "tools")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert here - kept == {
        "tools/commands/docs.py",
        "tools/commands/test.py",
        "tools/docsite.py",
        "tools/trim_captures.py",
    }


def test_inspect_and_plan_run_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "inspect", str(SAMPLE), "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["shape"]["servers"] == [0]
    made = run(installed, tmp_path, "plan", str(SAMPLE), "--fabric", "star:hosts=5", "-o", "plan.json")
    assert made.returncode == 0, made.stderr
    assert gradwire.load_plan(tmp_path / "plan.json").n_ranks == 5


def test_an_installed_gradwire_names_its_commands_as_users_type_them(installed: Path, tmp_path: Path) -> None:
    help_text = run(installed, tmp_path, "--help")
    assert " test " not in help_text.stdout
    assert " setup " in help_text.stdout
    refused = run(installed, tmp_path, "replay", str(SAMPLE), "--repeat", "0")
    assert refused.returncode == 2
