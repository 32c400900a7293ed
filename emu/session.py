"""One run, inside its namespaces: network, switch, controller, agents, the repeats, the counters.

`python -m emu.session FOLDER` reads `plan.json` and `options.json` there, says what it does as JSON Lines on
stdout, leaves the run's files in the folder, and ends with exit code 0, or 1 and one line on stderr.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emu import limits, records, sampler
from emu import plan as plans
from emu.fabric import Fabric, interface
from emu.limits import CONTROLLER_S
from emu.net import NetworkFailed, emulated, enter, prepare_namespace
from emu.options import RunOptions
from emu.plan import Plan
from emu.replay import fleet
from emu.replay.agent import Outcome
from emu.switch.running import running_switch
from emu.watch import Child, RunFailed, Watch, running

OPENFLOW_PORT = 6653  # of the run's own loopback
_CAPTURE_REST_S = 0.5  # tcpdump leaves at once when told: what came last must be written by then


def main(folder: Path) -> None:
    plan = plans.load(folder / "plan.json")
    options = RunOptions.from_json(json.loads((folder / "options.json").read_text()))
    watch = Watch()
    with ExitStack() as stack:
        _say("network")
        prepare_namespace()
        flows_at = Counter(interface(end.node, end.port) for flow in plan.flows for end in flow.path)
        offload = options.switch != "ovs"
        net = stack.enter_context(emulated(plan.fabric, plan.transport, flows_at, offload))
        _say("switches")
        controller = stack.enter_context(control_plane(plan.fabric, options.switch, folder, watch, plan=True))
        pids = {host.name: host.pid for host in net.hosts}
        _say("agents")
        agents = stack.enter_context(fleet.started(plan, pids, watch))
        agents.connect()
        if options.captures:
            stack.enter_context(captures(plan, pids, folder / "captures"))
        with records.Records(folder, plan) as record:
            for repeat in range(options.repeats + records.MAX_LEFT_OUT):
                if record.n_undisturbed == options.repeats:
                    break
                _say("repeat", repeat=record.n_undisturbed)
                record.repeat(repeat, *_measured(plan, agents, repeat, pids))
        controller.tell(f"stats {folder / 'switches.json'}")
        controller.await_line("stats", CONTROLLER_S, watch)
        agents.end()
        _say("down")


@contextmanager
def control_plane(fabric: Fabric, switch: str, folder: Path, watch: Watch, plan: bool) -> Iterator[Child]:
    """The controller and the switches it programs; ready when this yields."""
    what = [str(folder / "plan.json")] if plan else ["--fabric", fabric.spec]
    command = [
        sys.executable,
        "-m",
        "controller",
        *what,
        "--port",
        str(OPENFLOW_PORT),
        "--timeout",
        str(CONTROLLER_S),
    ]
    with (
        running("the controller", command, folder / "controller.log") as controller,
        running_switch(fabric, switch, folder, OPENFLOW_PORT, watch),
    ):
        controller.await_line("ready", CONTROLLER_S, watch)
        with watch.over("the controller", controller.process.pid, controller.log):
            yield controller


def _measured(
    plan: Plan, agents: fleet.Fleet, repeat: int, pids: dict[str, int]
) -> tuple[list[Outcome], records.Counted]:
    limit_s = limits.repeat_s(plan)
    drops = _drops(pids)
    before = sampler.machine()
    with sampler.sampling() as samples:
        outcomes = agents.run(repeat, limit_s)
    after = sampler.machine()
    lost = {name: count - drops.get(name, 0) for name, count in _drops(pids).items()}
    counted = records.Counted(
        cpu_idle=sampler.cpu_idle(before, after),
        cpu_stolen=sampler.cpu_stolen(before, after),
        softnet_dropped=after.softnet_dropped - before.softnet_dropped,
        queue_dropped={name: count for name, count in lost.items() if count},
        samples=samples,
    )
    return outcomes, counted


def _drops(pids: dict[str, int]) -> dict[str, int]:
    drops = sampler.queue_drops()
    for pid in pids.values():
        drops |= sampler.queue_drops(enter(pid))
    return drops


@contextmanager
def captures(plan: Plan, pids: dict[str, int], folder: Path) -> Iterator[None]:
    """tcpdump at every host that carries a rank: `hN.pcap`, nanoseconds, whole payload."""
    folder.mkdir()
    with ExitStack() as stack:
        for host in plan.placement:
            command = [
                *enter(pids[host]),
                "tcpdump",
                "-q",
                "-n",
                "-U",
                "--immediate-mode",
                "-B",
                "65536",
                "-s",
                "262144",
            ]
            command += [
                "--time-stamp-precision=nano",
                "-i",
                interface(host, 0),
                "-w",
                str(folder / f"{host}.pcap"),
            ]
            stack.enter_context(running(f"tcpdump on {host}", command, folder / f"{host}.log"))
        deadline = time.monotonic() + 10
        logs = [folder / f"{host}.log" for host in plan.placement]
        while not all("listening on" in log.read_text() for log in logs):
            if time.monotonic() > deadline:
                raise RunFailed("tcpdump did not start within 10 s")
            time.sleep(0.02)
        yield
        time.sleep(_CAPTURE_REST_S)


def _say(phase: str, **more: object) -> None:
    print(json.dumps({"phase": phase, **more}), flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (RunFailed, NetworkFailed, plans.BadPlan, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
