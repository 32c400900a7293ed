"""How long it takes until every switch has its rules, ours beside Open vSwitch.

    sudo python -m benchmarks.rules [--switch gradwire|ovs] [--fabric SPEC] [--flows N]

Controller and switches are started on cables that lead nowhere, in namespaces of their own.  Without
`--flows` the rules are the destinations'; with it, N flows between random hosts are added, each with a
rule at every switch of its path.  Prints one JSON object: seconds from the start of both to `attached`
(ours), to `ready` (every rule barriered, read back and compared), and rules per second of the latter.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from controller.resolve import resolve
from controller.rules import destination_rules, plan_rules
from emu.fabric import Fabric, interface
from emu.plan import Plan, save
from emu.project import PROJECT, SWITCH_OBJECT
from emu.spec import parse_fabric
from emu.switch.ovs import running_ovs
from emu.switch.running import PIN, ports_file
from emu.transport import fabric_transport
from traces.schedule import Op, Schedule, Send

OPENFLOW_PORT = 6653
SEED = 1


def random_plan(fabric: Fabric, n_flows: int) -> Plan:
    """ECMP plan of messages between random pairs of hosts, `n_flows` flows (both directions counted)."""
    random = Random(SEED)
    n_ranks = len(fabric.hosts)
    pairs = [(a, b) for a in range(n_ranks) for b in range(a)]
    chosen = random.sample(pairs, min(len(pairs), n_flows // 2))
    schedule = Schedule(
        n_ranks,
        tuple(Op("message", 1, tag=i, root=src) for i, (src, _) in enumerate(chosen)),
        tuple(Send(i, src, dst, 0, 1, reduce=False) for i, (src, dst) in enumerate(chosen)),
    )
    plan = resolve(
        fabric,
        schedule,
        algorithm="made",
        placement="linear",
        routes="ecmp",
        seed=SEED,
        transport=fabric_transport(fabric),
    )
    copies = -(-n_flows // len(plan.flows))  # the same pairs again, on other ports
    flows = [replace(flow, sport=flow.sport + copy) for copy in range(copies) for flow in plan.flows]
    return replace(plan, flows=tuple(flows[:n_flows]))


def measure(kind: str, spec: str, n_flows: int) -> dict[str, object]:
    fabric = parse_fabric(spec)
    folder = Path(tempfile.mkdtemp(dir="/run"))
    what, rules = ["--fabric", spec], destination_rules(fabric)
    if n_flows:
        plan = random_plan(fabric, n_flows)
        save(plan, folder / "plan.json")
        what, rules = [str(folder / "plan.json")], plan_rules(plan)
    names = [interface(switch, port) for switch in fabric.switches for port in fabric.ports[switch]]
    batch = "".join(
        f"link add {name} type veth peer name end{i}\nlink set {name} up\n" for i, name in enumerate(names)
    )
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
    ports = folder / "ports.json"
    ports.write_text(json.dumps(ports_file(fabric)))
    start_s = time.monotonic()
    figures: dict[str, object] = {}
    with ExitStack() as stack:
        controller = stack.enter_context(started("controller", *what, "--port", str(OPENFLOW_PORT)))
        if kind == "ovs":
            stack.enter_context(running_ovs(fabric, folder / "ovs", OPENFLOW_PORT))
        else:
            agent = ["emu.switch.agent", str(ports), "--object", str(SWITCH_OBJECT), "--pin", PIN]
            await_line(stack.enter_context(started(*agent)), "attached")
            figures["attached_s"] = round(time.monotonic() - start_s, 3)
        await_line(controller, "ready")
    ready_s = time.monotonic() - start_s
    n_rules = sum(map(len, rules.values()))
    return {
        "switch": kind,
        "fabric": spec,
        "switches": len(fabric.switches),
        "ports": len(names),
        "rules": n_rules,
        **figures,
        "ready_s": round(ready_s, 3),
        "rules_per_s": round(n_rules / ready_s),
    }


@contextmanager
def started(*module: str) -> "Iterator[subprocess.Popen[str]]":
    """A Python module as a child process, killed at the end by its own handle."""
    command = [sys.executable, "-m", *module]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--switch", choices=("gradwire", "ovs"), default="gradwire")
    parser.add_argument("--fabric", default="fat-tree:k=4")
    parser.add_argument("--flows", type=int, default=0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        namespaces = ["--net", "--mount", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child=KILL"]
        again = [sys.executable, "-m", "benchmarks.rules", *sys.argv[1:], "--inside"]
        os.execvp("unshare", ["unshare", *namespaces, "--", *again])
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["mount", "-t", "tmpfs", "tmpfs", "/run"],
        ["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"],
    ):
        subprocess.run(command, check=True)
    print(json.dumps(measure(arguments.switch, arguments.fabric, arguments.flows)))


if __name__ == "__main__":
    main()
