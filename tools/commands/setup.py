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
) -> None:
    """Install what is missing: Debian packages (needs root), Python packages and the compiled switch."""
    os.execv(SCRIPT, [str(SCRIPT), *(["--live"] if live else []), *(["--ryu"] if ryu else [])])
