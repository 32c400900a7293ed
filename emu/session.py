"""One run, inside its namespaces: network, switch, controller, agents, the repeats, the counters.

`python -m gradwire.emu.session FOLDER [FD]` reads `plan.json` and `options.json` there, says what it does as
JSON Lines on stdout, leaves the run's files in the folder, and ends with exit code 0, or 1 and one line on
stderr.  Who watches it gets looks at it through the channel with the descriptor FD.
"""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from gradwire.emu import limits, records, sampler
from gradwire.emu.channel import Channel
from gradwire.emu.emulation import in_force
from gradwire.emu.lifecycle import errors_in_one_line, say
from gradwire.emu.limits import CONTROLLER_S
from gradwire.emu.looks import Looks, watched
from gradwire.emu.network.cables import Cables, Done, failing
from gradwire.emu.network.net import emulated
from gradwire.emu.network.queues import Queues
from gradwire.emu.network.shaping import windows_at
from gradwire.emu.network.tcpdump import captures
from gradwire.emu.options import RunOptions
from gradwire.emu.otherprograms import host_proc, reading, used
from gradwire.emu.replay import fleet
from gradwire.emu.replay.board import Board
from gradwire.emu.replay.outcome import Outcome
from gradwire.emu.stalls import Stalls, timed
from gradwire.planning import plan as plans
from gradwire.planning.failures import changes
from gradwire.planning.plan import Plan


def main(folder: Path, channel: Channel | None = None) -> None:
    plan = plans.load(folder / "plan.json")
    options = RunOptions.from_json(json.loads((folder / "options.json").read_text()))
    windows = windows_at(plan.fabric, plan.trees, may_move=bool(plan.failures) and options.reroute)
    network = emulated(plan.fabric, plan.transport, plan.flows, options.switch != "ovs", windows)
    more = _controller_options(options, folder)
    with ExitStack() as stack:
        emulation = stack.enter_context(
            in_force(network, plan.fabric, options.software, folder, plan, more, say)
        )
        controller, watch, pids = emulation.controller, emulation.watch, emulation.pid_of
        queues = Queues(pids.values())
        stalls = stack.enter_context(timed())
        say("agents")
        board = Board(plan.n_ranks) if channel else None
        agents = stack.enter_context(fleet.started(plan, pids, watch, board))
        cables = stack.enter_context(failing(changes(plan.fabric, plan.failures)))
        agents.connect()
        if options.captures:
            stack.enter_context(captures(plan.placement, pids, folder / "captures"))
        if channel:
            looks = Looks(plan.fabric, pids, folder / records.CONTROL_FILE, board)
            stack.enter_context(watched(channel, looks))
        with records.RunRecords(folder, plan) as record:
            for repeat in range(options.warmups + options.repeats + records.MAX_LEFT_OUT):
                if record.n_counted == options.repeats:
                    break
                is_warmup = repeat < options.warmups
                say("warm-up" if is_warmup else "repeat", repeat=repeat if is_warmup else record.n_counted)
                measured = _measured(plan, agents, cables, repeat, queues, stalls)
                record.repeat(repeat, *measured, is_warmup=is_warmup)
                controller.tell("settle")  # back to the plan's own rules, and every port up
                controller.await_line("settled", CONTROLLER_S, watch)
        controller.tell(f"stats {folder / 'switches.json'}")
        controller.await_line("stats", CONTROLLER_S, watch)
        agents.end()
        say("down")


def _controller_options(options: RunOptions, folder: Path) -> list[str]:
    """The controller's options besides the plan."""
    return ["--log", str(folder / records.CONTROL_FILE), *([] if options.reroute else ["--no-reroute"])]


def _measured(
    plan: Plan, agents: fleet.Fleet, cables: Cables, repeat: int, queues: Queues, stalls: Stalls
) -> tuple[list[Outcome], records.RepeatCounts]:
    """The outcomes, and what the machine did between the common start and the last rank's end.

    For a repeat too short to measure the tenth of a second before it counts as well.
    """
    limit_s = limits.repeat_s(plan)
    drops = queues.dropped()
    read: list[sampler.Machine] = []
    changed: list[Done] = []
    samples = sampler.Samples(agents.pids)
    proc = host_proc()
    programs = [reading(proc)] if proc is not None else []
    with ExitStack() as sampling:

        def begin(start_ns: int) -> None:
            cables.begin(start_ns)
            sampling.enter_context(samples.taken())
            read.append(sampler.machine())
            read.append(sampler.machine_at(start_ns))

        def end() -> None:
            read.append(sampler.machine())
            if proc is not None:
                programs.append(reading(proc))
            sampling.close()
            changed.extend(cables.end())

        outcomes = agents.run(repeat, limit_s, begin, end)
    announced, started, after = read
    before = sampler.long_enough(announced, started, after)
    lost = {name: count - drops.get(name, 0) for name, count in queues.dropped().items()}
    counted = records.RepeatCounts(
        cpu_idle=sampler.cpu_idle(before, after),
        cpu_stolen=sampler.cpu_stolen(before, after),
        softnet_dropped=after.softnet_dropped - before.softnet_dropped,
        queue_dropped={name: count for name, count in lost.items() if count},
        samples=samples,
        changes=tuple(changed),
        stalls=stalls,
        others=used(proc, *programs) if proc is not None else (),
    )
    return outcomes, counted


if __name__ == "__main__":
    with errors_in_one_line():
        main(Path(sys.argv[1]), *map(Channel.inherited, map(int, sys.argv[2:])))
