"""How long the iterations of a schedule take, from start to start, and how much communication is exposed.

The same for a replay, from its agents' events, and for a plan, from the model's times.  A rank starts an
iteration when it begins to compute in it or when its first data of it leave, whichever comes first; what it
computes at the very end closes its last one.  Iterations that do not send what most do (DDP's first, before
it makes its buckets) are left out.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from gradwire.traces.iterationtimes import iteration_times_s
from gradwire.traces.schedules.schedule import Schedule

Times = Mapping[tuple[int, int], tuple[int, int]]
"""In ns, by operation and rank: when its first data left there, or its computing began; and its computing's
end.
"""


@dataclass(frozen=True, slots=True)
class Period:
    """One iteration: the mean over the job's ranks of its time, and of the part in which a rank does not
    compute: it communicates, or waits for those that compute longer.
    """

    iteration: int
    time_s: float
    exposed_s: float


def periods(schedule: Schedule, times: Times) -> tuple[Period, ...]:
    """Of the schedule's first job, in order; none if it has a single iteration that nothing closes."""
    ranks = schedule.jobs[0] if schedule.jobs else ()
    starts = _starts(schedule, times, frozenset(ranks))
    usual = _usual(schedule, ranks)
    computing = _computing(schedule, times)
    found = []
    for iteration in sorted(usual):
        both = {
            rank: {0: of_rank[iteration], 1: of_rank[iteration + 1]}
            for rank, of_rank in starts.items()
            if iteration in of_rank and iteration + 1 in of_rank
        }
        if len(both) < len(starts) or not both or min(each[1] - each[0] for each in both.values()) <= 0:
            continue
        (time_s,) = iteration_times_s(both, 0)
        hidden_s = fmean(
            (busy.until_ns(each[1]) - busy.until_ns(each[0])) / 1e9
            for busy, each in ((computing.get(rank, IDLE), each) for rank, each in both.items())
        )
        found.append(Period(iteration, time_s, max(0.0, time_s - hidden_s)))
    return tuple(found)


def _starts(schedule: Schedule, times: Times, ranks: frozenset[int]) -> dict[int, dict[int, int]]:
    """By rank and iteration; after the last one of a rank that closes it by computing, when that ended."""
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (op, rank), (begin_ns, _) in times.items():
        made = schedule.ops[op]
        if rank in ranks and made.iteration >= 0:
            of_rank = found[rank]
            of_rank[made.iteration] = min(of_rank.get(made.iteration, begin_ns), begin_ns)
    last = {rank: max(of_rank) for rank, of_rank in found.items()}
    waited_for = {(other, gate.rank) for gate in schedule.gates for other in gate.after}
    for (op, rank), (_, end_ns) in times.items():
        made = schedule.ops[op]
        is_last = made.kind == "compute" and made.iteration == last.get(rank)
        if is_last and (op, rank) not in waited_for:
            found[rank][made.iteration + 1] = max(end_ns, found[rank].get(made.iteration + 1, end_ns))
    return dict(found)


def _usual(schedule: Schedule, ranks: Sequence[int]) -> set[int]:
    """The iterations that send what most do."""
    sizes: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for op, members in zip(schedule.ops, schedule.members, strict=True):
        if op.iteration >= 0 and members and members[0] in ranks:
            sizes[op.iteration].append((op.kind, op.nbytes))
    shapes = {iteration: tuple(sorted(some)) for iteration, some in sizes.items()}
    most = Counter(shapes.values()).most_common(1)
    return {iteration for iteration, shape in shapes.items() if shape == most[0][0]}


def _computing(schedule: Schedule, times: Times) -> dict[int, "_Busy"]:
    """By rank."""
    spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (op, rank), span in times.items():
        if schedule.ops[op].kind == "compute":
            spans[rank].append(span)
    return {rank: _busy(list(_joined(sorted(some)))) for rank, some in spans.items()}


def _busy(spans: Sequence[tuple[int, int]]) -> "_Busy":
    lengths = accumulate((end_ns - begin_ns for begin_ns, end_ns in spans), initial=0)
    return _Busy([begin for begin, _ in spans], [end for _, end in spans], list(lengths))


def _joined(spans: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    begin_ns, end_ns = spans[0]
    for next_begin_ns, next_end_ns in spans[1:]:
        if next_begin_ns > end_ns:
            yield begin_ns, end_ns
            begin_ns = next_begin_ns
        end_ns = max(end_ns, next_end_ns)
    yield begin_ns, end_ns


@dataclass(frozen=True, slots=True)
class _Busy:
    """When a rank computed, in disjoint spans; `before_ns` is how long before each of them."""

    begins_ns: list[int]
    ends_ns: list[int]
    before_ns: list[int]

    def until_ns(self, when_ns: int) -> int:
        """How long it had computed by then."""
        number = bisect_right(self.begins_ns, when_ns) - 1
        if number < 0:
            return 0
        return self.before_ns[number] + min(when_ns, self.ends_ns[number]) - self.begins_ns[number]


IDLE = _Busy([], [], [])
