"""`gradwire controller`: run only the controller, for switches that somebody else starts."""

import ipaddress
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.interpreter import python
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.options.common import RoutesOption, complete_fabric
from gradwire.tools.thismachine import need_emulation

FOR_EVER_S = "inf"
OPEN_TO_OTHERS = (
    "OpenFlow is plain TCP here, without a password or encryption: whoever reaches {} can pass for a switch, "
    "or read and change what the switches are sent; use a network of your own, or a tunnel"
)


def controller(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SPEC|PLAN",
            help="Fabric, e.g. fat-tree:k=4 or a YAML file, or a plan.json that `plan` wrote.",
            autocompletion=complete_fabric,
        ),
    ],
    routes: RoutesOption = "ecmp",
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="IP address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port to listen on for OpenFlow.")] = 6653,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Give up if a switch does not have its rules after this long. Default: keep waiting.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append failures to this file, as JSON Lines. A symbolic link is refused."
        ),
    ] = None,
) -> None:
    """Run only the OpenFlow 1.3 controller, for switches that you start elsewhere, e.g. with Mininet's `mn`.

    It waits for the switches of SPEC or PLAN to connect, gives each its rules and
    says when all have them; Ctrl-C ends it. The switches must have the fabric's
    dpids and port numbers, and the hosts must know each other's MAC addresses
    (`mn --arp`). A PLAN has its own routes; --routes is for a SPEC.

    gradwire controller fat-tree:k=4
    gradwire controller plan.json --port 6633
    """
    if what.endswith(".json"):
        source = [what]
    else:
        parse_fabric(what)  # its complaint at once
        source = ["--fabric", what, "--routes", routes]
    if not is_loopback(listen):
        print(f"gradwire: warning: {OPEN_TO_OTHERS.format(listen)}", file=sys.stderr, flush=True)
    need_emulation()
    command = python("gradwire.controller", *source, "--people", "--listen", listen, "--port", str(port))
    command += ["--timeout", FOR_EVER_S if timeout is None else str(timeout)]
    if log is not None:
        command += ["--log", str(log)]
    # Until the imports of the controller are done:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.execv(command[0], command)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach a listener there."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name
        return address == "localhost"
