"""`gradwire up`: a fabric to play with."""

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from emu.fabrics.fabricfile import is_file
from emu.fabrics.spec import parse_fabric
from emu.network.isolate import isolated, stop
from emu.options import SWITCHES
from tools.needs import need_root_and_tools
from tools.options import SwitchOption


def up(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="The fabric, e.g. fat-tree:k=4,rate=100M, or a YAML file.")
    ],
    switch: SwitchOption = "gradwire",
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Commands for the prompt, instead of typing them.", exists=True),
    ] = None,
) -> None:
    """A fabric with its controller, and Mininet's own prompt: `h0 ping h5`, `h0 iperf3 -s &`, `exit`.

    Routes are shortest paths, spread by a hash of the flow. Everything is gone again when you leave.
    """
    fabric = parse_fabric(spec)
    if switch not in SWITCHES:
        raise ValueError(f"no switch {switch!r}; known: {', '.join(SWITCHES)}")
    need_root_and_tools("up", switch)
    told = str(Path(spec).resolve()) if is_file(spec) else fabric.spec
    options = {"fabric": told, "switch": switch, "script": str(script.resolve()) if script else None}
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the prompt's
    process = isolated("emu.prompt", [json.dumps(options)], new_session=False)
    try:
        code = process.wait()
    finally:
        stop(process)
        signal.signal(signal.SIGINT, before)
    raise typer.Exit(code)
