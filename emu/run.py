"""Carries a plan out, in namespaces of its own; leaves a folder of results and nothing else.

`manifest.json` says what the run was made with: enough to make it again, or to see why it cannot be.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from gradwire.emu import deadlines
from gradwire.emu.channel import Channel
from gradwire.emu.lifecycle import Progress, follow, session, working_folder
from gradwire.emu.options import RunOptions
from gradwire.emu.replay import payload
from gradwire.planning import plan as plans
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.traces.files import write_whole

Result = TypeVar("Result")
MAX_HOSTS, MAX_RANKS = 1024, 512
MAX_CABLES = 20_000  # so no interface name grows past the 15 characters that Linux allows
PACKAGES = ("mininet", "os-ken", "numpy")


def run(
    plan: Plan,
    folder: Path,
    options: RunOptions,
    progress: Progress,
    finish: Callable[[Path], Result],
    channel: Channel | None = None,
) -> Result:
    """Leave the run's files in `folder`, and return what `finish` makes of them while it is not yet whole.
    Whoever reads the `channel` sees the run go on (emu.looks).

    Raises Refused, before anything is made, for a plan that the kind of switch cannot carry out, and
    RunFailed with one line; the incomplete folder then stays.  Ends within seconds when a process of the run
    dies, and by itself after a time limit that grows with the plan's predicted time.
    """
    check_served(plan, options.switch, options.machines is not None)
    with working_folder(folder) as work:
        _write_inputs(plan, options, work)
        several = options.machines is not None
        with session("the run", "gradwire.emu.session", work, channel, several) as child:
            follow(child, deadlines.run_s(plan, options), progress)
        result = finish(work)
    work.rename(folder)
    return result


def check_served(plan: Plan, switch: str, on_several_machines: bool = False) -> None:
    """Raise Refused for what this kind of switch cannot do, and for more data than ranks may hold here."""
    if switch == "ovs" and (plan.trees or plan.losses):
        what = "add up gradients" if plan.trees else "lose packets by plan"
        raise Refused(f"Open vSwitch cannot {what}: use --switch gradwire")
    if switch == "ovs" and on_several_machines:
        raise Refused("Open vSwitch's switches are on one machine: use --switch gradwire with --machines")
    if plan.failures and on_several_machines:
        raise Refused(
            "a tunnel between machines does not fail at both ends at once: leave out --machines or --fail"
        )
    for n, what, most in (
        (len(plan.fabric.hosts), "hosts", MAX_HOSTS),
        (len(plan.fabric.links), "cables", MAX_CABLES),
        (plan.n_ranks, "ranks", MAX_RANKS),
    ):
        if n > most:
            raise Refused(f"{n:,} {what}: one machine builds and runs at most {most:,}; `plan` computes more")
    held = payload.held_nbytes(plan.schedule)
    if held > payload.MAX_HELD_NBYTES:
        raise Refused(
            f"the ranks of a run would hold {held / 2**30:.1f} GiB, the limit is "
            f"{payload.MAX_HELD_NBYTES >> 30} GiB: choose fewer iterations or scale the sizes down"
        )


def _write_inputs(plan: Plan, options: RunOptions, work: Path) -> None:
    plans.save(plan, work / "plan.json")
    write_whole(work / "options.json", json.dumps(options.to_json()) + "\n")
    described = manifest(plan, options, work / "plan.json")
    write_whole(work / "manifest.json", json.dumps(described, indent=1) + "\n")


def manifest(plan: Plan, options: RunOptions, plan_file: Path) -> dict[str, Any]:
    """Kernel, versions, machine, seed, hashes, switch and TCP settings."""
    # Mininet takes a tenth of a second to import.
    from gradwire.emu.network.net import host_route, host_sysctls

    offloads = options.switch != "ovs"
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
        "controller": options.controller,
        "repeats": options.repeats,
        "transport": asdict(plan.transport),
        "checksum_and_segmentation_offload": offloads,
        "host_sysctls": host_sysctls(plan.transport, plan.fabric.mtu_nbytes),
        "host_route": host_route(
            plan.fabric, plan.transport, checksum_offload=offloads, loses=bool(plan.losses)
        ),
    }


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return (done.stdout or done.stderr).strip().split("\n", 1)[0]
