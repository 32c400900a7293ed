"""`gradwire up`: start a fabric to try things on."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.options import OS_KEN, Software
from gradwire.tools.options.common import (
    ControllerOption,
    MachinesOption,
    RoutesOption,
    SwitchOption,
    WatchOption,
    complete_fabric,
)


def up(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="Fabric, e.g. fat-tree:k=4,rate=100M, or a YAML file.",
            autocompletion=complete_fabric,
        ),
    ],
    switch: SwitchOption = "gradwire",
    controller: ControllerOption = OS_KEN,
    routes: RoutesOption = "ecmp",
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read the commands from this file instead of the terminal. Exit code 1 if one fails.",
            exists=True,
        ),
    ] = None,
    machines: MachinesOption = None,
    watch: WatchOption = None,
) -> None:
    """Start a fabric with its controller, and open Mininet's prompt on it.

    At the prompt type, for example, `h0 ping h5`, `iperf h0 h7`,
    `leaf0 dpctl dump-flows`, `switch spine0 stop` or `help`; docs/prompt.md has
    more. Everything is removed when you leave the prompt.

    sudo gradwire up fat-tree:k=4,rate=100M
    sudo gradwire up fat-tree:k=4 --watch
    """
    from gradwire.tools.work.up import start_fabric

    start_fabric(spec, Software(switch, controller), routes, script, machines, watch)
