"""Commands that make namespaces as root, called in a folder that somebody else filled with modules."""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from tests.made_captures import Record, pcap, tcp
from tests.real.commands import CARRIED_OUT

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SAMPLE = str(PROJECT / "traces" / "samples" / "ps_1srv_4wk")
SHORT = ("--compute", "none", "--scale-bytes", "1/64", "--iteration", "1", "--repeat", "1")
# The standard library's first imports, ours, and what is imported late, in a child, or only by some.
NAMES = (
    *("json", "queue", "socket", "subprocess", "sitecustomize", "usercustomize", "numpy", "runpy", "select"),
    *(
        f"{package}/__init__"
        for package in ("emu", "traces", "planning", "controller", "results", "tools", "mininet")
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Modules that leave a file when they run, under names that Python or gradwire imports."""
    for name in NAMES:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write({name + ' '!r})\n")
    (tmp_path / "script").write_text("h0 hostname\n")
    ends = ("10.0.0.1", 1000), ("10.0.0.2", 2000)
    frames = [tcp(*ends, 100 * n, b"x" * 100) for n in range(3)]
    records = [Record(n * 1_000_000, frame) for n, frame in enumerate(frames)]
    (tmp_path / "one.pcap").write_bytes(pcap(records))
    return tmp_path


def commands() -> list[tuple[str, ...]]:
    out = ("--out", "runs")
    made = [
        ("bench", "allreduce", "-b", "64KiB", "-n", "1", "--fabric", "star:hosts=2,rate=50M", *out),
        (
            *("bench", "allreduce", "-b", "64KiB", "-n", "1", "--fabric", "star:hosts=2,rate=50M"),
            *("--ina", "on", *out),
        ),
        ("replay", SAMPLE, "--fabric", "star:hosts=5,rate=50M", *SHORT, *out),
        ("replay", SAMPLE, "--fabric", "star:hosts=5,rate=50M", *SHORT, "--switch", "ovs", *out),
        ("inject", "one.pcap", "--fabric", "star:hosts=2", *out),
        ("capture", "--ranks", "2", "--out", "captured", "--", "sh", "-c", "true"),
        ("up", "star:hosts=2", "--script", "script"),
        ("up", "star:hosts=2", "--switch", "ovs", "--script", "script"),
    ]
    if find_spec("torch"):
        made.append(("capture", "ddp", "--ranks", "2", "--out", "captured", "--iterations", "2"))
    return made


@pytest.mark.parametrize("command", commands(), ids=" ".join)
@pytest.mark.parametrize("path", [None, ".:"])
def test_nothing_of_the_current_folder_runs(command: tuple[str, ...], path: str | None, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = path
    done = subprocess.run(
        [str(PROJECT / "gradwire"), *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in CARRIED_OUT, done.stderr
    assert not (folder / "RAN").exists(), (folder / "RAN").read_text()
