"""`gradwire part`: carry one machine's part of a fabric that several machines carry together."""

import os
import select
import subprocess
import sys

import typer

from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.tools.thismachine import need_root_and_tools

_END_S = 10.0


def part() -> None:
    """Carry a part of a fabric for another machine.

    `up`, `replay` and `bench` with --machines start this on every other machine
    by ssh, and talk to it through stdin and stdout, so there is nothing to type.
    It ends with the command that started it (docs/machines.md).
    """
    need_root_and_tools("part")
    process = isolated("gradwire.emu.machines.session", [], underlay=True)
    try:
        code = ended(process)
    finally:
        stop(process)
    raise typer.Exit(code)


def ended(process: "subprocess.Popen[str]") -> int:
    """The exit code of the session; 1 if it does not end though nobody can ask it any more, as if stopped."""
    pidfd = os.pidfd_open(process.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(sys.stdin.fileno(), 0)  # that the other end is closed is always reported
    poll.poll()
    os.close(pidfd)
    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return 1
