"""The checks of `doctor`: what was found, whether it is good enough, and how to fix it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gradwire import COMMAND
from gradwire.emu.project import PROJECT, SWITCH_OBJECT
from gradwire.planning.transport import CONGESTION_CONTROL
from gradwire.tools import thismachine
from gradwire.traces.memory import free_nbytes
from gradwire.traces.shortages import advice
from gradwire.traces.units import show_nbytes

State = Literal["ok", "missing", "weak", "unknown"]

SETUP = f"sudo {COMMAND} setup"
KERNEL_MEND = "this kernel lacks it: use the lab VM (vagrant up) or Debian's own kernel"
SAMPLE = PROJECT / "traces" / "samples" / "ddp_gloo_8_gpt_tso"

FEW_CPUS = 2
LITTLE_MEMORY_NBYTES = 2_000_000_000
LITTLE_DISK_NBYTES = 500_000_000

# Tool -> what tells its version, and whether a run cannot do without it.
TOOLS = {
    "ip": (("ip", "-V"), True),
    "tc": (("tc", "-V"), True),
    "unshare": (("unshare", "--version"), True),
    "ethtool": (("ethtool", "--version"), True),
    "ping": (("ping", "-V"), False),
    "clang": (("clang", "--version"), True),
    "bpftool": (("bpftool", "version"), False),
    "iperf3": (("iperf3", "--version"), False),
    "tcpdump": (("tcpdump", "--version"), False),
    "tshark": (("tshark", "--version"), False),
}
# What tools/probe.sh tries -> what it is for, and whether the demo needs it.
PROBES = {
    "namespaces": ("a network of the run's own", True),
    "veth": ("cables", True),
    "htb": ("link rates", True),
    "switch program": ("tc-BPF switch, accepted by the kernel", True),
    "cls_bpf": ("the switch at a port's ingress", True),
    "mirred": ("captures of what has not queued yet", False),
    "mnexec": ("Mininet's hosts", True),
}


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """`needed`: the demo cannot run without it.  `mend` is empty where there is nothing to mend."""

    name: str
    state: State
    found: str
    mend: str = ""
    needed: bool = True


def can_run_demo(checks: tuple[MachineCheck, ...]) -> bool:
    """Whether nothing that the demo needs is known to be missing; root is for sudo to give."""
    return not any(check.needed and check.state == "missing" for check in checks)


def all_checks() -> tuple[MachineCheck, ...]:
    return (*_resources(), *_kernel(), *_installed(), _compiled(), _open_vswitch())


def _resources() -> Iterator[MachineCheck]:
    n_cpus = thismachine.n_cpus()
    few = "" if n_cpus >= FEW_CPUS else "expect low rates: switches and ranks share one processor"
    yield MachineCheck("processors", "weak" if few else "ok", str(n_cpus), few, needed=False)
    for name, free, least in (
        ("free memory", free_nbytes(), LITTLE_MEMORY_NBYTES),
        ("free disk here", thismachine.free_disk_nbytes(Path.cwd()), LITTLE_DISK_NBYTES),
    ):
        little = "" if free >= least else f"free some: {show_nbytes(least)} are enough for the demo"
        yield MachineCheck(name, "weak" if little else "ok", show_nbytes(free), little, needed=False)


def _kernel() -> Iterator[MachineCheck]:
    yield MachineCheck("kernel", "ok", thismachine.kernel())
    root = thismachine.is_root()
    yield MachineCheck(
        "root", "ok" if root else "unknown", "yes" if root else "no: runs need sudo", needed=False
    )
    answers = thismachine.probed()
    for name, (purpose, needed) in PROBES.items():
        check = _probe(name, purpose, answers.get(name, "not tried: no namespaces"), root)
        yield replace(check, needed=needed)
    controls = thismachine.congestion_controls()
    missing = "" if {"reno", CONGESTION_CONTROL} <= set(controls) else KERNEL_MEND
    yield MachineCheck("TCP congestion control", "missing" if missing else "ok", " ".join(controls), missing)


def _probe(name: str, purpose: str, answer: str, root: bool) -> MachineCheck:
    if answer == "ok":
        return MachineCheck(name, "ok", purpose)
    if not root:
        mend = f"sudo {COMMAND} doctor"
        return MachineCheck(name, "unknown", "could not be tried without root", mend)
    if name == "switch program" and not SWITCH_OBJECT.exists():
        return MachineCheck(name, "missing", "not compiled", SETUP)
    if how := advice(answer):
        return MachineCheck(name, "missing", answer, how)
    return MachineCheck(name, "missing", answer, SETUP if "not found" in answer else KERNEL_MEND)


def _installed() -> Iterator[MachineCheck]:
    for name, (command, needed) in TOOLS.items():
        version = thismachine.tool_version(command)
        if version is None:
            yield MachineCheck(name, "missing", "not installed", SETUP, needed)
        else:
            yield MachineCheck(name, "ok", version, needed=needed)
    wrong = tuple(thismachine.packages_unlike_the_lock())
    text = "; ".join(wrong[:3]) + (" …" if len(wrong) > 3 else "")
    if wrong:
        yield MachineCheck("Python packages", "missing", text, f"rm -r .venv && {SETUP}")
    else:
        yield MachineCheck("Python packages", "ok", "as pinned")
    if SAMPLE.is_dir():
        yield MachineCheck("sample capture", "ok", SAMPLE.name)
    else:
        yield MachineCheck("sample capture", "missing", f"no {SAMPLE}", "check the repository out whole")


def _compiled() -> MachineCheck:
    fault = thismachine.compiled_fault()
    if fault:
        return MachineCheck("compiled ranks", "missing", fault, SETUP)
    return MachineCheck("compiled ranks", "ok", "compiled")


def _open_vswitch() -> MachineCheck:
    name = "Open vSwitch"
    version = thismachine.tool_version(("ovs-vswitchd", "--version"))
    if version is None:
        return MachineCheck(name, "missing", "not installed", SETUP, needed=False)
    if thismachine.kernel_has_openvswitch():
        return MachineCheck(name, "ok", f"{version}, kernel datapath", needed=False)
    slow = "--switch ovs will be slow: this kernel has no openvswitch module"
    return MachineCheck(name, "weak", f"{version}, user space", slow, needed=False)
