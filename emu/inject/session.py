"""One injection, inside its namespaces: network, switch, controller, captures at every port, the sender.

`python -m gradwire.emu.inject.session FOLDER` reads the request (`REQUEST`) and `packets.npz` there, says
what it does as JSON Lines on stdout, leaves `sent.npz`, `counted.json` and the captures, and ends with exit
code 0, or 1 and one line on stderr.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from gradwire.emu import sampler
from gradwire.emu.emulation import in_force
from gradwire.emu.inject.counts import InjectionCounts
from gradwire.emu.inject.options import REQUEST
from gradwire.emu.inject.sender import own_processor
from gradwire.emu.interpreter import python
from gradwire.emu.kernel.namespaces import inside
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.lifecycle import errors_in_one_line, say
from gradwire.emu.network.net import emulated
from gradwire.emu.network.tcpdump import HEADERS, captures, dropped
from gradwire.emu.options import Software
from gradwire.emu.watch import RunFailed, Watch, running
from gradwire.planning.fabrics.fabric import HOST_PORT, Fabric, interface
from gradwire.planning.fabrics.spec import fabric_from_json
from gradwire.planning.transport import Transport, fabric_transport, longest_round_trip_s
from gradwire.traces.files import write_whole

MAX_SEGMENT_NBYTES = 1 << 16
SENDER_START_S = 60.0
_QUIET_S = 0.3  # no port has sent for so long: nothing is under way any more
_MOST_QUIET_S = 30.0
_BEYOND_S = 60.0  # how much longer than its last deadline the sender may take


def main(folder: Path) -> None:
    request = json.loads((folder / REQUEST).read_text())
    fabric, hosts = fabric_from_json(request["fabric"]), request["hosts"]
    mine, others = own_processor()
    os.sched_setaffinity(0, others)  # what is started from here on stays there
    network = emulated(fabric, transport(fabric), (), request["switch"] != "ovs")
    routes = ["--routes", request["routes"]]
    with in_force(network, fabric, Software(request["switch"]), folder, more=routes, say=say) as emulation:
        pids = emulation.pid_of
        for host in hosts:
            silence(host, pids[host])
        interfaces = [(pids[host], interface(host, HOST_PORT)) for host in hosts]
        sender_settings = {
            "processors": sorted(mine),
            "interfaces": interfaces,
            "loops": request["loops"],
            "period_ns": request["period_ns"],
        }
        write_whole(folder / "sender.json", json.dumps(sender_settings))
        queues = Queues(pids.values())
        quiet_s = _QUIET_S + longest_round_trip_s(fabric)
        with captures(hosts, pids, folder / "captures", HEADERS):
            counted = _sent(folder, queues, request["duration_s"], quiet_s, emulation.watch)
        say("down")
    capture_dropped = dropped(hosts, folder / "captures")
    write_whole(
        folder / "counted.json", json.dumps(asdict(replace(counted, capture_dropped=capture_dropped)))
    )


def transport(fabric: Fabric) -> Transport:
    """Ports that take a segment of any length whole, however slow they are: it is sent as it was recorded."""
    return replace(fabric_transport(fabric), gso_max_nbytes=MAX_SEGMENT_NBYTES)


def silence(host: str, pid: int) -> None:
    """Without an address a host answers nothing: no RST and no ICMP to connections that it does not know."""
    command = ["ip", "address", "flush", "dev", interface(host, HOST_PORT)]
    with inside(pid):
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if done.returncode:
        raise RunFailed(f"host {host}: {' '.join(command)}: {done.stderr.strip()}")


def _sent(folder: Path, queues: Queues, duration_s: float, quiet_s: float, watch: Watch) -> InjectionCounts:
    """Have the sender send, wait until nothing is under way, and return what was counted meanwhile."""
    command = python("gradwire.emu.inject.sender", str(folder))
    with running("the sender", command, folder / "sender.log") as sender:
        sender.await_line("ready", SENDER_START_S, watch)
        drops, before = queues.dropped(), sampler.machine()
        say("sending", duration_s=duration_s)
        sender.tell("go")
        sender.await_line("sent", duration_s + _BEYOND_S, watch)
        after = sampler.machine()
    _await_quiet(quiet_s)
    last = sampler.machine()
    lost = {name: count - drops.get(name, 0) for name, count in queues.dropped().items()}
    return InjectionCounts(
        cpu_idle=sampler.cpu_idle(before, after),
        softnet_dropped=last.softnet_dropped - before.softnet_dropped,
        queue_dropped={name: count for name, count in lost.items() if count},
    )


def _await_quiet(quiet_s: float) -> None:
    """Until no port of a switch has sent anything for a while.

    The hosts' ports are before those of switches, and empty themselves no later.
    """
    deadline = time.monotonic() + _MOST_QUIET_S
    before: list[int] = []
    while time.monotonic() < deadline:
        text = Path("/proc/thread-self/net/dev").read_text()
        now = [port.tx_packets for port in sampler.parse_net_dev(text)]
        if now == before:
            return
        before = now
        time.sleep(quiet_s)


if __name__ == "__main__":
    with errors_in_one_line():
        main(Path(sys.argv[1]))
