"""gradwire's switch beside Open vSwitch in the kernel: the same plans, by turns on the same machine.

    sudo .venv/bin/python -m benchmarks.kernelovs [--fabric SPEC] [--size 8MiB] [--repeat 5]

Needs a kernel with the openvswitch module, as Debian's own has (in the lab VM), and refuses to print figures
where the processor is emulated: there the emulator's costs are compared, not the switches'.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradwire.emu.interpreter import python
from gradwire.tools.thismachine import kernel_has_openvswitch

SWITCHES = ("gradwire", "ovs")
FINISHED = (0, 3)  # exit codes of `bench`: with figures, valid or not
EMULATORS = ("QEMU Virtual CPU", "QEMU TCG", "TCG CPU")  # model names of QEMU's own processors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fabric", default="fat-tree:k=4,levels=2,rate=50M")
    parser.add_argument("--size", default="8MiB")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    if reason := refusal(Path("/proc/cpuinfo").read_text(), detected(), has_module=kernel_has_openvswitch()):
        sys.exit(f"benchmarks.kernelovs: {reason}")
    subprocess.run(
        ["modprobe", "openvswitch"], check=False
    )  # Open vSwitch falls back to user space without it
    print("switch    time s  ratio  CPU idle  verdict")
    for switch in SWITCHES:
        for row in measured(switch, arguments.fabric, arguments.size, arguments.repeat):
            print(shown(switch, row))


def refusal(cpuinfo: str, virtualization: str, *, has_module: bool) -> str | None:
    """Why figures of this machine would say nothing; None if they do."""
    if virtualization == "qemu" or any(name in cpuinfo for name in EMULATORS):
        return (
            "the processor is emulated (QEMU without KVM), so times would be the emulator's; use a real one"
        )
    if not has_module:
        return (
            "this kernel has no openvswitch module; use Debian's own, for instance in the lab VM (vagrant up)"
        )
    return None


def detected() -> str:
    """What systemd-detect-virt says: `qemu` is QEMU without KVM, `none` no virtual machine; "" without it."""
    try:
        return subprocess.run(
            ["systemd-detect-virt", "--vm"], capture_output=True, text=True, check=False
        ).stdout.strip()
    except FileNotFoundError:
        return ""


def measured(switch: str, fabric: str, size: str, repeat: int) -> Sequence[dict[str, Any]]:
    words = [
        "bench",
        "allreduce",
        "-b",
        size,
        "--fabric",
        fabric,
        "--repeat",
        str(repeat),
        "--switch",
        switch,
    ]
    done = subprocess.run(
        python("gradwire.tools", *words, "--json"), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode not in FINISHED:
        sys.exit(f"benchmarks.kernelovs: bench with --switch {switch} failed, see above")
    rows: Sequence[dict[str, Any]] = json.loads(done.stdout)
    return rows


def shown(switch: str, row: dict[str, Any]) -> str:
    time_s = row["time_s"]["median"] if row["time_s"] else float("nan")
    ratio, idle = (row[name] if row[name] is not None else float("nan") for name in ("ratio", "cpu_idle"))
    return f"{switch:8}  {time_s:6.3f}  {ratio:5.3f}  {idle:8.2f}  {row['verdict']}"


if __name__ == "__main__":
    main()
