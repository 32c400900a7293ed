"""Whether this kernel can delay packets: a fabric whose cables have a delay needs it."""

import subprocess

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.traces.units import show_first

_SHOWN_LINKS = 3
_PROBE_S = 10


class NoNetem(OSError):
    """The kernel has no netem; the text names the cables that need it, and what to do."""


def need_netem(fabric: Fabric) -> None:
    """Raise NoNetem if a cable has a delay and the kernel cannot delay.

    Tried on the loopback of the namespace that the run has for itself, which also loads the module where
    there is one.
    """
    delayed = [f"{link.a}-{link.b}" for link in fabric.links if link.delay_ns]
    if not delayed:
        return
    added = _tc("add", "netem", "delay", "1us")
    if added.returncode == 0:
        _tc("del")
        return
    raise NoNetem(
        f"links {show_first(delayed, _SHOWN_LINKS)} have a delay, and this kernel has no netem: "
        "run `modprobe sch_netem`, use the lab VM, which has it, or leave the delay out"
    )


def _tc(verb: str, *what: str) -> "subprocess.CompletedProcess[str]":
    command = ["tc", "qdisc", verb, "dev", "lo", "root", *what]
    return subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=False)
