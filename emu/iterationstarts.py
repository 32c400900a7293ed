"""When each rank began each iteration of a replay, from the events that its agents left."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from emu.plan import Plan
from emu.records import load_events
from emu.runfiles import BadRun, one_run


def replayed_starts(
    folder: Path, plan: Plan, ranks: Iterable[int], repeats: int
) -> list[dict[int, dict[int, int]]]:
    """Of each repeat, by rank and iteration: when the first of the rank's own sends was handed to TCP, in ns.

    Only `ranks`, those whose logs the result is compared with.  Raise BadRun, or OSError.
    """
    wanted = set(ranks)
    starts: list[defaultdict[int, dict[int, int]]] = [defaultdict(dict) for _ in range(repeats)]
    with one_run(folder):
        for event in load_events(folder, plan):
            if event.event != "queued":
                continue
            send = plan.schedule.sends[event.send]
            if send.src not in wanted:
                continue
            if not 0 <= event.repeat < repeats:
                raise BadRun(folder / "events", f"repeat {event.repeat} of {repeats}")
            of_rank = starts[event.repeat][send.src]
            iteration = plan.schedule.ops[send.op].iteration
            of_rank[iteration] = min(of_rank.get(iteration, event.t_ns), event.t_ns)
    return [dict(each) for each in starts]
