"""The machine's own network, which carries the tunnels of a fabric that is on several machines.

A session has a network namespace of its own, and was handed that of whoever started it, opened
(`isolate.isolated`).  A VXLAN interface sends through the namespace in which it was made, wherever it is
moved: so it is made there, and put here.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from gradwire.emu.kernel.isolate import UNDERLAY
from gradwire.emu.network.shaping import LINK_GROUP, segment_limits
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.machines.machinesfile import VXLAN_NBYTES
from gradwire.planning.machines.part import Control, Part, Tunnel
from gradwire.planning.transport import Transport

VXLAN_PORT = 4789  # RFC 7348, section 5
_HERE = "1"  # in the namespaces of a session, which is their process 1
_COMMAND_S = 20
_PING_NBYTES = 20 + 8  # the headers of IPv4 and of an ICMP echo
_LEAST_NBYTES = 100


def handed() -> int:
    """The descriptor of the machine's own network namespace, which this session was handed."""
    return int(os.environ[UNDERLAY])


def command(words: Sequence[str]) -> list[str]:
    """What runs a command there; it must be handed `handed()` as well."""
    return ["nsenter", f"--net=/proc/self/fd/{handed()}", "--", *words]


def check(part: Part, fabric: Fabric) -> None:
    """Raise OSError unless the machine has the part's address, and its network takes the fabric's packets to
    every machine that a tunnel leads to.
    """
    addresses = [
        each["local"]
        for port in _asked("-4", "address", "show")
        for each in port["addr_info"]
        if "local" in each
    ]
    if part.address not in addresses:
        raise OSError(f"no interface here has address {part.address}: correct it in the file of machines")
    needed_nbytes = fabric.mtu_nbytes + VXLAN_NBYTES
    for far in sorted({tunnel.far for tunnel in _tunnels(part)}):
        try:
            (route,) = _asked("-4", "-details", "route", "get", far, "from", part.address)
            (port,) = _asked("link", "show", "dev", route["dev"])
        except (OSError, KeyError) as error:  # an unreachable or blackhole route has no interface
            raise OSError(
                f"this machine has no route from {part.address} to {far}: correct the addresses in the file "
                "of machines, or its routes"
            ) from error
        if port["mtu"] < needed_nbytes:
            raise OSError(
                f"{route['dev']}, which leads to {far}, has an MTU of {port['mtu']:,}, and packets of the "
                f"fabric take {needed_nbytes:,} in a tunnel: raise it, or give the fabric "
                f"mtu={port['mtu'] - VXLAN_NBYTES}"
            )


def make_tunnels(part: Part, fabric: Fabric, transport: Transport) -> None:
    """Our ends of all tunnels, in this network namespace, still down.  Raise OSError."""
    lines = tunnels_batch(part, fabric, transport)
    _run("the tunnels to other machines", ["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))


def check_controls(part: Part, fabric: Fabric) -> None:
    """Raise OSError unless packets as long as the fabric's come back through each tunnel to a machine whose
    switches the controller here has, once that machine has made its end.

    What loses them is between the machines, and says nothing: a firewall, or a switch with a smaller MTU.
    """
    for control in part.controls:
        if _comes_back(control, fabric.mtu_nbytes):
            continue
        what = "packets do not come"
        advice = f"let UDP port {VXLAN_PORT} through the firewalls of both machines, and between them"
        if _comes_back(control, _LEAST_NBYTES):
            what = f"packets of {fabric.mtu_nbytes + VXLAN_NBYTES:,} bytes do not come"
            advice = (
                "shorter ones do: raise the MTU of what is between the machines, or lower the fabric's mtu"
            )
        raise OSError(
            f"{what} through a tunnel from {part.address} to {control.tunnel.far} and back; {advice}"
        )


def _comes_back(control: Control, nbytes: int) -> bool:
    """The first of some IP packets of this length that does not get lost."""
    size = str(nbytes - _PING_NBYTES)
    words = ["ping", "-n", "-q", "-M", "do", "-s", size, "-i", "0.2", "-c", "1", "-w", "4", control.far_ip]
    done = subprocess.run(words, capture_output=True, timeout=_COMMAND_S, check=False)
    return done.returncode == 0


def tunnels_batch(part: Part, fabric: Fabric, transport: Transport) -> Iterator[str]:
    """`ip -batch` lines.  Nothing is learned or flooded: all that enters a tunnel goes to its other end.

    The outer UDP header has no checksum, as RFC 7348 has it: the packet inside has its own.
    """
    common = f"group {LINK_GROUP} mtu {fabric.mtu_nbytes} {segment_limits(fabric, transport)}"
    for tunnel in _tunnels(part):
        yield (
            f"link add name {tunnel.interface} netns {_HERE} {common} type vxlan id {tunnel.vni} "
            f"local {part.address} remote {tunnel.far} dstport {VXLAN_PORT} nolearning noudpcsum"
        )


def _tunnels(part: Part) -> list[Tunnel]:
    return [*part.tunnels, *(control.tunnel for control in part.controls)]


def _asked(*words: str) -> list[dict[str, Any]]:
    """What `ip` says of the machine's own network.  Raise OSError."""
    answer: list[dict[str, Any]] = json.loads(_run(f"ip {' '.join(words)}", ["ip", "-json", *words]))
    return answer


def _run(what: str, words: Sequence[str], stdin: str = "") -> str:
    """What it prints.  Raise OSError that begins with `what`.

    The kernel takes process 1, which the lines name, to be in the namespace of its first thread: so that must
    not go into the other one.
    """
    done = subprocess.run(
        command(words),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
        pass_fds=(handed(),),
    )
    if done.returncode:
        raise OSError(f"{what}: {next(iter(done.stderr.strip().splitlines()), 'failed')}")
    return done.stdout
