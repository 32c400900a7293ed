"""How many rules per second go from the controller into the switches' tables, ours beside Open vSwitch.

    sudo .venv/bin/python -m benchmarks.rules [--fabric SPEC] [--alltoall] [--switch gradwire|ovs|both]

Controller and switches are started on cables that lead nowhere, in namespaces of their own, once with
each kind of switch.  A halving-doubling or an alltoall of all hosts has a rule for each of its flows at
every switch of the flow's path, beside the rules of the destinations.

Prints one JSON object.  `seconds` is what the wire says: from the controller's first FLOW_MOD or
GROUP_MOD to the last switch's BARRIER_REPLY, so without the start of the processes and with all that
the controller computes in between; `rules_per_s` is of that.  `attached_s` (ours only) and `ready_s`
(every rule barriered, read back and compared) count from the start of both; `rss_mb` is the memory of
the switches' process, or processes, at the end.
"""

import argparse
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from os_ken.ofproto import ofproto_v1_3 as ofp

from benchmarks.updown import halving_doubling
from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT, SWITCH_OBJECT
from gradwire.emu.switch.ovs import running_ovs
from gradwire.emu.switch.running import PIN, ports_file
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.rules import plan_rules
from gradwire.planning.plan import Plan, save
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send

OPENFLOW_PORT = 6653
CONTROLLER_S = 120  # until it gives up on switches that are slow
LIMIT_S = CONTROLLER_S + 30  # of all with one kind of switch
NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child=KILL")
KINDS = ("gradwire", "ovs")
_ETH_P_IP, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 0x0800, 35, 33
_TIMESPEC = struct.Struct("=qq")
_HEADERS_NBYTES = 160  # Ethernet, IP and TCP with options, then the OpenFlow header
_CHANGES = (ofp.OFPT_FLOW_MOD, ofp.OFPT_GROUP_MOD)


def alltoall(fabric: Fabric) -> Plan:
    """ECMP plan of one message for each two hosts, whose answers make it a flow for each ordered pair."""
    n_ranks = len(fabric.hosts)
    pairs = [(src, dst) for src in range(n_ranks) for dst in range(src)]
    schedule = Schedule.of(
        n_ranks,
        tuple(Op("message", 1, tag=i, root=src) for i, (src, _) in enumerate(pairs)),
        tuple(Send(i, src, dst, 0, 1, reduce=False) for i, (src, dst) in enumerate(pairs)),
    )
    return resolve(
        fabric,
        schedule,
        algorithm="made",
        placement="linear",
        routes="ecmp",
        seed=0,
        transport=fabric_transport(fabric),
    )


@dataclass
class WireClock:
    """When the first change and the last barrier reply passed the loopback, by the kernel's stamps."""

    first_ns: int | None = None
    last_ns: int | None = None

    def see(self, frame: bytes, stamp_ns: int) -> None:
        """Take notice of a frame whose TCP payload begins with a change or a barrier reply."""
        ip_end = 14 + (frame[14] & 15) * 4
        source, to = struct.unpack_from("!HH", frame, ip_end)
        openflow = frame[ip_end + (frame[ip_end + 12] >> 4) * 4 :][:8]
        if frame[23] != socket.IPPROTO_TCP or len(openflow) < 8 or openflow[0] != ofp.OFP_VERSION:
            return
        if source == OPENFLOW_PORT and openflow[1] in _CHANGES and self.first_ns is None:
            self.first_ns = stamp_ns
        if to == OPENFLOW_PORT and openflow[1] == ofp.OFPT_BARRIER_REPLY:
            self.last_ns = stamp_ns


@contextmanager
def wire_clock() -> Iterator[WireClock]:
    """Listen on the loopback while this is open; only the heads of packets are copied."""
    clock = WireClock()
    ended = threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 256 << 20)
        wire.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        wire.bind(("lo", _ETH_P_IP))

        def listen() -> None:
            while not ended.is_set():
                if not select.select([wire], [], [], 0.1)[0]:
                    continue
                frame, stamps, _, _ = wire.recvmsg(_HEADERS_NBYTES, socket.CMSG_SPACE(_TIMESPEC.size))
                seconds, nanoseconds = _TIMESPEC.unpack(stamps[0][2])
                clock.see(frame, seconds * 10**9 + nanoseconds)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield clock
        finally:
            ended.set()
            thread.join()


