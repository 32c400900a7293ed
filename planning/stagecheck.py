"""Checks a plan's operations that are done in groups, go on with what others left, or send pairs."""

from collections.abc import Sequence

import numpy as np

from gradwire.traces.schedules.dtypes import FLOAT32
from gradwire.traces.schedules.kinds import CONTRACTS, ELEMENT_NBYTES, PAIR_NBYTES
from gradwire.traces.schedules.schedule import Op, Schedule


def check_stages(schedule: Schedule) -> None:
    """Raise ValueError for the first operation of which one of these is wrong."""
    for number, op in enumerate(schedule.ops):
        try:
            _check_groups(op)
            _check_pairs(op, schedule.members[number])
            if op.source is not None:
                _check_source(number, op, schedule.ops)
        except ValueError as error:
            raise ValueError(f"operation {number}, {op.kind}: {error}") from None
    _check_gated(schedule)
    _check_inside(schedule)
    _check_merged_whole(schedule)


def _check_groups(op: Op) -> None:
    if not op.groups:
        return
    if not op.contract.in_groups:
        can = [kind for kind, contract in CONTRACTS.items() if contract.in_groups]
        raise ValueError(f"it cannot be done in groups; {', '.join(can)} can")
    ranks = sorted(rank for group in op.groups for rank in group)
    ascending = all(list(group) == sorted(group) for group in op.groups)
    if tuple(ranks) != op.members or not ascending or len(set(map(len, op.groups))) > 1 or op.givers:
        raise ValueError(
            "its groups must be of one size and have each member once, in ascending order; it has no givers"
        )


def _check_pairs(op: Op, members: Sequence[int]) -> None:
    """Ranks have as many pairs each, and not more than the numbers that these are taken from."""
    if not op.contract.has_pairs:
        if op.dense_nbytes:
            raise ValueError(f"it sends no pairs, so dense_nbytes must be 0, got {op.dense_nbytes}")
        return
    n_ranks = len(op.groups[0] if op.groups else members)
    n_kept, rest = divmod(op.nbytes, PAIR_NBYTES * (1 if op.contract.merges else n_ranks))
    if n_ranks < 2 or rest:
        raise ValueError(
            f"{op.nbytes} bytes are not the same number of pairs of {PAIR_NBYTES} bytes from each of "
            f"{n_ranks} members"
        )
    n_shards = max(1, len(op.groups)) if op.source is not None else 1
    n_numbers, rest = divmod(op.dense_nbytes, ELEMENT_NBYTES)
    if rest or not 0 < n_kept <= n_numbers // n_shards:
        raise ValueError(f"each rank cannot take {n_kept} pairs from the numbers in {op.dense_nbytes} bytes")
    if op.givers or op.dtype != FLOAT32:
        raise ValueError(f"all its members must give, and its values must be {FLOAT32}")


def _check_source(number: int, op: Op, ops: Sequence[Op]) -> None:
    """What it carries on comes before it, and has the same numbers at the same ranks."""
    assert op.source is not None
    carried = op.contract.carries_on
    if carried is None:
        can = [kind for kind, contract in CONTRACTS.items() if contract.carries_on]
        raise ValueError(f"it cannot carry on another operation; {' and '.join(can)} can")
    if not 0 <= op.source < number or ops[op.source].kind != carried:
        raise ValueError(f"its source must be an earlier {carried}, got operation {op.source}")
    source = ops[op.source]
    dense, pairs = (source, op) if op.contract.has_pairs else (op, source)
    if source.members != op.members or dense.nbytes != pairs.dense_nbytes:
        raise ValueError(f"it has other members or sizes than its source, operation {op.source}")
    if pairs.source is None or ops[pairs.source].groups != dense.groups:
        raise ValueError(
            f"its groups differ from the groups of the reducescatter that operation {op.source} carries on"
        )
    if pairs.groups != tuple(tuple(sorted(line)) for line in zip(*dense.groups, strict=True)):
        raise ValueError(
            "each of its groups must have the ranks with the same chunk, one from every group of its source"
        )
    if not op.groups:
        raise ValueError(f"it carries on operation {op.source}, so it must be done in groups")


def _check_gated(schedule: Schedule) -> None:
    """Ranks are done with an operation before they carry it on, and they carry it on once."""
    after = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    carried: set[int] = set()
    for number, op in enumerate(schedule.ops):
        if op.source is None:
            continue
        if op.source in carried:
            raise ValueError(f"operation {number}: operation {op.source} is carried on twice")
        carried.add(op.source)
        for rank in op.members:
            if op.source not in after.get((number, rank), ()):
                raise ValueError(
                    f"operation {number} carries on operation {op.source}, so rank {rank} must wait for it"
                )


def _check_inside(schedule: Schedule) -> None:
    """Sends of an operation in groups stay in their group."""
    sends = schedule.sends
    for number, op in enumerate(schedule.ops):
        if not op.groups:
            continue
        group_of = np.zeros(schedule.n_ranks, np.int64)
        for place, group in enumerate(op.groups):
            group_of[list(group)] = place
        low, high = np.searchsorted(sends.op, (number, number + 1)).tolist()
        wrong = np.flatnonzero(group_of[sends.src[low:high]] != group_of[sends.dst[low:high]])
        if len(wrong):
            send = low + int(wrong[0])
            raise ValueError(
                f"send {send} goes from rank {sends.src[send]} to {sends.dst[send]}, which are in different "
                f"groups of operation {number}"
            )


def _check_merged_whole(schedule: Schedule) -> None:
    """What is merged comes with all of its pairs."""
    sends = schedule.sends
    merges = np.array([op.contract.merges for op in schedule.ops], np.bool_)[sends.op]
    sizes = np.array([op.nbytes for op in schedule.ops], np.int64)[sends.op]
    wrong = np.flatnonzero(merges & sends.reduce & ((sends.nbytes != sizes) | (sends.shift != 0)))
    if len(wrong):
        send = int(wrong[0])
        raise ValueError(
            f"send {send} has {sends.nbytes[send]} of the {sizes[send]} bytes of operation {sends.op[send]}; "
            "a send must have all pairs that are merged"
        )
