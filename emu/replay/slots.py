"""Which send a gloo slot stands for: slots as gloo numbers them, matched first in, first out.

gloo matches a receive to a send by slot and order on a connection; so do we, so a replay's capture reads
like a capture of gloo.
"""

from collections import defaultdict

from traces.framing.gloo import PREFIXES, pack_slot
from traces.schedules.schedule import Schedule

TAG_LIMIT = 1 << 32


def slots_of(schedule: Schedule, repeat: int) -> list[int]:
    """The slot of each operation in the given repeat; a collective's tag is never used twice."""
    tags = [op.tag for op in schedule.ops if op.kind != "message"]
    period = max(tags, default=0) + 1
    return [
        op.tag
        if op.kind == "message"
        else pack_slot(PREFIXES[op.kind], (op.tag + repeat * period) % TAG_LIMIT)
        for op in schedule.ops
    ]


def in_order(schedule: Schedule, rank: int, slots: list[int]) -> tuple[dict[tuple[int, int], list[int]], ...]:
    """(sends, receives) of `rank`: their ids in order for each (peer, slot)."""
    sends: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    receives: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, send in enumerate(schedule.sends):
        if send.src == rank:
            sends[send.dst, slots[send.op]].append(number)
        elif send.dst == rank:
            receives[send.src, slots[send.op]].append(number)
    return dict(sends), dict(receives)
