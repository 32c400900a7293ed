"""How long a fabric takes to come up and to go down, with every rule in, beside Mininet as it comes.

    sudo .venv/bin/python -m benchmarks.updown [--repeat 3] [--stock-k8] [--json]

Ours is a whole run without its traffic: namespaces, links, shaping, hosts, switch program, and all rules of a
halving-doubling on all hosts installed and read back.  Times are from the start of the process that does it
to the end of its imports, of building the network, and of the last rule; down is from the last rule to the
end of everything.  Stock Mininet, from when Open vSwitch runs, makes the same hosts, links (TCLink) and
switches, but neither rules nor ARP entries: 16 hosts, with --stock-k8 also 128.  Shown is the best of the
repeats; MB are resident memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.stock import start_ovs, stock_mininet
from gradwire.emu.emulation import in_force
from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.network.net import emulated
from gradwire.emu.options import Software
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.openflow.rules import plan_rules
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand

SPECS = ("fat-tree:k=4", "fat-tree:k=8")
NBYTES = 16 << 20
LIMIT_S = 300
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--stock-k8", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stock", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stock:
        print(json.dumps(stock(arguments.stock)))
    elif arguments.inside:
        print(json.dumps(ours(arguments.inside)))
    else:
        compare(arguments.repeat, arguments.stock_k8, arguments.json)


def compare(repeat: int, is_stock_at_k8: bool, as_json: bool) -> None:
    rows: list[dict[str, object]] = []
    for number, spec in enumerate(SPECS):
        row: dict[str, object] = {"fabric": spec}
        with tempfile.TemporaryDirectory(prefix="gradwire-updown-") as name:
            plan = halving_doubling(spec)
            plans.save(plan, Path(name) / "plan.json")
            row["rules"] = sum(map(len, plan_rules(plan).values()))
            ours_s = best([inside("--inside", name) for _ in range(repeat)])
        row["ours"] = ours_s
        if number == 0 or is_stock_at_k8:
            row["stock"] = stock_s = inside("--stock", spec)
            stock_s["up_s"] = round(stock_s["up_s"] - stock_s.pop("begun_s"), 2)
            row["ratio"] = {key: round(stock_s[key] / ours_s[key], 1) for key in ("up_s", "down_s")}
        rows.append(row)
        if not as_json:
            print("\n".join(f"{key}: {value}" for key, value in row.items()) + "\n", flush=True)
    if as_json:
        print(json.dumps(rows, indent=1))


def halving_doubling(spec: str) -> Plan:
    fabric = parse_fabric(spec)
    return resolve(
        fabric,
        expand(made_allreduce(len(fabric.hosts), NBYTES), "halving-doubling"),
        algorithm="halving-doubling",
        placement="linear",
        routes="ecmp",
        seed=0,
        transport=fabric_transport(fabric),
    )


def inside(*arguments: str) -> Figures:
    """One measurement in namespaces of its own; `up_s` and `down_s` include the process's start and end."""
    begun_s = time.monotonic()
    process = isolated("benchmarks.updown", arguments, stdout=subprocess.PIPE)
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    finally:
        stop(process)
    ended_s = time.monotonic()
    if process.returncode:
        sys.exit(process.returncode)
    figures: Figures = json.loads(said)
    times = {key: round(value - begun_s, 2) for key, value in figures.items() if key.endswith("_at_s")}
    durations_s = {key.replace("_at_s", "_s"): value for key, value in times.items() if key != "down_at_s"}
    down_s = round(ended_s - figures["down_at_s"], 2)
    return durations_s | {"down_s": down_s} | {k: v for k, v in figures.items() if k.endswith("_MB")}


def best(measured: list[Figures]) -> Figures:
    """The measurement that was up first, with the shortest time down of all."""
    first = min(measured, key=lambda figures: figures["up_s"])
    return first | {"down_s": min(figures["down_s"] for figures in measured)}


def ours(folder: Path) -> Figures:
    """When (CLOCK_MONOTONIC) each stage was over."""
    at: Figures = {"imports_at_s": time.monotonic()}
    plan = plans.load(folder / "plan.json")
    network = emulated(plan.fabric, plan.transport, plan.flows)
    began_at: Figures = {}

    def begins(phase: str) -> None:
        began_at[phase] = time.monotonic()

    with in_force(network, plan, Software(), folder, say=begins) as emulation:
        at["network_at_s"] = began_at["switches"]
        at["up_at_s"] = time.monotonic()
        assert emulation.agent
        at["agent_MB"] = resident_mb(emulation.agent.process.pid)
        at["controller_MB"] = resident_mb(emulation.controller.process.pid)
        at["down_at_s"] = time.monotonic()
    return at


def stock(spec: str) -> Figures:
    at: Figures = {}
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    start_ovs()
    at["begun_at_s"] = time.monotonic()
    with stock_mininet(parse_fabric(spec), static_arp=False):
        at["up_at_s"] = time.monotonic()
        at["down_at_s"] = time.monotonic()
    return at


def resident_mb(pid: int) -> float:
    """proc(5): the second number of statm, in pages."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    main()
