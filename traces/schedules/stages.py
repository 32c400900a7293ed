"""Operations that are done in several stages, each of which goes on with what the one before has left."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradwire.traces.schedules.algorithm import Stage
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Edges, Sends


def in_stages(schedule: Schedule, stages: Mapping[int, Sequence[Stage]]) -> Schedule:
    """`schedule` with the stages of these operations, which send nothing yet, in place of each.

    What waited for the operation waits for its last stage.
    """
    ops: list[Op] = []
    parts: list[Sends] = []
    spans: list[tuple[int, int]] = []  # of each operation its first and its last one
    begun = 0
    for number, op in enumerate(schedule.ops):
        first = len(ops)
        if number in stages:
            parts.append(_between(schedule, begun, number).moved(op=first - number))
            begun = number + 1
            for place, stage in enumerate(stages[number]):
                source = None if stage.op.source is None else first + stage.op.source
                ops.append(replace(stage.op, tag=op.tag, iteration=op.iteration, source=source))
                parts.append(stage.sends.moved(op=first + place))
        else:
            ops.append(op)
        spans.append((first, len(ops) - 1))
    parts.append(_between(schedule, begun, len(schedule.ops)).moved(op=len(ops) - len(schedule.ops)))
    gates = [
        replace(gate, op=spans[gate.op][0], after=tuple(spans[other][1] for other in gate.after))
        for gate in schedule.gates
    ]
    gates += (
        Gate(number, rank, (op.source,))
        for number, op in enumerate(ops)
        if op.source is not None
        for rank in op.members
    )
    locks = (
        replace(lock, sections=tuple((spans[a][0], spans[b][1]) for a, b in lock.sections))
        for lock in schedule.locks
    )
    return replace(
        schedule, ops=tuple(ops), sends=Sends.joined(parts), gates=tuple(gates), locks=tuple(locks)
    )


def _between(schedule: Schedule, first: int, end: int) -> Sends:
    """The sends of these operations, whose edges are numbered from the first of them on."""
    low, high = np.searchsorted(schedule.sends.op, (first, end)).tolist()
    part = schedule.sends.chosen(np.arange(low, high), keep_edges=True)
    needs, ready = (Edges(each.starts, each.ids - np.int32(low)) for each in (part.needs, part.ready))
    return replace(part, needs=needs, ready=ready)
