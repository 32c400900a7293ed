"""Adaptive routing: moves large flows that share a link to other shortest paths.

Hedera (Al-Fares et al., NSDI 2010): what a large flow would take if only the hosts' links limited it
(its natural demand) is estimated from who sends to whom, and large flows are placed by global first fit.
Unlike there, a flow on links that have room for it stays where it is, and one is moved only if that
clearly helps: every move may reorder packets.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gradwire.planning.fabrics.fabric import Egress, Link
from gradwire.planning.model.fairshare import max_min_rates
from gradwire.planning.plan import Plan
from gradwire.planning.routing.links import Alternatives
from gradwire.planning.routing.reroute import without
from gradwire.planning.routing.shortest import Path

ELEPHANT_SHARE = 0.10  # of its source's link: a flow that is measured at less stays (section 5 there)
TOLERANCE = 0.10  # a link is too full with so much more than it carries; a move must gain as much


def rebalanced(
    plan: Plan,
    rate_bps: Mapping[int, float],
    link_bps: Mapping[Egress, float] | None = None,
    down: Collection[Link] = (),
) -> Plan:
    """The plan with other paths for some of the large flows on links that are too full; itself if for none.

    `rate_bps` is what was measured of each flow, by its index in `plan.flows`, and `link_bps` of each
    link, if known: what the flows do not explain counts as traffic that cannot be moved.  Cables in
    `down` are not used.  A flow is moved at most once, and no flow whose links have room for it.
    """
    elephants = [
        number
        for number, bps in sorted(rate_bps.items())
        if bps >= ELEPHANT_SHARE * plan.fabric.rates[plan.flows[number].path[0]]
    ]
    placing = _Placing(plan, demands(plan, elephants), rate_bps, link_bps or {}, down)
    moved = placing.relieved()
    if not moved:
        return plan
    flows = tuple(
        replace(flow, path=moved[number]) if number in moved else flow
        for number, flow in enumerate(plan.flows)
    )
    return replace(plan, flows=flows)


def demands(plan: Plan, elephants: Sequence[int]) -> dict[int, float]:
    """The bit/s of each of these flows if the hosts' links were the only ones, shared max-min fairly.

    What the iteration of Hedera's figure 5 converges to.
    """
    number = {egress: i for i, egress in enumerate(plan.fabric.rates)}
    ends = {flow: (number[plan.flows[flow].path[0]], number[plan.flows[flow].path[-1]]) for flow in elephants}
    return max_min_rates(ends, [float(rate) for rate in plan.fabric.rates.values()])


class _Placing:
    """Loads of all links, as elephants are moved one by one."""

    def __init__(
        self,
        plan: Plan,
        demand_bps: Mapping[int, float],
        rate_bps: Mapping[int, float],
        link_bps: Mapping[Egress, float],
        down: Collection[Link],
    ) -> None:
        self._plan = plan
        self._demand_bps = demand_bps
        self._capacity_bps = plan.fabric.rates
        self._alternatives = Alternatives(without(plan.fabric, down))
        self._paths = {number: plan.flows[number].path for number in demand_bps}
        self._load_bps = self._unmovable(rate_bps, link_bps)
        for number, path in self._paths.items():
            self._add(path, demand_bps[number])

    def relieved(self) -> dict[int, Path]:
        """The new paths of what must be moved."""
        moved: dict[int, Path] = {}
        for link in self._too_full():
            while self._share(link) > 1 + TOLERANCE:
                waiting = [n for n, path in self._paths.items() if link in path and n not in moved]
                choice = self._fitting(waiting) or self._better(waiting)
                if choice is None:
                    break
                number, path = choice
                self._move(number, path)
                moved[number] = path
        return moved

    def _unmovable(
        self, rate_bps: Mapping[int, float], link_bps: Mapping[Egress, float]
    ) -> defaultdict[Egress, float]:
        """The load of mice, and of what no flow explains if it is more than counters read at different times
        differ by.
        """
        mice: defaultdict[Egress, float] = defaultdict(float)
        known: defaultdict[Egress, float] = defaultdict(float)
        for number, bps in rate_bps.items():
            for egress in self._plan.flows[number].path:
                known[egress] += bps
                if number not in self._demand_bps:
                    mice[egress] += bps
        for egress, bps in link_bps.items():
            if bps - known[egress] > TOLERANCE * self._capacity_bps[egress]:
                mice[egress] += bps - known[egress]
        return mice

    def _too_full(self) -> list[Egress]:
        """The fullest first, then in cabling order."""
        full = [egress for egress in self._capacity_bps if self._share(egress) > 1 + TOLERANCE]
        return sorted(full, key=lambda egress: -self._share(egress))

    def _share(self, egress: Egress) -> float:
        return self._load_bps[egress] / self._capacity_bps[egress]

    def _fitting(self, waiting: Sequence[int]) -> tuple[int, Path] | None:
        """The first flow with a path that has room for it, and the first such path."""
        for number in waiting:
            for path, worst in self._elsewhere(number):
                if worst <= 1 + TOLERANCE:
                    return number, path
        return None

    def _better(self, waiting: Sequence[int]) -> tuple[int, Path] | None:
        """Where nothing has room: the move that leaves its flow best off, if that is clearly better."""
        best, least = None, float("inf")
        for number in waiting:
            now = max(map(self._share, self._paths[number]))
            for path, worst in self._elsewhere(number):
                if worst < least and worst <= now - TOLERANCE:
                    best, least = (number, path), worst
        return best

    def _elsewhere(self, number: int) -> Iterator[tuple[Path, float]]:
        """Every other path of a flow, with the share of its fullest link if it went there."""
        current, demand_bps = self._paths[number], self._demand_bps[number]
        flow = self._plan.flows[number]
        hosts = self._plan.placement
        for path in self._alternatives.paths(hosts[flow.src], hosts[flow.dst]):
            if path != current:
                more = {egress: 0.0 if egress in current else demand_bps for egress in path}
                yield (
                    path,
                    max((self._load_bps[end] + bps) / self._capacity_bps[end] for end, bps in more.items()),
                )

    def _move(self, number: int, path: Path) -> None:
        demand_bps = self._demand_bps[number]
        self._add(self._paths[number], -demand_bps)
        self._add(path, demand_bps)
        self._paths[number] = path

    def _add(self, path: Path, bps: float) -> None:
        for egress in path:
            self._load_bps[egress] += bps
