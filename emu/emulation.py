"""A network whose switches forward, from start to end: the ports, the switches' programs, the controller.

These programs take as long to begin (os-ken alone half a second) as the network takes to be built; so they
are started before it, and get a word when it is there.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mininet.net import Mininet

from gradwire.emu.deadlines import CONTROLLER_S
from gradwire.emu.interpreter import python
from gradwire.emu.machines.machine import Team
from gradwire.emu.network.net import prepare_namespace
from gradwire.emu.options import RYU, Software
from gradwire.emu.project import RYU_PYTHON
from gradwire.emu.switch.running import LOOPBACK, attached, open_vswitch, waiting_agent
from gradwire.emu.watch import ChildProcess, Watch, running
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.planning.machines.part import Part
from gradwire.planning.plan import Plan

_SEEDS = 1 << 32  # of losses
OPENFLOW_PORT = 6653  # of the run's own loopback


@dataclass(frozen=True)
class Emulation:
    """`agent` is None where the switches are Open vSwitch's; `watch` is over what forwards and programs."""

    net: Mininet
    controller: ChildProcess
    agent: ChildProcess | None
    watch: Watch

    @property
    def pid_of(self) -> dict[str, int]:
        """A process in each host's namespace."""
        return {host.name: host.pid for host in self.net.hosts}


@contextmanager
def in_force(
    network: AbstractContextManager[Mininet],
    what: Plan | Fabric,
    software: Software,
    folder: Path,
    more: Sequence[str] = (),
    say: Callable[[str], object] = lambda _: None,
    management: Path | None = None,
    team: Team | None = None,
) -> Iterator[Emulation]:
    """The fabric's `network`, which nobody has entered yet, once every switch has its rules.

    For namespaces that the run has for itself.  Of a plan, which is in `plan.json` in the folder, the rules
    are its own, and our switches have its slots and losses; of a fabric shortest paths to every host.
    `more` are further options of `python -m gradwire.controller`; `say` hears what is begun.  People reach
    our switches in the folder `management`, which must not be there before (Open vSwitch's always, in
    `running.MANAGEMENT`).  Of a fabric on several machines this is the part that has the controller, and
    the `team` carries it.  Raise RunFailed and OSError.
    """
    plan, fabric = (what, what.fabric) if isinstance(what, Plan) else (None, what)
    say("network")
    part = team.part if team else None
    prepare_namespace(part)
    if management and software.switch != "ovs":
        management.mkdir()
    obeyed = [str(folder / "plan.json")] if plan else ["--fabric", _written(fabric, folder)]
    listen = part.controller_ip if part else LOOPBACK
    arguments = [
        *obeyed,
        "--listen",
        listen,
        "--port",
        str(OPENFLOW_PORT),
        "--timeout",
        str(CONTROLLER_S),
        *more,
    ]
    command = python("gradwire.controller", *arguments)
    if software.controller == RYU:
        by_ryu = python("gradwire.controller", *arguments, by=RYU_PYTHON)
        command = ["env", "GRADWIRE_RYU_API=ryu", *by_ryu]
    with ExitStack() as stack:
        controller = stack.enter_context(running("the controller", command, folder / "controller.log"))
        agent = None
        if software.switch != "ovs":
            agent = stack.enter_context(our_switches(fabric, folder, plan, management, part))
        watch = team.watch if team else Watch()
        emulation = Emulation(stack.enter_context(network), controller, agent, watch)
        stack.callback(_end, [child for child in (agent, controller) if child])  # before the network can go
        say("switches")
        if agent:
            stack.enter_context(attached(agent, watch))
        else:
            stack.enter_context(open_vswitch(fabric, folder, OPENFLOW_PORT, watch))
        if team:
            team.await_forwarding()
        controller.await_line("ready", CONTROLLER_S, watch)
        stack.enter_context(watch.over("the controller", controller.process.pid, controller.log))
        yield emulation


def _end(children: Sequence[ChildProcess]) -> None:
    """All at once."""
    for child in children:
        child.process.terminate()
    for child in children:
        child.end()


def our_switches(
    fabric: Fabric, folder: Path, plan: Plan | None, management: Path | None, part: Part | None = None
) -> AbstractContextManager[ChildProcess]:
    """The agent of the fabric's switches, or of those of a `part`, with the plan's slots and losses."""
    if plan is None:
        return waiting_agent(fabric, folder, OPENFLOW_PORT, management=management, part=part)
    # Without slots, which nothing of such a plan asks for, our switches are ready 0.2 s sooner.
    slots, losses = plan.switch_slots if plan.trees or management else 0, plan.losses
    return waiting_agent(
        fabric,
        folder,
        OPENFLOW_PORT,
        slots=slots,
        losses=losses,
        loss_seed=plan.seed % _SEEDS,
        management=management,
        part=part,
    )


def _written(fabric: Fabric, folder: Path) -> str:
    """What rebuilds the fabric on a command line; one from a file is written into the folder first."""
    value = fabric_to_json(fabric)
    if isinstance(value, str):
        return value
    path = folder / "fabric.yaml"
    path.write_text(json.dumps(value))  # JSON is YAML
    return str(path)
