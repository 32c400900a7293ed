"""How much of its links a fabric carries when all hosts send at once, without contention.

    sudo .venv/bin/python -m benchmarks.permutation [--fabric fat-tree:k=4,rate=100M] [--seconds 5]

Every host runs iperf3 towards a host about half the fabric away, over D-mod-k routes that never meet.
Prints the sum of the goodputs over the ideal (nominal rates × 1448/1514), what was lost, the CPU that was
left, and how long the fabric took to come up and go down.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from controller.resolve import resolve
from controller.routing.dmodk import dmodk
from emu import plan as plans
from emu import sampler
from emu.fabric import interface
from emu.isolate import isolated, stop
from emu.net import emulated, enter, prepare_namespace
from emu.plan import Plan
from emu.session import control_plane
from emu.spec import parse_fabric
from emu.transport import PAYLOAD_EFFICIENCY, fabric_transport
from emu.watch import Watch
from traces.schedule import Op, Schedule, Send
from traces.units import show_bps

SERVER_PORT, FIRST_CLIENT_PORT = 5201, 40_000
WARM_UP_S = 1
LIMIT_S = 120


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fabric", default="fat-tree:k=4,rate=100M")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside, arguments.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="gradwire-permutation-") as name:
        plans.save(permutation(arguments.fabric), Path(name) / "plan.json")
        process = isolated("benchmarks.permutation", ["--inside", name, "--seconds", str(arguments.seconds)])
        try:
            process.wait(LIMIT_S)
        finally:
            stop(process)
    sys.exit(process.returncode)


def permutation(spec: str) -> Plan:
    """Rank i sends to rank i + n/2 + 1, from iperf3's own ports: no pair sends both ways."""
    fabric = parse_fabric(spec)
    n = len(fabric.hosts)
    sends = tuple(Send(i, i, (i + n // 2 + 1) % n, 0, 1, reduce=False) for i in range(n))
    schedule = Schedule(n, tuple(Op("message", 1, root=i) for i in range(n)), sends)
    transport = fabric_transport(fabric)
    plan = resolve(
        fabric,
        schedule,
        algorithm="permutation",
        placement="linear",
        routes="dmodk",
        seed=0,
        transport=transport,
    )
    one_way = {(flow.src, flow.dst): flow for flow in plan.flows}
    flows = []
    for send in sends:
        out, back = one_way[send.src, send.dst], one_way[send.dst, send.src]
        client = FIRST_CLIENT_PORT + send.src
        flows.append(replace(out, sport=client, dport=SERVER_PORT))
        flows.append(replace(back, sport=SERVER_PORT, dport=client))
    paths = dmodk(fabric, plan.placement, flows, schedule, 0)
    flows = [replace(flow, path=path) for flow, path in zip(flows, paths, strict=True)]
    return replace(plan, flows=tuple(flows))


def inside(folder: Path, seconds: int) -> None:
    plan = plans.load(folder / "plan.json")
    fabric = plan.fabric
    begun = time.monotonic()
    prepare_namespace()
    flows_at = Counter(interface(end.node, end.port) for flow in plan.flows for end in flow.path)
    with ExitStack() as stack:
        net = stack.enter_context(emulated(fabric, plan.transport, flows_at))
        links_s = time.monotonic() - begun
        stack.enter_context(control_plane(fabric, "gradwire", folder, Watch(), plan=True))
        up_s = time.monotonic() - begun
        pids = {host.name: host.pid for host in net.hosts}
        print(f"{fabric.spec}: links up after {links_s:.2f} s, all rules in after {up_s:.2f} s")
        measure(plan, pids, seconds)
        begun = time.monotonic()
    print(f"down in {time.monotonic() - begun:.2f} s")


def measure(plan: Plan, pids: dict[str, int], seconds: int) -> None:
    fabric = plan.fabric
    servers = [
        subprocess.Popen(
            [*enter(pid), "iperf3", "-s", "-1", "-p", str(SERVER_PORT)], stdout=subprocess.DEVNULL
        )
        for pid in pids.values()
    ]
    time.sleep(1)
    drops, before = queue_drops(pids), sampler.machine()
    clients = []
    for send in plan.schedule.sends:
        source, target = plan.placement[send.src], fabric.ip(plan.placement[send.dst])
        command = [*enter(pids[source]), "iperf3", "-J", "-c", target, "-p", str(SERVER_PORT)]
        command += ["--cport", str(FIRST_CLIENT_PORT + send.src), "-t", str(seconds), "-O", str(WARM_UP_S)]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    results = [json.loads(client.communicate(timeout=LIMIT_S)[0]) for client in clients]
    after = sampler.machine()
    for server in servers:
        server.wait(LIMIT_S)
    goodput_bps = sum(result["end"]["sum_received"]["bits_per_second"] for result in results)
    ideal_bps = sum(rate for end, rate in fabric.rates.items() if end.node in pids) * PAYLOAD_EFFICIENCY
    retransmits = sum(result["end"]["sum_sent"]["retransmits"] for result in results)
    share = goodput_bps / ideal_bps
    print(f"{len(results)} flows: {show_bps(goodput_bps)} of {show_bps(ideal_bps)} = {share:.3f}")
    print(
        f"dropped {queue_drops(pids) - drops}, retransmitted {retransmits}, "
        f"CPU idle {sampler.cpu_idle(before, after):.2f}"
    )


def queue_drops(pids: dict[str, int]) -> int:
    inside_hosts = sum(sum(sampler.queue_drops(enter(pid)).values()) for pid in pids.values())
    return inside_hosts + sum(sampler.queue_drops().values())


if __name__ == "__main__":
    main()
