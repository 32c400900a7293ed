"""How a capture was made: `manifest.json` beside it."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gradwire.emu.capturing.finish import Checked, HostCapture, TimesCheck
from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.capturing.run import Ran
from gradwire.emu.network.net import host_route, host_sysctls
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.planning.transport import fabric_transport

SCHEMA = "gradwire.capture/1"
PACKAGES = ("numpy", "os-ken", "torch")


@dataclass(frozen=True)
class Ended:
    """How it went: `started_ns` since 1970, and `ran`; `beside` names the jobs that ran at the same time."""

    started_ns: int
    seconds: float
    ran: Ran
    snaplen: int
    keeps_payload: bool
    beside: tuple[str, ...] = ()


def manifest(
    request: CaptureRequest,
    fabric: Fabric,
    typed: Sequence[str],
    ended: Ended,
    hosts: Sequence[HostCapture],
    check: Checked | None,
    trimmed: Checked,
    times: TimesCheck | None,
) -> dict[str, Any]:
    """`check` is of the whole payload against the logs, None if it was not made; `trimmed` says whether what
    is left of it, with the message indexes, is read the same; `times` compares with the logs' times.
    """
    transport = fabric_transport(fabric)
    return {
        "schema": SCHEMA,
        "command": list(typed),
        "job": request.title,
        "training": request.training.to_json() if request.training else None,
        "program": list(request.command) or None,
        "once": request.once,
        "ranks": request.n_ranks,
        "beside": list(ended.beside),
        "fabric": fabric_to_json(fabric),
        "started_ns": ended.started_ns,
        "seconds": round(ended.seconds, 3),
        "cut_short": ended.ran.cut_short,
        "cpu_idle": round(ended.ran.cpu_idle, 3),
        "cpu_stolen": round(ended.ran.cpu_stolen, 3),
        "cpu_beside": None if ended.ran.cpu_beside is None else round(ended.ran.cpu_beside, 3),
        "programs_beside": {use.program: round(use.share, 3) for use in ended.ran.programs},
        "snaplen": ended.snaplen,
        "keeps_payload": ended.keeps_payload,
        "check": check.to_json() if check else None,
        "check_trimmed": trimmed.to_json(),
        "check_times": times.to_json() if times else None,
        "hosts": [host.to_json() for host in hosts],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "tcpdump": _tcpdump_version(),
        "cpus": os.cpu_count(),
        "host_sysctls": host_sysctls(transport, fabric.mtu_nbytes),
        "host_route": host_route(fabric, transport),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _tcpdump_version() -> str:
    done = subprocess.run(["tcpdump", "--version"], capture_output=True, text=True, timeout=10, check=False)
    return (done.stdout or done.stderr).split("\n", 1)[0].strip()
