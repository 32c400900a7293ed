"""Compares phases with the ports' counters over time: what passed while each phase was under way.

Phases overlap: a rank goes on when its own data is there.  So a phase's bytes on a link cannot be
separated from those of the next; but between two readings of a port's counter at least those sends have
passed that were queued and have arrived between them, and at most those that were under way then.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.model.addedup import tree_links, trees_of
from gradwire.planning.model.phases import PhaseKey, phase_keys
from gradwire.planning.model.wire import again_nbytes, framing_nbytes, payload_nbytes
from gradwire.planning.plan import Plan, flow_numbers
from gradwire.planning.transport import tcp_payload_nbytes
from gradwire.results.audit.treecounts import TreeLoad

SHARP = 0.1  # a phase's bytes are known well if the two limits are within this share of them


@dataclass(frozen=True, slots=True)
class Moments:
    """When one send was queued, and when it had arrived, in ns; of an aggregation, when the first rank began
    it and when the last one had the sum.
    """

    queued_ns: int
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class Readings:
    """A port's counter in one repeat: the stream's bytes that it had sent (`Count.stream_nbytes`)."""

    times_ns: Sequence[int]
    nbytes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Window:
    """One link in one phase, between two readings that enclose it.

    `least_nbytes` to `most_nbytes` must have passed by the plan and the ranks' events, `counted_nbytes`
    did; `planned_nbytes` is the payload of the phase itself.
    """

    key: PhaseKey
    egress: Egress
    planned_nbytes: int
    counted_nbytes: int
    least_nbytes: int
    most_nbytes: int

    @property
    def agrees(self) -> bool:
        return self.least_nbytes <= self.counted_nbytes <= self.most_nbytes

    @property
    def sharp(self) -> bool:
        return self.most_nbytes - self.least_nbytes <= SHARP * self.planned_nbytes


@dataclass(frozen=True, slots=True)
class _Passing:
    key: PhaseKey
    nbytes: int
    moments: Moments


def windows(
    plan: Plan,
    moments: Mapping[int, Moments],
    readings: Mapping[Egress, Readings],
    resent: Sequence[int],
    of_trees: Mapping[Egress, TreeLoad] = MappingProxyType({}),
) -> Iterator[Window]:
    """Every phase on every link whose port was read, of one repeat.

    `moments` are by number of the send, then of the aggregation; `resent[r]` are the segments that rank r's
    TCP sent again, `of_trees` says what trees may have put on links more than once.
    """
    passing: defaultdict[Egress, list[_Passing]] = defaultdict(list)
    for number, (key, nbytes, links) in enumerate(_passings(plan)):
        for egress in links:
            if nbytes and egress in readings:
                passing[egress].append(_Passing(key, nbytes, moments[number]))
    spare = _spare_nbytes(plan, resent)
    for egress, some in passing.items():
        of_tree = of_trees.get(egress, TreeLoad())
        yield from _windows(egress, some, readings[egress], spare.get(egress, 0) + of_tree.spare_nbytes)


def _spare_nbytes(plan: Plan, resent: Sequence[int]) -> dict[Egress, int]:
    """What TCP may put on each link besides the payload, once: a window may have all that there is."""
    segment_nbytes = tcp_payload_nbytes(plan.fabric.mtu_nbytes)
    segments = [-(-nbytes // segment_nbytes) for nbytes in payload_nbytes(plan)]
    framing, number = framing_nbytes(plan), flow_numbers(plan.flows)
    users: defaultdict[Egress, list[int]] = defaultdict(list)
    for one, flow in enumerate(plan.flows):
        for egress in flow.path:
            users[egress].append(one)
    spare = {}
    for egress, using in users.items():
        flows = [plan.flows[one] for one in using]
        other_way = [number[flow.dst, flow.src] for flow in flows if (flow.dst, flow.src) in number]
        packets = sum(segments[one] for one in (*using, *other_way))  # data, and what acknowledges it
        spare[egress] = sum(framing[one] for one in using) + again_nbytes(plan, flows, packets, resent)
    return spare


def _passings(plan: Plan) -> Iterator[tuple[PhaseKey, int, Sequence[Egress]]]:
    """Every send, then every aggregation: its phase, its bytes, and the links that it takes."""
    schedule = plan.schedule
    number = flow_numbers(plan.flows)
    keys = iter(phase_keys(schedule))
    sends = schedule.sends
    for src, dst, nbytes in zip(sends.src.tolist(), sends.dst.tolist(), sends.nbytes.tolist(), strict=True):
        yield next(keys), nbytes, plan.flows[number[src, dst]].path
    of_trees = trees_of(schedule, plan.trees)
    for each, (_, tree), key in zip(schedule.aggregations, of_trees, keys, strict=True):
        yield key, schedule.ops[each.op].nbytes, tree_links(plan.fabric, tree)


def _windows(egress: Egress, passing: Sequence[_Passing], readings: Readings, spare: int) -> Iterator[Window]:
    """What had been queued before, and what had arrived by, the readings round each phase.

    A reading's time is taken before the counters are read: it is over by the time of the next one.
    """
    queued = _Sums([(one.moments.queued_ns, one.nbytes) for one in passing])
    arrived = _Sums([(one.moments.arrived_ns, one.nbytes) for one in passing])
    times, last = readings.times_ns, len(readings.times_ns) - 1
    by_phase: defaultdict[PhaseKey, list[_Passing]] = defaultdict(list)
    for one in passing:
        by_phase[one.key].append(one)
    for key, of_phase in by_phase.items():
        begin = max(0, bisect_right(times, min(one.moments.queued_ns for one in of_phase)) - 2)
        end = min(last, bisect_left(times, max(one.moments.arrived_ns for one in of_phase)))
        over_ns = times[end + 1] if end < last else float("inf")
        yield Window(
            key=key,
            egress=egress,
            planned_nbytes=sum(one.nbytes for one in of_phase),
            counted_nbytes=readings.nbytes[end] - readings.nbytes[begin],
            least_nbytes=max(0, arrived.until(times[end]) - queued.until(times[min(last, begin + 1)])),
            most_nbytes=queued.until(over_ns) - arrived.until(times[begin]) + spare,
        )


class _Sums:
    """Bytes over time: `until(t)` is the sum of those whose moment is not after t."""

    def __init__(self, moments: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(moments)
        self._times = [time_ns for time_ns, _ in ordered]
        self._sums = [0, *accumulate(nbytes for _, nbytes in ordered)]

    def until(self, time_ns: float) -> int:
        return self._sums[bisect_right(self._times, time_ns)]
