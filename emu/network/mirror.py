"""What a host sends, copied before it queues in the host's port.  An edge module.

A capture at a port shows packets as they leave, so it does not show when a program wrote what had to queue.
The copies go to an interface of their own, where tcpdump sees them.
"""

import subprocess
from collections.abc import Mapping, Sequence

from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.watch import RunFailed
from gradwire.planning.fabrics.fabric import HOST_PORT, interface

MIRROR, _NOWHERE = "mirror", "nowhere"
_COMMAND_S = 60

# A veth, whose other end drops what arrives as it is for nobody there: some kernels have no dummy interface.
_INTERFACES = f"""\
link add {MIRROR} type veth peer name {_NOWHERE}
link set {_NOWHERE} up arp off
link set {MIRROR} up arp off
"""
_COPYING = f"""\
qdisc add dev {{port}} clsact
filter add dev {{port}} egress protocol ip u32 match ip protocol 6 0xff \
action mirred egress mirror dev {MIRROR}
"""


def mirror_before_queues(hosts: Sequence[str], pids: Mapping[str, int]) -> None:
    """From now on all that one of the hosts sends by TCP over IPv4 also goes to the interface MIRROR in its
    namespace, before it queues.  The interface vanishes with the namespace.  Raise RunFailed.
    """
    for host in hosts:
        _batch(host, pids[host], "ip", _INTERFACES)
        _batch(host, pids[host], "tc", _COPYING.format(port=interface(host, HOST_PORT)))


def _batch(host: str, pid: int, program: str, commands: str) -> None:
    done = subprocess.run(
        [*enter(pid), program, "-batch", "-"],
        input=commands,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunFailed(
            f"mirroring what {host} sends: {program}: {said[0]}: sudo ./gradwire doctor says more"
        )
