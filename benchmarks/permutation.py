"""How much a fabric carries when all hosts send at once, without contention, ours beside Mininet as it comes.

    sudo .venv/bin/python -m benchmarks.permutation [--fabric fat-tree:k=4] [--rates 1000M,750M,500M]
        [--stock-rates 20M,10M,5M] [--seconds 5] [--json]

Every host runs iperf3 (cubic) towards a host about half the fabric away, over D-mod-k routes that never meet.
Rates are tried from the highest down, until the sum of the goodputs is 0.95 of the ideal (nominal rates ×
1448/1514) and nothing is dropped; if none is carried so, the best sum counts.  Stock Mininet has TCLink and
Open vSwitch and the same paths.  Prints each try and the ratio of the two sums; an empty list of rates leaves
a side out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.stock import program, start_ovs, stock_mininet
from gradwire.emu import sampler
from gradwire.emu.emulation import in_force
from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.network.net import emulated
from gradwire.emu.options import Software
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.routing.oblivious import dmodk
from gradwire.planning.transport import fabric_transport, payload_efficiency
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.units import parse_bps, show_bps

SERVER_PORT, FIRST_CLIENT_PORT = 5201, 40_000
ENOUGH = 0.95
WARM_UP_S = 1
LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Carried:
    """One try: the sum of the goodputs, its share of the ideal, what was lost and the CPU that was left."""

    rate_bps: int
    goodput_bps: float
    share: float
    dropped: int
    retransmits: int
    cpu_idle: float

    @property
    def is_faithful(self) -> bool:
        return self.share >= ENOUGH and not self.dropped


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fabric", default="fat-tree:k=4")
    parser.add_argument("--rates", default="1000M,750M,500M,250M,100M")
    parser.add_argument("--stock-rates", default="20M,10M,5M,2M,1M")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stock", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        carry = stock if arguments.stock else ours
        print(json.dumps(asdict(carry(arguments.inside, arguments.seconds))))
        return
    sides = {"ours": arguments.rates, "stock": arguments.stock_rates}
    tried = {
        side: search(
            side, arguments.fabric, [parse_bps(rate) for rate in rates.split(",") if rate], arguments
        )
        for side, rates in sides.items()
    }
    best = {side: best_of(tries) for side, tries in tried.items() if tries}
    ratio = best["ours"].goodput_bps / best["stock"].goodput_bps if len(best) == len(sides) else None
    if arguments.json:
        rows = {side: [asdict(each) for each in tries] for side, tries in tried.items()}
        print(json.dumps({**rows, "best": {k: asdict(v) for k, v in best.items()}, "ratio": ratio}, indent=1))
    elif ratio is not None:
        print(f"ratio {ratio:.0f}")


def search(side: str, spec: str, rates: list[int], arguments: argparse.Namespace) -> list[Carried]:
    """Tries from the highest rate down to the first that is carried faithfully."""
    tries: list[Carried] = []
    for rate_bps in sorted(rates, reverse=True):
        carried = attempt(side, f"{spec},rate={rate_bps}", arguments.seconds)
        tries.append(carried)
        if not arguments.json:
            print(
                f"{side:5} {show_bps(rate_bps):>10}: {show_bps(carried.goodput_bps)} = {carried.share:.3f}, "
                f"dropped {carried.dropped}, retransmitted {carried.retransmits}, "
                f"CPU idle {carried.cpu_idle:.2f}",
                flush=True,
            )
        if carried.is_faithful:
            break
    return tries


def best_of(tries: list[Carried]) -> Carried:
    return max(tries, key=lambda carried: (carried.is_faithful, carried.goodput_bps))


def attempt(side: str, spec: str, seconds: int) -> Carried:
    with tempfile.TemporaryDirectory(prefix="gradwire-permutation-") as name:
        plans.save(permutation(spec), Path(name) / "plan.json")
        arguments = ["--inside", name, "--seconds", str(seconds), *(["--stock"] if side == "stock" else [])]
        process = isolated("benchmarks.permutation", arguments, stdout=subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            stop(process)
    if process.returncode:
        sys.exit(process.returncode)
    return Carried(**json.loads(said))


def permutation(spec: str) -> Plan:
    """Rank i sends to rank i + n/2 + 1, from iperf3's own ports: no pair sends both ways."""
    fabric = parse_fabric(spec)
    n = len(fabric.hosts)
    sends = tuple(Send(i, i, (i + n // 2 + 1) % n, 0, 1, reduce=False) for i in range(n))
    schedule = Schedule.of(n, tuple(Op("message", 1, root=i) for i in range(n)), sends)
    plan = resolve(
        fabric,
        schedule,
        algorithm="permutation",
        placement="linear",
        routes="dmodk",
        seed=0,
        transport=fabric_transport(fabric),
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


def ours(folder: Path, seconds: int) -> Carried:
    plan = plans.load(folder / "plan.json")
    network = emulated(plan.fabric, plan.transport, plan.flows)
    with in_force(network, plan, Software(), folder) as emulation:
        return measure(plan, emulation.pid_of, seconds)


def stock(folder: Path, seconds: int) -> Carried:
    plan = plans.load(folder / "plan.json")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    start_ovs()
    with stock_mininet(plan.fabric, static_arp=True) as net:
        program(plan)
        return measure(plan, {host.name: host.pid for host in net.hosts}, seconds)


def measure(plan: Plan, pids: dict[str, int], seconds: int) -> Carried:
    fabric = plan.fabric
    servers = [
        subprocess.Popen(
            [*enter(pid), "iperf3", "-s", "-1", "-p", str(SERVER_PORT)], stdout=subprocess.DEVNULL
        )
        for pid in pids.values()
    ]
    time.sleep(1)
    queues = Queues(pids.values())
    drops, before = sum(queues.dropped().values()), sampler.machine()
    clients = []
    for send in plan.schedule.sends:
        source, target = plan.placement[send.src], fabric.ip(plan.placement[send.dst])
        command = [*enter(pids[source]), "iperf3", "-J", "-C", "cubic", "-c", target, "-p", str(SERVER_PORT)]
        command += ["--cport", str(FIRST_CLIENT_PORT + send.src), "-t", str(seconds), "-O", str(WARM_UP_S)]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    results = [json.loads(client.communicate(timeout=LIMIT_S)[0]) for client in clients]
    after = sampler.machine()
    for server in servers:
        server.wait(LIMIT_S)
    rates = [rate for end, rate in fabric.rates.items() if end.node in pids]
    goodput_bps = sum(result["end"]["sum_received"]["bits_per_second"] for result in results)
    return Carried(
        rate_bps=max(rates),
        goodput_bps=goodput_bps,
        share=goodput_bps / (sum(rates) * payload_efficiency(fabric.mtu_nbytes)),
        dropped=sum(queues.dropped().values()) - drops,
        retransmits=sum(result["end"]["sum_sent"]["retransmits"] for result in results),
        cpu_idle=sampler.cpu_idle(before, after),
    )


if __name__ == "__main__":
    main()
