"""When the operations of a schedule may begin at each rank: what they wait for, and how late a rank begins.

What was not chosen of a workload is waited through (traces.schedules.selection).
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from gradwire.traces.schedules.pushes import Unit, after_of, ready_after
from gradwire.traces.schedules.schedule import Gate
from gradwire.traces.workload import MAX_GAP_NS, Compute, Item, Message, Workload


def gates_of(
    workload: Workload, chosen: Mapping[int, Item], units: Sequence[Unit], compute: Fraction
) -> Iterator[Gate]:
    """The gates of the operations that these `units` of `chosen` items become, at the ranks that begin them.

    `compute` multiplies what ranks compute; if that is nothing, all begin at once.
    """
    late_ns = _late_ns(workload, chosen) if compute else ()
    waits = after_of(chosen, units)
    for op, unit in enumerate(units):
        for number in unit:
            item = chosen[number]
            for start in item.begins:
                after = waits[number, start.rank]
                since_ns = late_ns[start.rank] if late_ns and not after else 0
                if isinstance(item, Compute):
                    yield _computing(op, item, after, since_ns, compute)
                elif after or since_ns:
                    yield Gate(op, start.rank, after, since_ns)
    yield from prepared(chosen, units)


def _late_ns(workload: Workload, chosen: Mapping[int, Item]) -> tuple[int, ...]:
    """How late each rank begins; empty where what some rank began with is left out: then the others would
    wait for something that is not sent.
    """
    is_first = (any(not start.after for start in item.begins) for item in workload.items)
    first = (number for number, is_so in enumerate(is_first) if is_so)
    return workload.late_ns if all(number in chosen for number in first) else ()


def _computing(op: int, item: Compute, after: tuple[int, ...], since_ns: int, compute: Fraction) -> Gate:
    gap_ns = min(MAX_GAP_NS, since_ns + int(item.duration_ns * compute))
    most_ns = gap_ns if item.most_ns is None else min(MAX_GAP_NS, since_ns + int(item.most_ns * compute))
    return Gate(op, item.rank, after, gap_ns, most_ns if most_ns > gap_ns else None)


def prepared(chosen: Mapping[int, Item], units: Sequence[Unit]) -> Iterator[Gate]:
    """The gates of messages at their destinations; what switches add up comes when it comes."""
    for op, (unit, after) in enumerate(zip(units, ready_after(chosen, units), strict=True)):
        item = chosen[unit[0]]
        if after and isinstance(item, Message):
            yield Gate(op, item.dst, after)
