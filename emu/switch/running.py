"""The switches of a run, of either kind, from start to end."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emu.fabric import Fabric, interface
from emu.limits import CONTROLLER_S
from emu.project import SWITCH_OBJECT
from emu.switch import ovs
from emu.watch import Watch, running

PIN = "/sys/fs/bpf/gradwire_switch"
_START_S = 60.0


def ports_file(fabric: Fabric) -> dict[str, list[dict[str, object]]]:
    """What the switch agent is told: which interface is which port of which switch."""
    return {
        "switches": [
            {
                "name": switch,
                "dpid": fabric.dpid(switch),
                "ports": [
                    {"port": end.port, "interface": interface(switch, end.port), "rate_bps": rate}
                    for end, rate in fabric.rates.items()
                    if end.node == switch
                ],
            }
            for switch in fabric.switches
        ]
    }


@contextmanager
def running_switch(
    fabric: Fabric, kind: str, folder: Path, openflow_port: int, watch: Watch
) -> Iterator[None]:
    """Every switch forwards by the controller's rules while this is open; `watch` hears when one dies."""
    with ExitStack() as stack:
        if kind == "ovs":
            started = stack.enter_context(ovs.running_ovs(fabric, folder / "ovs", openflow_port))
            for name, pid in started.pids.items():
                stack.enter_context(watch.over(name, pid))
        else:
            ports = folder / "ports.json"
            ports.write_text(json.dumps(ports_file(fabric)))
            command = [sys.executable, "-m", "emu.switch.agent", str(ports)]
            command += ["--controller", f"127.0.0.1:{openflow_port}"]
            command += ["--object", str(SWITCH_OBJECT), "--pin", PIN, "--patience", str(CONTROLLER_S)]
            agent = stack.enter_context(running("the switch agent", command, folder / "switch.log"))
            agent.await_line("attached", _START_S, watch)
            stack.enter_context(watch.over("the switch agent", agent.process.pid, agent.log))
        yield
