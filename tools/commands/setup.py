"""`gradwire setup`: install what is missing, by the script that ./gradwire runs at first use."""

import os
from pathlib import Path
from typing import Annotated

import typer

SCRIPT = Path(__file__).parents[1] / "setup.sh"


def setup(
    live: Annotated[
        bool, typer.Option("--live", help="Also install PyTorch, which the built-in jobs ddp and ps need.")
    ] = False,
    ryu: Annotated[
        bool,
        typer.Option("--ryu", help="Also install Ryu 4.34 in a Python of its own, for --controller ryu."),
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Also install Ray, for sweep --ray.")] = False,
    simgrid: Annotated[
        bool, typer.Option("--simgrid", help="Also install SimGrid, for plan --engine simgrid.")
    ] = False,
    ns3: Annotated[bool, typer.Option("--ns3", help="Also install ns-3, for plan --engine packets.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Also install MkDocs, for gradwire docs.")] = False,
) -> None:
    """Install what is missing: Debian packages (needs root), Python packages and the compiled switch.

    sudo gradwire setup
    sudo gradwire setup --live
    """
    wanted = {"--live": live, "--ryu": ryu, "--docs": docs, "--simgrid": simgrid, "--ns3": ns3, "--ray": ray}
    os.execv(SCRIPT, [str(SCRIPT), *(option for option, is_wanted in wanted.items() if is_wanted)])
