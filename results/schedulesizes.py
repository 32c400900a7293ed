"""What a schedule does: its kind of collective, the bytes that were asked for, and those of NCCL's busbw."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import totals


def collective_of(schedule: Schedule) -> CollectiveKind | None:
    """The kind of collective that a schedule does; None if it does several, or sends messages."""
    pushes = replaced_pushes(schedule)
    kinds = {
        "allreduce" if number in schedule.stages else "message" if number in pushes else op.kind
        for number, op in enumerate(schedule.ops)
        if op.kind != "compute"
    }
    return next((kind for kind in BY_COLLECTIVE if kinds == {kind}), None)


def asked_nbytes(schedule: Schedule) -> int:
    """The sum of the operations' sizes.  A reduce that switches do counts as the pushes that it replaces: a
    parameter server's job is as large whoever adds it up.
    """
    pushes = replaced_pushes(schedule)
    return sum(op.asked_nbytes * pushes.get(number, 1) for number, op in enumerate(schedule.ops))


def replaced_pushes(schedule: Schedule) -> dict[int, int]:
    """How many pushes each reduce that switches do replaces."""
    return {
        each.op: len(each.givers) for each in schedule.aggregations if schedule.ops[each.op].kind == "reduce"
    }


def busbw_nbytes(schedule: Schedule, ranks: Sequence[int]) -> float:
    """The bytes of NCCL's busbw: what the host links of a job's ranks must carry, whatever the algorithm.

    A collective counts `Contract.busbw_nbytes`; messages count those of the rank that sends or receives the
    most.  Pushes to a parameter server count as the messages that they are, whoever adds them up.
    """
    sends = schedule.sends
    alone = np.array([not op.contract.is_collective for op in schedule.ops], np.bool_)[sends.op]
    sent, received = (
        Counter(dict(enumerate(totals(ends[alone], sends.nbytes[alone], schedule.n_ranks).tolist())))
        for ends in (sends.src, sends.dst)
    )
    pushes = replaced_pushes(schedule)
    for each in schedule.aggregations:
        op = schedule.ops[each.op]
        if each.op in pushes:
            sent.update(dict.fromkeys(each.givers, op.nbytes))
            received[op.root] += op.nbytes * len(each.givers)
    collectives = sum(
        op.contract.busbw_nbytes(schedule.parties(number)[0])
        for number, (op, members) in enumerate(zip(schedule.ops, schedule.members, strict=True))
        if op.contract.is_collective and number not in pushes and members and members[0] in ranks
    )
    return collectives + max(max(sent[rank], received[rank]) for rank in ranks)
