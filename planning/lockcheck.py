"""Checks the locks of a schedule: that each can be taken and freed, and that nobody waits for ever for one.

Whoever holds a lock must be able to free it whatever order the others come in, so meanwhile it may wait for
nothing that takes a lock as well, unless that was over when it asked.
"""

from collections import defaultdict

from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.schedule import Schedule

MAX_BITS = 1 << 32  # of all operations, one for each section


def check_locks(schedule: Schedule) -> None:
    """Raise ValueError for what is out of range, and for sections that may wait for each other.

    All else of the schedule must have been checked: operations then wait for earlier ones only.
    """
    firsts: dict[int, int] = {}  # the section of each operation that takes a lock
    ranks: set[int] = set()
    for lock in schedule.locks:
        if lock.rank in ranks:
            raise ValueError(f"rank {lock.rank} has two locks; it can have one")
        ranks.add(lock.rank)
        for section in lock.sections:
            _check_section(schedule, lock, section)
            if section[0] in firsts:
                raise ValueError(f"operation {section[0]} takes the lock of rank {lock.rank} twice")
            firsts[section[0]] = len(firsts)
    if firsts:
        _check_waiting(schedule, firsts)


def _check_section(schedule: Schedule, lock: Lock, section: tuple[int, int]) -> None:
    first, last = section
    where = f"the lock of rank {lock.rank}: section {first} to {last}"
    if not 0 <= first <= last < len(schedule.ops):
        raise ValueError(f"{where} must name two operations, the second not before the first")
    taking = schedule.ops[first]
    sends = schedule.sends.op.searchsorted([first, first + 1])
    is_one = sends[1] - sends[0] == 1 and schedule.sends.dst[sends[0]] == lock.rank
    if taking.kind != "message" or taking.rendezvous or not is_one:
        raise ValueError(f"{where} must begin with a message to rank {lock.rank}, in one send")
    freeing = schedule.ops[last]
    computes = freeing.kind == "compute" and freeing.root == lock.rank
    if not computes and lock.rank not in schedule.members[last]:
        raise ValueError(f"{where} ends with an operation in which rank {lock.rank} has no part")


def _check_waiting(schedule: Schedule, firsts: dict[int, int]) -> None:
    """`before[op]` are the sections that have begun when an operation is complete, as bits."""
    if len(firsts) * len(schedule.ops) > MAX_BITS:
        raise ValueError(f"{len(firsts):,} sections that need locks are too many to check")
    needed = _needed(schedule)
    before: list[int] = []
    for op in range(len(schedule.ops)):
        mask = 1 << firsts[op] if op in firsts else 0
        for rank in needed[op]:
            mask |= _sections(needed[op][rank], before)
        before.append(mask)
    for lock in schedule.locks:
        for first, last in lock.sections:
            if not before[last] >> firsts[first] & 1:
                raise ValueError(
                    f"the lock of rank {lock.rank}: operation {last} frees it without waiting for "
                    f"operation {first}, which takes it"
                )
            if more := before[last] & ~before[first]:
                other = next(op for op, number in firsts.items() if more >> number & 1)
                raise ValueError(
                    f"the lock of rank {lock.rank}: operation {last} frees it, but may wait for "
                    f"operation {other}, which takes a lock itself"
                )
    _check_slots(schedule, firsts, before, needed)


def _needed(schedule: Schedule) -> list[dict[int, set[int]]]:
    """For each operation, and the rank that decides it, the operations that it waits for."""
    needed: list[dict[int, set[int]]] = [defaultdict(set) for _ in schedule.ops]
    for gate in schedule.gates:
        needed[gate.op][gate.rank].update(gate.after)
    sends = schedule.sends
    for rank, edges in ((sends.src, sends.needs), (sends.dst, sends.ready)):
        ops = zip(sends.op[edges.owners].tolist(), sends.op[edges.ids].tolist(), strict=True)
        for (op, other), at in zip(ops, rank[edges.owners].tolist(), strict=True):
            if other != op:
                needed[op][at].add(other)
    return needed


def _sections(ops: set[int], before: list[int]) -> int:
    mask = 0
    for op in ops:
        mask |= before[op]
    return mask


def _check_slots(
    schedule: Schedule, firsts: dict[int, int], before: list[int], needed: list[dict[int, set[int]]]
) -> None:
    """A receiver counts what the messages of one tag and source announce: they must be ready in order."""
    sends = schedule.sends
    latest: dict[tuple[int, int, int], int] = {}
    for op, src, dst in zip(sends.op.tolist(), sends.src.tolist(), sends.dst.tolist(), strict=True):
        slot = (src, dst, schedule.ops[op].tag)
        if schedule.ops[op].contract.is_collective:
            continue
        earlier = latest.get(slot)
        if earlier is not None and not _sections(needed[op][src], before) >> firsts[earlier] & 1:
            raise ValueError(
                f"operation {op} has the tag of operation {earlier}, which takes a lock of rank {dst}, and "
                f"does not wait for it at rank {src}: give it another tag, or let it wait"
            )
        if op in firsts:
            latest[slot] = op
