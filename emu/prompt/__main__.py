"""A fabric with its controller and Mininet's prompt, in namespaces of its own.

`python -m gradwire.emu.prompt OPTIONS [FD]`, as JSON: `fabric`, `switch`, `routes`, `scapy_start` (the Python
that a host's `scapy` begins with), `machines` (those that carry the fabric together, None for this one
alone), and `script`: what the file is called whose commands are on stdin, None if
somebody types.  FD is the descriptor of a channel to whoever watches.
"""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from mininet.log import setLogLevel

from gradwire.emu.channel import Channel
from gradwire.emu.emulation import OPENFLOW_PORT, Emulation, in_force
from gradwire.emu.interpreter import PROGRAMS
from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.lifecycle import errors_in_one_line
from gradwire.emu.looks import Looks, watched
from gradwire.emu.machines.machine import assembled
from gradwire.emu.network.net import emulated
from gradwire.emu.options import Software
from gradwire.emu.project import PROJECT
from gradwire.emu.prompt import INTERRUPTED, SAID_WHY
from gradwire.emu.prompt.farnodes import add_far_nodes
from gradwire.emu.prompt.hosts import Prompt
from gradwire.emu.switch import ofctl, ovs
from gradwire.emu.switch.running import MANAGEMENT
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.machines.machinesfile import Machines
from gradwire.planning.transport import fabric_transport
from gradwire.traces.units import show_count, show_first

_RULES_S = 10.0  # in which flows are led over a switch that was started, or around one that was stopped
_SHOWN_FAILURES = 3


def main(options: dict[str, Any], channel: Channel | None = None) -> int:
    """The exit code: SAID_WHY if a command of the script failed."""
    fabric = parse_fabric(options["fabric"])
    script = sys.stdin.read().splitlines() if options["script"] else None
    software = Software(options["switch"], options["controller"])
    log = PRIVATE / "control.jsonl"
    more = ["--routes", options["routes"], *(["--log", str(log)] if channel else [])]
    with ExitStack() as stack:
        team = None
        if options["machines"]:
            logs = Path(stack.enter_context(TemporaryDirectory(prefix="gradwire-")))
            machines = Machines.model_validate(options["machines"])
            team = stack.enter_context(assembled(machines, fabric, logs))
        transport, part = fabric_transport(fabric), team.part if team else None
        network = emulated(fabric, transport, None, options["switch"] != "ovs", part=part)
        emulation = stack.enter_context(
            in_force(network, fabric, software, PRIVATE, more=more, management=MANAGEMENT, team=team)
        )
        if channel:
            stack.enter_context(watched(channel, Looks(fabric, emulation.pid_of, log)))
        hosts = show_count(len(fabric.hosts), "host")
        switches = show_count(len(fabric.switches), "switch", "switches")
        print(f"{fabric.spec} is up: {hosts}, {switches}", flush=True)
        setLogLevel("output")
        _set_environment(options["scapy_start"])
        waiting = partial(_waiting, emulation, "away" if team else "gone")
        power = waiting(_power(fabric, emulation))
        for switch in emulation.net.switches:
            switch.management, switch.power = MANAGEMENT, power
        if team:
            add_far_nodes(emulation.net, fabric, team, lambda machine: waiting(machine.power))
        prompt = Prompt(emulation.net, script, emulation.watch)
    if script is None or not prompt.failed:
        return 0
    failed = [f"line {number}, {line}: {reason}" for number, line, reason in prompt.failed]
    n_lines = show_count(len(failed), "command")
    print(
        f"gradwire: {options['script']}: {n_lines} failed: {show_first(failed, _SHOWN_FAILURES, '; ')}",
        file=sys.stderr,
    )
    return SAID_WHY


def _set_environment(scapy_start: str) -> None:
    """What is typed finds our Python, a `scapy` that knows the lab, and switches by `ovs-ofctl NAME`."""
    programs = PRIVATE / "bin"
    programs.mkdir()
    scapy, start = programs / "scapy", programs / "scapy_start.py"
    start.write_text(f"{scapy_start}\n")
    scapy.write_text(f'#!/bin/sh\nexec {shlex.quote(str(PROGRAMS / "scapy"))} -c {start} "$@"\n')
    scapy.chmod(0o755)
    path = os.pathsep.join([str(programs), str(PROGRAMS), os.environ.get("PATH", os.defpath)])
    os.environ |= {"PATH": path, "OVS_RUNDIR": str(MANAGEMENT)}
    if (PROJECT / "gradwire.py").is_file():  # else it is installed
        os.environ["PYTHONPATH"] = str(PROJECT)


def _power(fabric: Fabric, emulation: Emulation) -> Callable[[str, str], None]:
    """What stops a switch of this machine, or starts it."""
    if emulation.agent:
        return partial(ofctl.order, MANAGEMENT)
    return ovs.Bridges(fabric, MANAGEMENT, OPENFLOW_PORT).power


def _waiting(
    emulation: Emulation, stopped: Literal["gone", "away"], change: Callable[[str, str], None]
) -> Callable[[str, str], None]:
    """`change`, and the wait until flows are led over a switch that it starts, or until one that it stops is
    `gone` (flows are led around it) or only `away`: nobody notices that the far end of a tunnel has no power.

    A controller that has not noticed that a switch was away would take it for ready.
    """

    def power(verb: str, switch: str) -> None:
        change(verb, switch)
        word, answer = ("await", "ready") if verb == "start" else (f"await-{stopped}", stopped)
        emulation.controller.tell(f"{word} {switch}")
        emulation.controller.await_line(f"{answer} {switch}", _RULES_S, emulation.watch)

    return power


if __name__ == "__main__":
    with errors_in_one_line("gradwire: ", SAID_WHY):
        try:
            # Whoever started this blocked it, so that a Ctrl-C did not end the imports with a traceback.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            sys.exit(main(json.loads(sys.argv[1]), *map(Channel.inherited, map(int, sys.argv[2:]))))
        except KeyboardInterrupt:  # at the prompt itself it ends a command only
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.exit(INTERRUPTED)
