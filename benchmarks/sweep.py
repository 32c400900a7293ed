"""How much sooner is a study done on two nodes than on one? `… -m benchmarks.sweep [--kill | --packets]`.

Two Ray nodes, each with network and PID namespaces and a processor of its own, joined by a cable, do 120
cells: 10 seeds, 4 policies, 3 algorithms, as plans of 400 ranks, beside which Ray's own start is little.
First the node that the study is started on does them alone, then both.  With --kill the second is killed in
the middle; then the cells must be the same as before.  With --packets the packets of four cells are sent
instead, on the second node, which alone offers that.
Needs root, and `./gradwire setup --ray`.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.sweep.raycluster import SENDS

STUDY = """
name: routes against draws
mode: plan
job: {bench: allreduce, begin: 16MiB, ranks: 400}
fabric: fat-tree:k=12
algorithm: [ring, halving-doubling, recursive-doubling]
placement: random
routes: [ecmp, planned, dmodk, adaptive]
seeds: 0..9
"""
PACKETS = """
name: packets on a node
job: {bench: allreduce, begin: 256KiB, ranks: 4}
fabric: star:hosts=4,rate=20M
algorithm: [ring, halving-doubling]
repeat: 1
seeds: 0..1
"""
PORT = 6399
HEAD, OTHER = "10.77.0.1", "10.77.0.2"
STORE_NBYTES = 100_000_000
PATIENCE_S = 900


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kill", action="store_true", help="kill the second node in the middle")
    parser.add_argument("--packets", action="store_true", help="send the packets of four cells instead")
    given = parser.parse_args()
    if os.geteuid():
        sys.exit("benchmarks.sweep: needs root, for namespaces")
    with tempfile.TemporaryDirectory(prefix="gradwire-sweep-") as made:
        folder = Path(made)
        if given.packets:
            (folder / "study.yaml").write_text(PACKETS.lstrip())
            sent_s, cells = _timed(folder / "sent", n_nodes=2, sends=True)
            rows = [cell["row"] for cell in cells if cell["row"]]
            wrong = sum(row["wrong"] for row in rows)
            print(f"sent       {sent_s:7.1f} s, {len(rows)} of {len(cells)} rows, {wrong} wrong")
            return
        (folder / "study.yaml").write_text(STUDY.lstrip())
        one_s, alone = _timed(folder / "one", n_nodes=1)
        print(f"one node   {one_s:7.1f} s, {len(alone)} cells", flush=True)
        two_s, both = _timed(folder / "two", n_nodes=2)
        print(
            f"two nodes  {two_s:7.1f} s, speed-up {one_s / two_s:.2f}, same cells: {both == alone}",
            flush=True,
        )
        if given.kill:
            killed_s, left = _timed(folder / "killed", n_nodes=2, kill_after_s=two_s / 2)
            print(f"one killed {killed_s:7.1f} s, same cells: {left == alone}")


def _timed(
    out: Path, n_nodes: int, kill_after_s: float | None = None, *, sends: bool = False
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds that the command takes on a cluster that is there, and its cells; if it `sends` packets, which
    the last node offers.
    """
    with ExitStack() as stack:
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        nodes = [stack.enter_context(_namespaces()) for _ in range(n_nodes)]
        _join(nodes)
        for number, node in enumerate(nodes):
            temp = stack.enter_context(tempfile.TemporaryDirectory())
            _start(node, number, temp, environment, sends=sends and number == n_nodes - 1)
        command = python(
            "gradwire.tools", "sweep", str(out.parent / "study.yaml"), "--json", "--out", str(out)
        )
        begin_s = time.monotonic()
        child = subprocess.Popen(
            _inside(nodes[0], 0, [*command, "--ray", f"{HEAD}:{PORT}"]),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((out.parent / "said").open("w")),
        )
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            nodes[1].kill()
        printed, _ = child.communicate(timeout=PATIENCE_S)
        if child.returncode not in ((0, NOT_VALID) if sends else (0,)):
            said = (out.parent / "said").read_text().strip().splitlines()
            raise RuntimeError(f"the sweep failed, exit code {child.returncode}: {said[-6:]}")
        took_s = time.monotonic() - begin_s
        return took_s, json.loads(printed)["cells"]


@contextmanager
def _namespaces() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds them; all in them ends with it."""
    holder = subprocess.Popen(
        [
            "unshare",
            "--net",
            "--pid",
            "--mount",
            "--mount-proc",
            "--fork",
            "--kill-child",
            "sleep",
            "infinity",
        ]
    )
    try:
        time.sleep(0.3)
        yield holder
    finally:
        holder.kill()
        holder.wait()


def _first(node: "subprocess.Popen[bytes]") -> str:
    """The process in the namespaces, as the machine counts it."""
    return Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()[0]


def _inside(node: "subprocess.Popen[bytes]", cpu: int, command: list[str]) -> list[str]:
    return ["taskset", "-c", str(cpu), "nsenter", "-t", _first(node), "-n", "-p", "-m", *command]


def _join(nodes: list["subprocess.Popen[bytes]"]) -> None:
    """A cable between the nodes; addresses are on loopbacks, and stay when the other node goes."""
    pids = [_first(node) for node in nodes]
    if len(nodes) > 1:
        link = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns"]
        _run(["nsenter", "-t", pids[0], "-n", *link, pids[1]])
    for pid, own, other in zip(pids, (HEAD, OTHER), (OTHER, HEAD), strict=False):
        steps = ["link set lo up", f"address add {own}/32 dev lo"]
        if len(nodes) > 1:
            steps += ["link set eth0 up", f"route add {other} dev eth0 src {own}"]
        for step in steps:
            _run(["nsenter", "-t", pid, "-n", "ip", *step.split()])


def _start(
    node: "subprocess.Popen[bytes]", number: int, temp: str, environment: dict[str, str], *, sends: bool
) -> None:
    ray = [str(PROJECT / ".venv" / "bin" / "python"), "-m", "ray.scripts.scripts", "start", "--num-cpus=1"]
    ray += [f"--node-ip-address={(HEAD, OTHER)[number]}", f"--object-store-memory={STORE_NBYTES}"]
    ray += ["--disable-usage-stats", *(["--resources", json.dumps({SENDS: 1})] if sends else [])]
    ray += (
        ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={temp}"]
        if number == 0
        else [f"--address={HEAD}:{PORT}"]
    )
    done = subprocess.run(
        _inside(node, number, ray), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ray start failed: {done.stderr.strip().splitlines()[-1]}")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
