"""Runs the switches of a run, of either kind, from start to stop."""

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from gradwire.emu.deadlines import CONTROLLER_S
from gradwire.emu.interpreter import python
from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch import ovs
from gradwire.emu.watch import ChildProcess, Watch, running
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.losses import Loss, at_switches
from gradwire.planning.machines.part import Part
from gradwire.planning.trees.tree import SWITCH_SLOTS

MANAGEMENT = PRIVATE / "ovs"  # where Open vSwitch has its sockets, and our switches theirs if they have any
PIN = "/sys/fs/bpf/gradwire_switch"
LOOPBACK = "127.0.0.1"
_START_S = 60.0


def ports_file(
    fabric: Fabric, losses: Iterable[Loss] = (), loss_seed: int = 0, part: Part | None = None
) -> dict[str, list[dict[str, object]]]:
    """The switch agent's input: which interface is which port of which switch, and what it loses; of a fabric
    on several machines, the switches of this `part`.
    """
    lossy = at_switches(fabric, losses)
    return {
        "switches": [
            {
                "name": switch,
                "dpid": fabric.dpid(switch),
                "ports": [
                    _port(end, rate, lossy.get(end, (0.0, 0.0)))
                    for end, rate in fabric.rates.items()
                    if end.node == switch
                ],
            }
            | ({"loss_seed": loss_seed} if lossy else {})
            for switch in (part.switches(fabric) if part else fabric.switches)
        ]
    }


def _port(end: Egress, rate_bps: int, lost: tuple[float, float]) -> dict[str, object]:
    port = {"port": end.port, "interface": interface(end.node, end.port), "rate_bps": rate_bps}
    return port | ({"rx_loss": lost[0], "tx_loss": lost[1]} if any(lost) else {})


def waiting_agent(
    fabric: Fabric,
    folder: Path,
    openflow_port: int,
    *,
    slots: int = SWITCH_SLOTS,
    losses: Iterable[Loss] = (),
    loss_seed: int = 0,
    management: Path | None = None,
    part: Part | None = None,
) -> AbstractContextManager[ChildProcess]:
    """The agent of our switches, started but idle: the ports need not be there before `attach`.

    Of a fabric on several machines it is that of this `part`.  Each switch has `slots` for its aggregation
    jobs.  People reach them in the folder `management` (`emu.switch.ofctl`).
    """
    ports = folder / "ports.json"
    ports.write_text(json.dumps(ports_file(fabric, losses, loss_seed, part)))
    command = python("gradwire.emu.switch.agent", str(ports), "--wait")
    controller = part.controller_ip if part else LOOPBACK
    command += ["--controller", f"{controller}:{openflow_port}", "--slots", str(slots)]
    command += ["--object", str(SWITCH_OBJECT), "--pin", PIN, "--patience", str(CONTROLLER_S)]
    command += ["--management", str(management)] if management else []
    return running("the switch agent", command, folder / "switch.log")


@contextmanager
def attached(agent: ChildProcess, watch: Watch) -> Iterator[None]:
    """Our switches forward by the controller's rules; `watch` hears when the agent dies."""
    agent.tell("attach")
    agent.await_line("attached", _START_S, watch)
    with watch.over("the switch agent", agent.process.pid, agent.log):
        yield


@contextmanager
def open_vswitch(fabric: Fabric, folder: Path, openflow_port: int, watch: Watch) -> Iterator[None]:
    """The same of Open vSwitch's processes; their logs are in the folder, whose name may be of any length."""
    with ExitStack() as stack:
        started = stack.enter_context(ovs.running_ovs(fabric, MANAGEMENT, openflow_port, folder / "ovs"))
        for name, pid in started.pids.items():
            stack.enter_context(watch.over(name, pid))
        yield
