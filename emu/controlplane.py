"""The controller and the switches that it programs, from start to stop.

Their processes take as long to begin (os-ken alone half a second) as the network takes to be built; so they
are started before it, and told when it is there.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwire.emu.interpreter import python
from gradwire.emu.limits import CONTROLLER_S
from gradwire.emu.switch.running import attached, open_vswitch, waiting_agent
from gradwire.emu.watch import ChildProcess, Watch, running
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.planning.plan import Plan

_SEEDS = 1 << 32  # of losses
OPENFLOW_PORT = 6653  # of the run's own loopback


@dataclass(frozen=True)
class ControlPlane:
    """`agent` is None where the switches are Open vSwitch's."""

    fabric: Fabric
    folder: Path
    controller: ChildProcess
    agent: ChildProcess | None

    @contextmanager
    def in_force(self, watch: Watch) -> Iterator[ChildProcess]:
        """The controller, every switch having its rules; both end with this, before the network can go.

        To be entered when the network is there.  Raise RunFailed.
        """
        with ExitStack() as stack:
            stack.callback(self._end)
            if self.agent:
                stack.enter_context(attached(self.agent, watch))
            else:
                stack.enter_context(open_vswitch(self.fabric, self.folder, OPENFLOW_PORT, watch))
            self.controller.await_line("ready", CONTROLLER_S, watch)
            with watch.over("the controller", self.controller.process.pid, self.controller.log):
                yield self.controller

    def _end(self) -> None:
        children = [child for child in (self.agent, self.controller) if child]
        for child in children:
            child.process.terminate()
        for child in children:
            child.end()


@contextmanager
def control_plane(
    fabric: Fabric, switch: str, folder: Path, plan: Plan | None = None, more: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """Started and waiting for `in_force`; the kind of `switch` as in `emu.options.SWITCHES`.

    With `plan`, which is in `plan.json` in the folder, the rules are its own, and our switches have its slots
    and losses; else shortest paths to every host.  `more` are further options of `python -m
    gradwire.controller`.
    """
    what = [str(folder / "plan.json")] if plan else ["--fabric", _written(fabric, folder)]
    command = python("gradwire.controller", *what, "--port", str(OPENFLOW_PORT))
    command += ["--timeout", str(CONTROLLER_S), *more]
    with ExitStack() as stack:
        controller = stack.enter_context(running("the controller", command, folder / "controller.log"))
        agent = None if switch == "ovs" else stack.enter_context(_our_switches(fabric, folder, plan))
        yield ControlPlane(fabric, folder, controller, agent)


def _our_switches(fabric: Fabric, folder: Path, plan: Plan | None) -> AbstractContextManager[ChildProcess]:
    if plan is None:
        return waiting_agent(fabric, folder, OPENFLOW_PORT)
    slots, losses = plan.switch_slots, plan.losses
    return waiting_agent(
        fabric, folder, OPENFLOW_PORT, slots=slots, losses=losses, loss_seed=plan.seed % _SEEDS
    )


def _written(fabric: Fabric, folder: Path) -> str:
    """What rebuilds the fabric on a command line; one from a file is written into the folder first."""
    value = fabric_to_json(fabric)
    if isinstance(value, str):
        return value
    path = folder / "fabric.yaml"
    path.write_text(json.dumps(value))  # JSON is YAML
    return str(path)
