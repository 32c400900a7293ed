"""Starts a fabric and its prompt, for `gradwire up`."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.lifecycle import how_main_process_ended
from gradwire.emu.options import CONTROLLERS, SWITCHES, Software
from gradwire.emu.prompt import INTERRUPTED, SAID_WHY
from gradwire.emu.watch import LOOK_S, RunFailed, SuspensionWatch
from gradwire.planning.fabrics.spec import is_file, parse_fabric
from gradwire.planning.machines.machinesfile import read_to_build
from gradwire.planning.plan import ADAPTIVE
from gradwire.planning.routing.policies import policy
from gradwire.tools.exits import FAULT
from gradwire.tools.live.view import TERMINAL, live_view
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.units import one_of, show_nbytes

MAX_SCRIPT_NBYTES = 1 << 20
SCAPY_START = "from gradwire.tools.dissect.lab import *"


def start_fabric(
    spec: str,
    software: Software,
    routes: str,
    script: Path | None,
    machines: Path | None,
    watch: str | None,
) -> None:
    """Open the prompt; leave with exit code 0, or 1 if a command of the script failed.

    Raise KeyboardInterrupt if Ctrl-C ended the network before or after its prompt, RunFailed if the prompt's
    process was killed or stopped, ValueError for options that do not fit.
    """
    fabric = parse_fabric(spec)
    switch, controller = software
    one_of("switch", switch, SWITCHES)
    one_of("controller", controller, CONTROLLERS)
    _check_routes(routes)
    if machines and (watch or switch == "ovs"):
        option = "--watch" if watch else "--switch ovs"
        raise ValueError(f"{option} works on one machine only: leave it or --machines out")
    if watch == TERMINAL:
        raise ValueError("--watch=terminal: the terminal has the prompt; use --watch for a page")
    need_root_and_tools("up", switch, controller=controller)
    source = str(Path(spec).resolve()) if is_file(spec) else fabric.spec
    options: dict[str, object] = {"fabric": source, "switch": switch, "routes": routes}
    options["controller"] = controller
    options |= {"scapy_start": SCAPY_START, "script": None if script is None else str(script)}
    commands = None if script is None else _text(script)
    options |= {"machines": read_to_build(machines) if machines else None}
    with live_view(watch, f"{fabric.spec} at the prompt") as view:
        fds = []
        if view:
            view.show_fabric(fabric)
            fds = [view.channel.fileno()]
        code = _typed(options, fds) if commands is None else _carried_out(options, commands, fds)
    raise typer.Exit(_exit_code(code))


def _exit_code(code: int) -> int:
    """Our exit code for the prompt's.

    Raise KeyboardInterrupt if it was interrupted, RunFailed for a code that the prompt itself never uses.
    """
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (0, SAID_WHY):
        first = "free some memory or choose a smaller fabric, then " if code == -signal.SIGKILL else ""
        raise RunFailed(
            f"the process of this network {how_main_process_ended(code)}, so the network was taken down: "
            f"{first}run the command again"
        )
    return FAULT if code else 0


def _check_routes(routes: str) -> None:
    """Raise ValueError for a policy that is none, or that needs a plan."""
    if routes == ADAPTIVE:
        raise ValueError(
            f"{ADAPTIVE} routes move the flows of a plan, and `up` has none; choose other --routes"
        )
    policy(routes)


def _typed(options: dict[str, object], fds: Sequence[int]) -> int:
    """The exit code of a prompt at which somebody types; Ctrl-C is the prompt's, not ours."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    words = [json.dumps(options), *map(str, fds)]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the prompt's imports are done
    try:
        process = isolated(
            "gradwire.emu.prompt", words, new_session=False, pass_fds=fds, underlay=bool(options["machines"])
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return process.wait()
    finally:
        stop(process)
        signal.signal(signal.SIGINT, before)


def _carried_out(options: dict[str, object], commands: str, fds: Sequence[int]) -> int:
    """The exit code of a script's prompt, which ends when we are interrupted.

    Raise RunFailed if somebody stopped it: nobody would be there to go on.
    """
    words = [json.dumps(options), *map(str, fds)]
    # A file, not a pipe, which takes 64 KiB at once and the rest only when the prompt reads.
    with os.fdopen(os.memfd_create("script"), "w+") as script:
        script.write(commands)
        script.seek(0)
        process = isolated(
            "gradwire.emu.prompt", words, stdin=script, pass_fds=fds, underlay=bool(options["machines"])
        )
    suspensions = SuspensionWatch(process.pid)
    try:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
            if pid := suspensions.stopped():
                raise RunFailed(
                    f"the process of this network was stopped by a signal (process {pid}), so the network "
                    "was taken down: run the command again"
                )
        return process.returncode
    finally:
        stop(process)


def _text(script: Path) -> str:
    """All of it, before anything is made.  Raise ValueError and OSError."""
    with script.open("rb") as file:
        octets = file.read(MAX_SCRIPT_NBYTES + 1)
    if len(octets) > MAX_SCRIPT_NBYTES:
        raise ValueError(f"{script}: longer than the {show_nbytes(MAX_SCRIPT_NBYTES)} that a script may have")
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{script}: not UTF-8 text: byte {error.start:,} is not part of a character"
        ) from None
