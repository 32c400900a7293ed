"""A schedule in which ranks become ready to send as late as the capture allows.

Where an operation had to queue, in its library or in its host's port, a capture shows only that its rank was
ready at some time between two instants (`Gate.gap_ns` to `Gate.most_ns`).  Schedules say the earliest, which
replays carry out.
"""

from dataclasses import replace

from gradwire.traces.schedules.schedule import Gate, Schedule


def at_the_latest(schedule: Schedule) -> Schedule | None:
    """None where nothing is left open.

    What a rank computed is a chain: the gap of each is counted from the end of the one before.  That one's
    range is not added to the ends of those after it, each of which has its own latest end:

        gap at the latest = max(0, gap + own range - what the one before ends later)
    """
    if all(gate.most_ns is None for gate in schedule.gates):
        return None
    later_ns: dict[int, int] = {}  # how much later computing ends, by its operation
    found: dict[int, Gate] = {}
    for number, gate in sorted(enumerate(schedule.gates), key=lambda each: each[1].op):
        if schedule.ops[gate.op].kind != "compute":
            continue
        own_ns = 0 if gate.most_ns is None else gate.most_ns - gate.gap_ns
        before_ns = later_ns.get(gate.after[0], 0) if len(gate.after) == 1 else 0
        gap_ns = max(0, gate.gap_ns + own_ns - before_ns)
        later_ns[gate.op] = before_ns + gap_ns - gate.gap_ns
        found[number] = replace(gate, gap_ns=gap_ns, most_ns=None)
    gates = tuple(found.get(number, gate) for number, gate in enumerate(schedule.gates))
    return replace(schedule, gates=gates)
