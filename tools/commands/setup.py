"""Install what is missing: the same script that ./gradwire runs by itself at first use."""

import os
from pathlib import Path
from typing import Annotated

import typer

SCRIPT = Path(__file__).parents[1] / "setup.sh"


def setup(
    live: Annotated[
        bool, typer.Option("--live", help="Also PyTorch, for capture ddp and capture ps.")
    ] = False,
    ryu: Annotated[bool, typer.Option("--ryu", help="Also Ryu 4.34, for the test under it.")] = False,
) -> None:
    """Install what is missing: Debian packages (as root), Python packages, the compiled switch."""
    os.execv(SCRIPT, [str(SCRIPT), *(["--live"] if live else []), *(["--ryu"] if ryu else [])])
