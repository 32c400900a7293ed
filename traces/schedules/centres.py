"""Centres: buffers of a server that workers add to and read from while others do the same.

A push to a centre is added up in it, a pull reads it (`Op.centre`).  What a pull holds depends on which
pushes came before it, which is decided when the schedule is carried out.  So no condition says it: the agents
hold each pull against the order that the server logged.  What can be checked beforehand is

- that each push adds all of its data exactly once, and each pull reads all of the centre;
- that no push comes while the centre is read: one waits for the other, or both are in sections of a lock of
  the server.  A centre that is `unordered`, as Hogwild's (Niu et al., 2011), is exempt from that alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.schedule import Schedule

MAX_BITS = 1 << 32  # of all operations at their ranks, one for each access to a centre
MAX_PUSHES = 100_000  # to one centre; their sum is exact in float32 (emu.replay.centre_values)

Part = tuple[int, int]
"""An operation at a rank."""


def check_centres(schedule: Schedule) -> None:
    """Raise ValueError for what is not added or read exactly once, and for what may meet and must not."""
    accesses = [op for op, made in enumerate(schedule.ops) if made.centre is not None]
    if not accesses:
        return
    _check_counts(schedule, accesses)
    ordered = [op for op in accesses if not schedule.centre_of(op).unordered]
    if len(ordered) * len(schedule.ops) > MAX_BITS:
        raise ValueError(f"{len(ordered):,} pushes and pulls are too many to check")
    if ordered:
        _check_order(schedule, ordered)


def _check_counts(schedule: Schedule, accesses: Sequence[int]) -> None:
    n_pushes: defaultdict[int | None, int] = defaultdict(int)
    for number, centre in enumerate(schedule.centres):
        if not 0 <= centre.rank < schedule.n_ranks or centre.nbytes % ELEMENT_NBYTES or centre.nbytes < 0:
            raise ValueError(f"centre {number}: rank {centre.rank} or {centre.nbytes} bytes is out of range")
    starts = schedule.sends.op.searchsorted([*accesses, len(schedule.ops)]).tolist()
    for op, first in zip(accesses, starts, strict=False):
        made, where = schedule.ops[op], f"operation {op}, of centre {schedule.ops[op].centre}"
        if made.kind != "message":
            raise ValueError(f"{where}, must be a message, got {made.kind}")
        if made.centre not in range(len(schedule.centres)):
            n_centres = len(schedule.centres)
            raise ValueError(f"operation {op} names centre {made.centre}, the plan has {n_centres}")
        centre = schedule.centre_of(op)
        its = schedule.sends[first : schedule.sends.op.searchsorted(op + 1)]
        if made.nbytes != centre.nbytes or [(s.offset, s.shift, s.nbytes) for s in its] != [
            (0, 0, centre.nbytes)
        ]:
            raise ValueError(f"{where}, must be one send of all of its {centre.nbytes} bytes")
        (send,) = its
        adds = send.dst == centre.rank
        if centre.rank not in (send.src, send.dst) or send.reduce != adds or made.root != send.src:
            raise ValueError(f"{where}: rank {centre.rank} must add up a push, and send a pull as it is")
        n_pushes[made.centre] += adds
    if n_pushes and max(n_pushes.values()) > MAX_PUSHES:
        raise ValueError(f"a centre can have {MAX_PUSHES:,} pushes, got {max(n_pushes.values()):,}")


def _check_order(schedule: Schedule, accesses: Sequence[int]) -> None:
    bit = {op: 1 << place for place, op in enumerate(accesses)}
    begun = _accessed_before(schedule, bit)
    sections = _sections(schedule)
    locked: defaultdict[int, int] = defaultdict(int)  # by rank: what is in a section of its lock
    of_section: defaultdict[tuple[int, int], int] = defaultdict(int)
    for op in accesses:
        rank = schedule.centre_of(op).rank
        if (section := sections.get((op, rank))) is not None:
            locked[rank] |= bit[op]
            of_section[section] |= bit[op]
    earlier: defaultdict[tuple[int | None, bool], int] = defaultdict(int)  # by centre, and whether they push
    for op in accesses:
        centre, pushes, rank = schedule.ops[op].centre, schedule.is_push(op), schedule.centre_of(op).rank
        free = earlier[centre, not pushes] & ~begun[op]
        if (section := sections.get((op, rank))) is not None:
            free &= ~locked[rank] | of_section[section]
        if free:
            other = accesses[(free & -free).bit_length() - 1]
            push, pull = (op, other) if pushes else (other, op)
            raise ValueError(
                f"operation {push} may add to centre {centre} of rank {rank} while "
                f"operation {pull} reads it: let one wait for the other, give the rank a lock over both, or "
                "declare the centre unordered"
            )
        earlier[centre, pushes] |= bit[op]


def _accessed_before(schedule: Schedule, bit: dict[int, int]) -> dict[int, int]:
    """For each access, as bits, those that are over when it begins, whatever happens."""
    gates: dict[Part, tuple[int, ...]] = {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    over: dict[Part, int] = {}
    begun: dict[int, int] = {}
    ends = dict(
        zip(
            schedule.sends.op.tolist(),
            zip(schedule.sends.src.tolist(), schedule.sends.dst.tolist(), strict=True),
            strict=True,
        )
    )
    for op, made in enumerate(schedule.ops):
        if made.kind != "message" or op not in ends:
            for rank in (made.root,) if made.kind == "compute" else schedule.members[op]:
                over[op, rank] = _any(over, gates.get((op, rank), ()), rank)
            continue
        src, dst = ends[op]
        mask = _any(over, gates.get((op, src), ()), src) | _any(over, gates.get((op, dst), ()), dst)
        if op in bit:
            begun[op] = mask
        pushes = op in bit and schedule.is_push(op)
        over[op, src] = mask | (0 if pushes else bit.get(op, 0))
        over[op, dst] = mask | bit.get(op, 0)
    return begun


def _any(over: dict[Part, int], ops: Iterable[int], rank: int) -> int:
    mask = 0
    for op in ops:
        mask |= over.get((op, rank), 0)
    return mask


def _sections(schedule: Schedule) -> dict[Part, tuple[int, int]]:
    """The section of what comes, at the rank of a lock, after its first operation and before its last."""
    after: defaultdict[Part, tuple[int, ...]] = defaultdict(tuple)
    after |= {(gate.op, gate.rank): gate.after for gate in schedule.gates}
    found: dict[Part, tuple[int, int]] = {}
    for lock in schedule.locks:
        for first, last in lock.sections:
            todo, behind = [last], {last}
            while todo:
                more = {other for other in after[todo.pop(), lock.rank] if other > first} - behind
                behind |= more
                todo += more
            inside = {first}
            for op in sorted(behind):
                if not inside.isdisjoint(after[op, lock.rank]):
                    inside.add(op)
            found |= dict.fromkeys(((op, lock.rank) for op in inside), (first, last))
    return found
