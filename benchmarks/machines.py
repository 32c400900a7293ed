"""Does a fabric on two machines do what it does on one?  `.venv/bin/python -m benchmarks.machines`, as root.

Sums in switches on a fat-tree, HDRM on a BiGraph, and a ring: for each the time on one machine and on two,
the verdicts, whether the switches' counters agree with the plan, and what the calibration says of flows that
cross.  The two machines are sets of namespaces of this one, joined by a cable, so they share its processors:
rates are low, and the second machine costs what its tunnels cost.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gradwire.emu.project import PROJECT
from tests.real.twomachines import on_left

GRADWIRE = str(PROJECT / "gradwire")
HDRM = ("--placement", "hdrm", "--routes", "direct")
CASES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("fat-tree:k=4", "ina", ()),
    ("bigraph:n=8,m=2", "halving-doubling", HDRM),
    ("fat-tree:k=4", "ring", ()),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", default="20M", help="of all links")
    parser.add_argument("--size", default="2MiB", help="of the allreduce")
    given = parser.parse_args()
    print("fabric           algorithm         machines  time s  ratio  counters  crossing  delay ms  verdict")
    for spec, algorithm, more in CASES:
        for n_machines in (1, 2):
            with tempfile.TemporaryDirectory(prefix="gradwire-") as folder:
                words = ("--fabric", f"{spec},rate={given.rate}", "--algorithm", algorithm, *more)
                row = _row(Path(folder), n_machines, ("-b", given.size, *words))
                print(f"{spec:16} {algorithm:17} {n_machines:8}  {_figures(row)}", flush=True)


def _row(folder: Path, n_machines: int, words: tuple[str, ...]) -> dict[str, Any]:
    bench = (GRADWIRE, "bench", "allreduce", "-n", "3", "--out", str(folder / "runs"), "--json", *words)
    if n_machines == 2:
        done = on_left(folder, *bench, "--machines", "FILE", timeout_s=900)
    else:
        done = subprocess.run(bench, cwd=PROJECT, capture_output=True, text=True, timeout=900, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    (row,) = json.loads(done.stdout)
    assert isinstance(row, dict)
    return row


def _figures(row: dict[str, Any]) -> str:
    folder = Path(row["folder"])
    audit = subprocess.run(
        [GRADWIRE, "audit", str(folder), "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    agrees = "agree" if json.loads(audit.stdout)[0]["run"]["agrees"] else "differ"
    tunnels = json.loads((folder / "verdict.json").read_text())["calibration"]["tunnels"]
    crossing = f"{tunnels['eta']:8.3f}  {1e3 * tunnels['delay_s']:8.2f}" if tunnels else f"{'':8}  {'':8}"
    verdict = row["verdict"] + (f": {row['reasons'][0]}" if row["reasons"] else "")
    wrong = f", {row['wrong']} wrong" if row["wrong"] else ""
    return f"{row['time_s']['median']:6.3f}  {row['ratio']:5.3f}  {agrees:8}  {crossing}  {verdict}{wrong}"


if __name__ == "__main__":
    main()
