"""The live view of a command (`--watch`): a process beside it, which shows a page or draws in the terminal.

What it shows comes through a channel.

In a process of its own it takes no time from the command, and the page's server, the only part that hears
strangers, is not root.  The run itself puts its looks into the same channel (emu.looks).
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gradwire.emu.channel import Channel, channel
from gradwire.emu.interpreter import python
from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.tools.cli import PAGE
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.tools.table import Table
from gradwire.traces.units import parse_count

TERMINAL = "terminal"
LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8470
MIN_PORT, MAX_PORT = 1024, 65_535  # those below are for services, and root would get them
_END_S = 3.0


class LiveView:
    """What a command says to whoever watches."""

    def __init__(self, to: Channel, *, is_terminal: bool) -> None:
        self.channel = to
        self.is_terminal = is_terminal

    def show_fabric(self, fabric: Fabric, placement: Sequence[str] = ()) -> None:
        """From now on looks are at this fabric; `placement` is the host of each rank."""
        labels = {host: f"rank {rank}" for rank, host in enumerate(placement)}
        self.channel.send(
            "run",
            fabric=fabric.spec,
            links=[
                [link_name(fabric, egress), rate_bps, egress.node, egress.port]
                for egress, rate_bps in fabric.rates.items()
            ],
            hosts=list(placement),
            svg=fabric_svg(fabric, {}, labels, "share of the rate now"),
        )

    def phase(self, text: str) -> None:
        """What is done now."""
        self.channel.send("phase", text=text)

    def progress(self, n_done: int, n_cells: int, left: str, best: Sequence[str]) -> None:
        """How many cells are done, of how many, how long the others take in words, and which are best."""
        self.channel.send("progress", n_done=n_done, n_cells=n_cells, left=left, best=list(best))

    def rows(self, table: Table, n_cells: int, n_done: int | None = None) -> None:
        """The cells that are done (tools.live.rows), of how many; `n_done` if not all of them are shown."""
        self.channel.send(
            "rows",
            n_cells=n_cells,
            n_done=len(table.rows) if n_done is None else n_done,
            columns=[[column.title, column.is_number] for column in table.columns],
            rows=[[cell.text for cell in row] for row in table.rows],
        )


@contextmanager
def live_view(choice: str | None, title: str) -> Iterator[LiveView | None]:
    """While this is open, somebody may watch; None, and nothing of it, if `choice` is None.

    `choice` is the option's value: PAGE, a port, or TERMINAL.  Raise ValueError for another one, and OSError
    for a port that is in use, before anything is started.
    """
    if choice is None:
        yield None
        return
    port = port_of(choice)
    listener = None if port is None else _listener(port)
    if listener is None and not sys.stderr.isatty():
        raise ValueError("--watch=terminal: standard error is not a terminal; use --watch for a page")
    to, end = channel()
    module = "gradwire.tools.live.page" if listener else "gradwire.tools.live.terminal"
    fds = [each.fileno() for each in (end, listener) if each]
    process = subprocess.Popen(
        python(module, *map(str, fds)), stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True
    )
    end.close()
    if listener:
        print(where_to_look(listener.getsockname()[1]), file=sys.stderr)
        listener.close()
    to.send("title", text=title)
    try:
        yield LiveView(to, is_terminal=listener is None)
    finally:
        to.close()
        _end(process)


def port_of(choice: str) -> int | None:
    """The page's port, 0 for any; None for the terminal.  Raise ValueError."""
    if choice == TERMINAL:
        return None
    if choice == PAGE:
        return DEFAULT_PORT
    if not choice.isdecimal():
        raise ValueError(f"--watch={choice}: give a port, or {TERMINAL}")
    port = parse_count("--watch", choice, 0, MAX_PORT)
    if 0 < port < MIN_PORT:
        raise ValueError(
            f"--watch={port}: ports below {MIN_PORT:,} are for services of the system; give one from "
            f"{MIN_PORT:,} to {MAX_PORT:,}, or --watch=0 for any free one"
        )
    return port


def where_to_look(port: int) -> str:
    """For whoever started it, perhaps over ssh."""
    return f"watch: http://{LOOPBACK}:{port}/\n       {over_ssh(port)}"


def over_ssh(port: int) -> str:
    """How a browser on another machine reaches a page of this one's loopback."""
    return f"from another machine first: ssh -L {port}:{LOOPBACK}:{port} {socket.gethostname()}"


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(
            f"--watch: {LOOPBACK}:{port}: {reason}; choose another port, or --watch=0 for any free one"
        ) from error


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It ends by itself, as nobody is left in the channel."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode:
        print(f"gradwire: the live view failed (exit code {process.returncode})", file=sys.stderr)
