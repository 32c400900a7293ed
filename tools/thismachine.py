"""What the machine has and can do, found by asking and by trying, and what each command requires."""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from gradwire import COMMAND
from gradwire.emu.options import OS_KEN, RYU
from gradwire.emu.project import PROJECT, RANK_LIBRARY, RYU_PYTHON, SWITCH_OBJECT, WORKER_LIBRARY

PROBE = PROJECT / "tools" / "probe.sh"
LOCK = PROJECT / "requirements.lock"
COMPILED = (WORKER_LIBRARY, RANK_LIBRARY)
NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child")
TIMEOUT_S = 20.0
OVS_TOOLS = ("ethtool", "ovs-vswitchd")
RUN_TOOLS = ("mnexec", "ip", "tc", "unshare", "setpriv", "nsenter")


def is_root() -> bool:
    return os.geteuid() == 0


def kernel() -> str:
    return os.uname().release


def n_cpus() -> int:
    """The processors that we may use, which can be fewer than there are."""
    return len(os.sched_getaffinity(0))


def free_disk_nbytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def congestion_controls() -> tuple[str, ...]:
    return tuple(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())


def tool_version(command: Sequence[str]) -> str | None:
    """The version in the first line that `command` prints; None if the tool is missing."""
    try:
        lines = _run(command).stdout.splitlines()
    except (FileNotFoundError, PermissionError):  # the second where a folder of PATH is closed to this user
        return None
    version = re.search(r"\d+(\.\d+)+|\d{6,}", lines[0]) if lines else None
    return version[0] if version else "of unknown version"


def kernel_has_openvswitch() -> bool:
    """Whether Open vSwitch's kernel datapath is loaded or could be."""
    if Path("/sys/module/openvswitch").exists():
        return True
    try:
        return _run(["modprobe", "--dry-run", "--quiet", "openvswitch"]).returncode == 0
    except (FileNotFoundError, PermissionError):
        return False


def probed() -> dict[str, str]:
    """What tools/probe.sh found: `ok` or the error text, for each thing it tried.

    Without root it tries inside a user namespace, where the kernel allows one.  Empty if no namespace
    could be made; the text is then under the name `namespaces`.
    """
    as_root = () if is_root() else ("--user", "--map-root-user")
    try:
        done = _run(["unshare", *as_root, *NAMESPACES, "bash", str(PROBE), str(SWITCH_OBJECT)])
    except FileNotFoundError as error:
        return {"namespaces": f"{error.filename} is missing"}
    outcomes = dict(line.rstrip().split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return outcomes or {"namespaces": done.stderr.strip() or "unshare failed"}


def compiled_fault() -> str:
    """Why what is compiled for ranks cannot be loaded, aggregation or their loop; empty if it can."""
    try:
        for library in COMPILED:
            ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return ""


def packages_unlike_the_lock() -> Iterator[str]:
    """Each pinned Python package that is not there as pinned: `numba 0.60, not 0.68.1`."""
    for line in LOCK.read_text().splitlines() if LOCK.exists() else ():
        name, _, pinned = line.split(" ", 1)[0].partition("==")
        if not pinned or name.startswith(("#", "-")):
            continue
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield f"{name} is missing"
        else:
            if installed != pinned:
                yield f"{name} {installed}, not {pinned}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # Where the tools are is not on the path of a user who is not root.
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return subprocess.run(
        command,
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        env=os.environ | {"PATH": path, "LC_ALL": "C.UTF-8"},
    )


def need_emulation() -> None:
    """Raise ModuleNotFoundError where gradwire was installed without what emulation needs."""
    for package in ("mininet", "os_ken"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def need_root_and_tools(
    command: str, switch: str = "gradwire", captures: bool = False, controller: str = OS_KEN
) -> None:
    """Raise PermissionError or FileNotFoundError with what to do about it."""
    if not is_root():
        raise PermissionError(
            f"{command} makes network namespaces and needs root: run sudo {COMMAND} {command} …"
        )
    need_emulation()
    tools = RUN_TOOLS + (OVS_TOOLS if switch == "ovs" else ()) + (("tcpdump",) if captures else ())
    for tool in tools:
        if shutil.which(tool) is None:
            raise FileNotFoundError(f"{tool} is not installed: run sudo {COMMAND} setup")
    if controller == RYU and not RYU_PYTHON.exists():
        raise FileNotFoundError(f"--controller ryu: Ryu is not installed: run sudo {COMMAND} setup --ryu")
    for compiled in (RANK_LIBRARY,) if switch == "ovs" else (SWITCH_OBJECT, WORKER_LIBRARY, RANK_LIBRARY):
        if not compiled.exists():
            raise FileNotFoundError(f"{compiled} is not compiled: run sudo {COMMAND} setup")
