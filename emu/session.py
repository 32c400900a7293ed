"""One run, inside its namespaces: network, switch, controller, agents, the repeats, the counters.

`python -m gradwire.emu.session FOLDER [FD]` reads `plan.json` and `options.json` there, says what it does as
JSON Lines on stdout, leaves the run's files in the folder, and ends with exit code 0, or 1 and one line on
stderr.  Who watches it gets looks at it through the channel with the descriptor FD.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

from gradwire.emu import deadlines, records
from gradwire.emu.channel import Channel
from gradwire.emu.deadlines import CONTROLLER_S
from gradwire.emu.emulation import in_force
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.lifecycle import errors_in_one_line, say
from gradwire.emu.looks import Looks, watched
from gradwire.emu.machines.machine import Machine, Team, assembled
from gradwire.emu.meter import Meter
from gradwire.emu.network.cables import failing
from gradwire.emu.network.net import emulated
from gradwire.emu.network.shaping import windows_at
from gradwire.emu.network.tcpdump import captures, whole_packets
from gradwire.emu.options import RunOptions
from gradwire.emu.replay import processes
from gradwire.emu.replay.board import Board
from gradwire.emu.replay.fleet import Fleet
from gradwire.emu.replay.outcome import Outcome
from gradwire.emu.stalls import timed
from gradwire.planning import plan as plans
from gradwire.planning.failures import changes
from gradwire.planning.machines.machinesfile import Machines
from gradwire.planning.plan import Plan
from gradwire.traces.memory import free_nbytes


def main(folder: Path, channel: Channel | None = None) -> None:
    plan = plans.load(folder / "plan.json")
    options = RunOptions.from_json(json.loads((folder / "options.json").read_text()))
    windows = windows_at(plan.fabric, plan.trees, may_move=bool(plan.failures) and options.reroute)
    with ExitStack() as stack:
        team = stack.enter_context(_assembled(options.machines, plan, folder)) if options.machines else None
        part, others = (team.part, team.others) if team else (None, ())
        network = emulated(
            plan.fabric,
            plan.transport,
            plan.flows,
            options.switch != "ovs",
            windows,
            part,
            loses=bool(plan.losses),
        )
        more = _controller_options(options, folder)
        emulation = stack.enter_context(
            in_force(network, plan, options.software, folder, more, say, team=team)
        )
        controller, watch, pids = emulation.controller, emulation.watch, emulation.pid_of
        queues = Queues(pids.values())
        stalls = stack.enter_context(timed())
        say("agents")
        board = Board(plan.n_ranks) if channel else None
        if team:
            team.tell("agents")
        agents = stack.enter_context(processes.started(plan, pids, watch, board, others))
        cables = stack.enter_context(failing(changes(plan.fabric, plan.failures)))
        agents.connect()
        if options.captures:
            listening = whole_packets(len(plan.placement), free_nbytes())
            stack.enter_context(captures(plan.placement, pids, folder / records.CAPTURES, listening))
        if channel:
            looks = Looks(plan.fabric, pids, folder / records.CONTROL_FILE, board)
            stack.enter_context(watched(channel, looks))
        with records.RunRecords(folder, plan) as record:
            for repeat in range(options.warmups + options.repeats + records.MAX_LEFT_OUT):
                if record.n_counted == options.repeats:
                    break
                is_warmup = repeat < options.warmups
                say("warm-up" if is_warmup else "repeat", repeat=repeat if is_warmup else record.n_counted)
                meter = Meter(agents.pids, queues, stalls, cables, part)
                measured = _measured(agents, repeat, deadlines.repeat_s(plan), meter, others)
                record.repeat(repeat, *measured, is_warmup=is_warmup)
                controller.tell("settle")  # back to the plan's own rules, and every port up
                controller.await_line("settled", CONTROLLER_S, watch)
        controller.tell(f"stats {folder / 'switches.json'}")
        controller.await_line("stats", CONTROLLER_S, watch)
        agents.end()
        say("down")


def _assembled(machines: Mapping[str, Any], plan: Plan, folder: Path) -> AbstractContextManager[Team]:
    """The machines that carry the plan's fabric together."""
    say("machines")
    return assembled(Machines.model_validate(machines), plan.fabric, folder, plan)


def _controller_options(options: RunOptions, folder: Path) -> list[str]:
    """The controller's options besides the plan."""
    return ["--log", str(folder / records.CONTROL_FILE), *([] if options.reroute else ["--no-reroute"])]


def _measured(
    agents: Fleet, repeat: int, limit_s: float, meter: Meter, others: Sequence[Machine]
) -> tuple[list[Outcome], list[records.RepeatCounts]]:
    """The outcomes, and what each machine did between the common start and the last rank's end."""
    with closing(meter):
        outcomes = agents.run(repeat, limit_s, meter.begin, meter.end)
    times = [outcome.times for outcome in outcomes]
    here = meter.counts(times[0].start_ns, max(each.done_ns for each in times))
    return outcomes, [here, *(machine.counts() for machine in others)]


if __name__ == "__main__":
    with errors_in_one_line():
        main(Path(sys.argv[1]), *map(Channel.inherited, map(int, sys.argv[2:])))
