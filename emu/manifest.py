"""What a run was made with: enough to make it again, or to see why it cannot be."""

import hashlib
import os
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from emu.network.net import host_sysctls
from emu.options import RunOptions
from planning.plan import Plan

PACKAGES = ("mininet", "os-ken", "numpy", "scapy")


def manifest(plan: Plan, options: RunOptions, plan_file: Path) -> dict[str, Any]:
    """Kernel, versions, machine, seed, hashes, switch and TCP settings."""
    return {
        "schema": "gradwire.manifest/1",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "iproute2": _first_line(["tc", "-V"]),
        "cpus": os.cpu_count(),
        "source": plan.source,
        "seed": plan.seed,
        "plan_sha256": hashlib.sha256(plan_file.read_bytes()).hexdigest(),
        "switch": options.switch,
        "repeats": options.repeats,
        "transport": asdict(plan.transport),
        "checksum_and_segmentation_offload": options.switch != "ovs",
        "host_sysctls": host_sysctls(plan.transport),
    }


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return (done.stdout or done.stderr).strip().split("\n", 1)[0]
