"""`gradwire part`: carry one machine's part of a fabric that several machines carry together."""

import typer

from gradwire.emu.network.isolate import isolated, stop
from gradwire.tools.machine import need_root_and_tools


def part() -> None:
    """Carry a part of a fabric for another machine.

    `up`, `replay` and `bench` with --machines start this on every other machine
    by ssh, and talk to it through stdin and stdout, so there is nothing to type.
    It ends with the command that started it (docs/machines.md).
    """
    need_root_and_tools("part")
    process = isolated("gradwire.emu.machines.session", [], underlay=True)
    try:
        code = process.wait()
    finally:
        stop(process)
    raise typer.Exit(code)
