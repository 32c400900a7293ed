"""One machine's part of a run, inside its namespaces: it builds, starts and measures what it is asked for.

`python -m gradwire.emu.machines.session` reads messages on stdin and answers on stdout (`wire`).  The
message `end` ends it with exit code 0.  When whoever started it closes stdin, it ends at once.
"""

import json
import os
import select
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import gradwire
from gradwire.emu import deadlines
from gradwire.emu.emulation import our_switches
from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.lifecycle import FOR_PEOPLE
from gradwire.emu.machines import wire
from gradwire.emu.meter import Meter
from gradwire.emu.network import underlay
from gradwire.emu.network.net import emulated, prepare_namespace
from gradwire.emu.network.shaping import windows_at
from gradwire.emu.otherprograms import host_proc
from gradwire.emu.project import source_digest
from gradwire.emu.replay import processes
from gradwire.emu.replay.fleet import FAILED, Fleet
from gradwire.emu.stalls import Stalls, timed
from gradwire.emu.switch import ofctl
from gradwire.emu.switch.running import MANAGEMENT, attached
from gradwire.emu.watch import Watch
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import fabric_from_json
from gradwire.planning.machines.machinesfile import Machines
from gradwire.planning.machines.part import Part, part_of
from gradwire.planning.machines.partition import partition
from gradwire.planning.plan import Plan
from gradwire.planning.transport import fabric_transport

_LISTEN_S = 30.0


@dataclass
class _Run:
    """What the messages of a run are about, once its agents have been started."""

    plan: Plan
    agents: Fleet
    queues: Queues
    stalls: Stalls
    part: Part
    meter: Meter | None = None
    start_ns: int = 0


def main() -> int:
    """The exit code; 1 after `failed`."""
    threading.Thread(target=_end_with_leader, daemon=True).start()
    _say("hello", wire.dumped(wire.HELLO, wire.Hello(gradwire.__version__, source_digest())))
    try:
        with ExitStack() as stack:
            _serve(wire.Lines(sys.stdin.fileno()), stack)
    except EOFError:
        return 1
    except FOR_PEOPLE as error:
        _fail(str(error))
        return 1
    return 0


def _serve(lines: wire.Lines, stack: ExitStack) -> None:
    """Build the part, then obey.  Raise EOFError if nobody asks any more."""
    kind, value = wire.parsed(lines.next())
    if kind != "begin" or not isinstance(value, dict):
        raise wire.BadMessage(f"the first message is {kind!r}, not begin")
    part, fabric, plan = _begun(value)
    watch = Watch()
    transport = plan.transport if plan else fabric_transport(fabric)
    windows = windows_at(fabric, plan.trees, may_move=False) if plan else None
    agent = stack.enter_context(our_switches(fabric, PRIVATE, plan, None if plan else MANAGEMENT, part))
    net = stack.enter_context(
        emulated(
            fabric,
            transport,
            plan.flows if plan else None,
            windows_at=windows,
            part=part,
            loses=bool(plan and plan.losses),
        )
    )
    stack.callback(agent.end)  # before the network can go
    stack.enter_context(attached(agent, watch))
    pids = {host.name: host.pid for host in net.hosts}
    _say("forwarding", wire.dumped(wire.BUILT, wire.Built(_outer_pid(), pids)))
    run: _Run | None = None
    while (message := wire.parsed(lines.next()))[0] != "end":
        if message[0] == "clock":
            _say("clock", time.monotonic_ns())
        elif message[0] == "power":
            verb, switch = map(str, message[1])
            ofctl.order(MANAGEMENT, verb, switch)
            _say("power")
        elif message[0] == "agents" and plan and run is None:
            queues, stalls = Queues(pids.values()), stack.enter_context(timed())
            agents = stack.enter_context(processes.started(plan, pids, watch))
            run = _Run(plan, agents, queues, stalls, part)
            agents.gather("listening", _LISTEN_S)
            _say("listening")
        elif run:
            _step(run, *message)
        else:
            raise wire.BadMessage(f"{message[0]!r} came too early")
    if run:
        run.agents.end()


def _begun(value: dict[str, Any]) -> tuple[Part, Fabric, Plan | None]:
    """What the message `begin` asks for, in the namespace prepared for it."""
    machines = Machines.model_validate(value["machines"])
    name, first_vni = str(value["machine"]), int(value["first_vni"])
    fabric = fabric_from_json(value["fabric"])
    part = part_of(machines, partition(fabric, machines.machines), name, first_vni)
    underlay.check(part, fabric)
    prepare_namespace(part)
    if value["plan"] is None:
        MANAGEMENT.mkdir()
        return part, fabric, None
    path = PRIVATE / "plan.json"
    path.write_text(json.dumps(value["plan"]))
    plan = plans.load(path)
    return part, plan.fabric, plan


def _step(run: _Run, kind: str, value: Any) -> None:
    """Carry out a message of a run, and answer."""
    limit_s = deadlines.repeat_s(run.plan)
    match kind:
        case "connect":
            run.agents.tell("connect")
            run.agents.gather("connected", _LISTEN_S)
            _say("connected")
        case "run":
            run.agents.tell(("run", wire.checked(wire.NUMBER, value)))
            run.agents.gather("prepared", limit_s)
            run.meter = Meter(run.agents.pids, run.queues, run.stalls, part=run.part)
            _say("prepared")
        case "start" if run.meter:
            run.start_ns = wire.checked(wire.NUMBER, value)
            run.agents.tell(("start", run.start_ns))
            run.meter.begin(run.start_ns)
            done = run.agents.gather("done", limit_s)
            _say("done", wire.dumped(wire.ACCESSES, done))
        case "check" if run.meter:
            run.meter.end()
            (accesses,) = wire.checked(wire.ACCESSES, [value])
            run.agents.tell(("check", accesses))
            outcomes = run.agents.gather("outcome", limit_s)
            done_ns = max((outcome.times.done_ns for outcome in outcomes), default=run.start_ns + 1)
            counts = run.meter.counts(run.start_ns, done_ns)
            _say("outcome", wire.dumped(wire.MEASURED, wire.Measured(outcomes, counts)))
        case _:
            raise wire.BadMessage(f"{kind!r} came too early, or is unknown")


def _say(kind: str, value: Any = None) -> None:
    wire.put(sys.stdout.fileno(), kind, value)


def _fail(text: str) -> None:
    """And wait until nobody asks any more: our end must not be what is seen first."""
    _say(FAILED, wire.dumped(wire.FAILURE, wire.Failure(text)))
    while True:
        time.sleep(_LISTEN_S)


def _outer_pid() -> int:
    """Our process id outside our namespaces."""
    proc = host_proc()
    return os.getpid() if proc is None else int(os.readlink("self", dir_fd=proc))


def _end_with_leader() -> None:
    """When nobody can ask us any more, end; and with us all that is in our namespaces."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # that the other end is closed is always reported
    poll.poll()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
