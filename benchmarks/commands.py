"""How long the commands take that a newcomer tries first, as whole processes.

    sudo .venv/bin/python -m benchmarks.commands [--repeat 10] [--demo]

Prints the least, the median and the most in seconds of help pages, `inspect` on a capture of 8 hosts, `plan`
of it, `fabric`, and the second `setup`; with --demo also of one `demo`.  Each command runs once before, so
files are in memory, and commands take turns, so that a busy moment of the machine meets all of them.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gradwire.emu.project import PROJECT

SAMPLE = "traces/samples/ddp_gloo_8_gpt_tso"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("plan", "--help"),
    ("replay", "--help"),
    ("inspect", SAMPLE),
    ("plan", SAMPLE, "--fabric", "fat-tree:k=4"),
    ("fabric", "fat-tree:k=4", "bigraph:n=8,m=2"),
    ("setup",),
)
LIMIT_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--demo", action="store_true")
    arguments = parser.parse_args()
    for command in COMMANDS:
        taken_s(command)
    rounds = [[taken_s(command) for command in COMMANDS] for _ in range(arguments.repeat)]
    for command, times_s in zip(COMMANDS, zip(*rounds, strict=True), strict=True):
        show(command, times_s)
    if arguments.demo:
        with tempfile.TemporaryDirectory(prefix="gradwire-demo-") as folder:
            command = ("demo", "--out", str(Path(folder) / "runs"))
            show(("demo",), [taken_s(command)])


def taken_s(command: tuple[str, ...]) -> float:
    """The wall-clock time of one call; CalledProcessError if it fails."""
    begun = time.monotonic()
    subprocess.run(
        [str(PROJECT / "gradwire"), *command],
        cwd=PROJECT,
        check=True,
        timeout=LIMIT_S,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - begun


def show(command: tuple[str, ...], times_s: Sequence[float]) -> None:
    times = f"{min(times_s):6.2f} {statistics.median(times_s):6.2f} {max(times_s):6.2f}"
    print(f"{times}  gradwire {' '.join(command)}", flush=True)


if __name__ == "__main__":
    main()