def measure(kind: str, fabric: Fabric, plan: Plan) -> dict[str, object]:
    """Program one kind of switch, in these namespaces."""
    folder = Path(tempfile.mkdtemp(dir="/run"))
    save(plan, folder / "plan.json")
    cable_up(fabric)
    (folder / "ports.json").write_text(json.dumps(ports_file(fabric)))
    start_s = time.monotonic()
    figures: dict[str, object] = {}
    with ExitStack() as stack:
        clock = stack.enter_context(wire_clock())
        options = [str(folder / "plan.json"), "--port", str(OPENFLOW_PORT), "--timeout", str(CONTROLLER_S)]
        controller = stack.enter_context(started("controller", *options))
        if kind == "ovs":
            pids = list(stack.enter_context(running_ovs(fabric, folder / "ovs", OPENFLOW_PORT)).pids.values())
        else:
            command = [str(folder / "ports.json"), "--object", str(SWITCH_OBJECT), "--pin", PIN]
            agent = stack.enter_context(started("gradwire.emu.switch.agent", *command))
            await_line(agent, "attached")
            figures["attached_s"] = round(time.monotonic() - start_s, 3)
            pids = [agent.pid]
        await_line(controller, "ready")
        ready_s = time.monotonic() - start_s
        figures["rss_mb"] = round(sum(map(resident_nbytes, pids)) / 1e6, 1)
    if clock.first_ns is None or clock.last_ns is None:
        raise RuntimeError("no rules were seen on the loopback")
    seconds = (clock.last_ns - clock.first_ns) / 1e9
    n_rules = sum(map(len, plan_rules(plan).values()))
    return {
        "seconds": round(seconds, 3),
        "rules_per_s": round(n_rules / seconds),
        "ready_s": round(ready_s, 3),
        **figures,
    }


def cable_up(fabric: Fabric) -> None:
    names = [interface(switch, port) for switch in fabric.switches for port in fabric.ports[switch]]
    batch = "".join(
        f"link add {name} type veth peer name end{i}\nlink set {name} up\nlink set end{i} up\n"
        for i, name in enumerate(names)
    )
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)


def resident_nbytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started(module: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A Python module as a child process, killed at the end by its own handle."""
    command = python(module, *arguments)
    process = subprocess.Popen(command, cwd=PROJECT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def await_line(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout
    line = process.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"wanted {word!r}, got {line!r}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--switch", choices=(*KINDS, "both"), default="both")
    parser.add_argument("--fabric", default="fat-tree:k=8")
    parser.add_argument("--alltoall", action="store_true", help="in place of a halving-doubling")
    parser.add_argument("--inside", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    fabric = parse_fabric(arguments.fabric)
    plan = alltoall(fabric) if arguments.alltoall else halving_doubling(arguments.fabric)
    if arguments.inside:
        for command in (
            ["ip", "link", "set", "lo", "up"],
            ["mount", "-t", "tmpfs", "tmpfs", "/run"],
            ["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"],
        ):
            subprocess.run(command, check=True)
        print(json.dumps(measure(arguments.inside, fabric, plan)))
        return
    figures: dict[str, object] = {
        "fabric": arguments.fabric,
        "switches": len(fabric.switches),
        "flows": len(plan.flows),
        "rules": sum(map(len, plan_rules(plan).values())),
    }
    for kind in KINDS if arguments.switch == "both" else (arguments.switch,):
        again = python("benchmarks.rules", *sys.argv[1:], "--inside", kind)
        command = ["unshare", *NAMESPACES, "--", *again]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
        if done.returncode:
            sys.exit(f"{kind}: exit code {done.returncode}, see above")
        figures[kind] = json.loads(done.stdout)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
