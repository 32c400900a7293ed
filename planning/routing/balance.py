"""The load of a schedule on the links of a fabric, phase by phase: where flows are, when links are busy."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.model.bounds import Cuts, phase_bound_s
from gradwire.planning.model.phases import Pair, by_job, nbytes_by_phase
from gradwire.planning.plan import Flow, flow_numbers
from gradwire.planning.routing.links import Links, Way
from gradwire.traces.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Demand:
    """All phases of one job in which the same flows send: flow -> bytes, in all of these phases together.

    `bound_s`: no routing can carry them in less.
    """

    job: int
    nbytes: Mapping[int, int]
    bound_s: float


class Balance:
    """Flows on their ways, and what that means for one job at a time.

    The phases of two jobs may fall together in any way, so to a phase of one job counts on every link
    what the busiest phase of each other job may bring there: `look_at` works that out again.  `given_s` is
    how long each link is busy in every phase with what no flow here sends.
    """

    def __init__(
        self, links: Links, demands: Sequence[Demand], given_s: Mapping[int, float] = MappingProxyType({})
    ) -> None:
        self.links = links
        self.demands = demands
        self.ways: dict[int, Way] = {}
        self.sends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """flow -> (phase, bytes)"""
        for phase, demand in enumerate(demands):
            for flow, nbytes in demand.nbytes.items():
                self.sends[flow].append((phase, nbytes))
        self._nbytes: list[defaultdict[int, int]] = [defaultdict(int) for _ in demands]
        self._users: list[defaultdict[int, dict[int, None]]] = [defaultdict(dict) for _ in demands]
        self.given_s = given_s
        self._others_s: defaultdict[int, float] = defaultdict(float, given_s)

    @property
    def jobs(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(demand.job for demand in self.demands))

    def phases(self, job: int) -> list[int]:
        return [phase for phase, demand in enumerate(self.demands) if demand.job == job]

    def put(self, flow: int, way: Way) -> None:
        """Let a flow take a way, and leave the one that it had."""
        for phase, nbytes in self.sends[flow]:
            carried, users = self._nbytes[phase], self._users[phase]
            for link in self.ways.get(flow, ()):
                carried[link] -= nbytes
                del users[link][flow]
            for link in way:
                carried[link] += nbytes
                users[link][flow] = None
        self.ways[flow] = way

    def put_greedily(self, flows: Iterable[int]) -> None:
        """Put each flow, the largest first, where the busiest of its links is then least busy."""
        left = sorted(flows, key=lambda flow: -sum(nbytes for _, nbytes in self.sends[flow]))
        for job in self.jobs:
            self.look_at(job)
            for flow in left:
                ways = self.links.ways(flow)
                if ways and self.demands[self.sends[flow][0][0]].job == job:
                    self.put(flow, min(ways, key=lambda way: self._cost_s(flow, way)))

    def users(self, phase: int, link: int) -> tuple[int, ...]:
        """The flows that send over a link in a phase."""
        return tuple(self._users[phase][link])

    def busy_s(self, phase: int, link: int) -> float:
        """What the link needs in the phase, with what other jobs may bring."""
        return self._nbytes[phase].get(link, 0) * self.links.s_per_byte[link] + self._others_s[link]

    def worst(self, phase: int) -> tuple[float, int]:
        """(time, link) of the busiest link between switches that the phase uses; (0, -1) if it uses none."""
        return max(((self.busy_s(phase, link), link) for link in self.used(phase)), default=(0.0, -1))

    def used(self, phase: int) -> list[int]:
        """The links between switches that the phase uses."""
        return [link for link, nbytes in self._nbytes[phase].items() if nbytes]

    def least_s(self, phase: int) -> float:
        """The time of the phase, which its bound may decide."""
        return max(self.worst(phase)[0], self.demands[phase].bound_s)

    def total_s(self) -> float:
        """The time if every phase waited for the one before it."""
        total_s = 0.0
        for job in self.jobs:
            self.look_at(job)
            total_s += sum(self.least_s(phase) for phase in self.phases(job))
        return total_s

    def look_at(self, job: int) -> None:
        """Count for this job what the others may bring to each link at a time."""
        peaks: defaultdict[tuple[int, int], int] = defaultdict(int)
        for demand, carried in zip(self.demands, self._nbytes, strict=True):
            if demand.job != job:
                for link, nbytes in carried.items():
                    peaks[demand.job, link] = max(peaks[demand.job, link], nbytes)
        self._others_s = defaultdict(float, self.given_s)
        for (_, link), nbytes in peaks.items():
            self._others_s[link] += nbytes * self.links.s_per_byte[link]

    def _cost_s(self, flow: int, way: Way) -> tuple[float, float]:
        """How far the busiest link would be above its phase's bound, and all the links' times."""
        worst_s, sum_s = 0.0, 0.0
        for phase, nbytes in self.sends[flow]:
            bound_s = self.demands[phase].bound_s
            for link in way:
                busy_s = self.busy_s(phase, link) + nbytes * self.links.s_per_byte[link]
                worst_s = max(worst_s, busy_s - bound_s) if sum_s else busy_s - bound_s
                sum_s += busy_s
        return worst_s, sum_s


def demands(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule
) -> tuple[Demand, ...]:
    """The demands, that which takes longest first; none for a schedule that sends nothing.

    Jobs of one phase each, such as two rings, always fall together: they are one job here.
    """
    number = flow_numbers(flows)
    totals = _totals(schedule)
    cuts = Cuts(fabric)
    unordered = [
        Demand(
            job=job,
            nbytes={number[pair]: sizes[pair] for pair in sorted(sizes)},
            bound_s=phase_bound_s(cuts, placement, sizes),
        )
        for (job, _), sizes in totals.items()
    ]
    return tuple(sorted(unordered, key=lambda demand: -demand.bound_s))


def _totals(schedule: Schedule) -> dict[tuple[int, frozenset[Pair]], Counter[Pair]]:
    """(job, pairs that send in the same phases) -> the bytes of each pair in all of these."""
    totals: defaultdict[tuple[int, frozenset[Pair]], Counter[Pair]] = defaultdict(Counter)
    for (job, _), sizes in by_job(nbytes_by_phase(schedule), schedule.job_of).items():
        totals[job, frozenset(sizes)].update(sizes)
    n_phases = Counter(job for job, _ in totals)
    alone = {job for job, count in n_phases.items() if count == 1}
    merged: Counter[Pair] = Counter()
    for (job, _), sizes in totals.items():
        if job in alone:
            merged.update(sizes)
    kept = {key: sizes for key, sizes in totals.items() if key[0] not in alone}
    return kept | ({(min(alone), frozenset(merged)): merged} if alone else {})
