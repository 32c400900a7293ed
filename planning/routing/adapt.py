"""Adaptive routing: moves large flows that share a link to other shortest paths.

Hedera (Al-Fares et al., NSDI 2010): what a large flow would take if only the hosts' links limited it
(its natural demand) is estimated from who sends to whom, and large flows are placed where they have room.
Unlike there, a flow on links that have room for it stays where it is, and one is moved only if that
clearly helps: every move may reorder packets.  Hedera's global first fit moves one flow at a time, and stops
where all other paths of a flow are full as well; here a flow may push others aside, and where that does
not help either all of them are spread again by edge colouring.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gradwire.planning.fabrics.fabric import Egress, Link
from gradwire.planning.model.fairshare import max_min_rates
from gradwire.planning.plan import Plan
from gradwire.planning.routing.balance import Balance, Demand
from gradwire.planning.routing.clos import put_by_colours
from gradwire.planning.routing.links import Links, Way
from gradwire.planning.routing.relief import DEEPEST, MOST_MOVES_AT_ONCE, Relief
from gradwire.planning.routing.reroute import without
from gradwire.planning.transport import payload_efficiency

ELEPHANT_SHARE = 0.10  # of its source's link: a flow that is measured at less stays (section 5 there)
TOLERANCE = 0.10  # a link is too full with so much more than it carries; a move must gain as much
MOST_MOVES = 6_000  # tried at one look: about 0.2 s
STEP = 0.5  # of a link's rate, between the loads that are tried where no path has room


def rebalanced(
    plan: Plan,
    rate_bps: Mapping[int, float],
    link_bps: Mapping[Egress, float] | None = None,
    down: Collection[Link] = (),
) -> Plan:
    """The plan with other paths for some of the large flows on links that are too full; itself if for none.

    `rate_bps` is what was measured of each flow, by its index in `plan.flows`, and `link_bps` of each
    link, if known: what the flows do not explain counts as traffic that cannot be moved.  Cables in
    `down` are not used.  A flow whose links have room for it is moved only to make room for others.
    """
    links = Links(without(plan.fabric, down), plan.placement, plan.flows)
    elephants = [
        number
        for number, bps in sorted(rate_bps.items())
        if bps >= ELEPHANT_SHARE * plan.fabric.rates[plan.flows[number].path[0]] and links.ways(number)
    ]
    demand_bps = demands(plan, elephants)
    eta = payload_efficiency(plan.fabric.mtu_nbytes)
    in_a_second = {number: round(bps * eta / 8) for number, bps in demand_bps.items()}
    asked = Demand(job=0, nbytes=in_a_second, bound_s=1.0)  # so a link's time is the share of its rate
    others_bps = _unmovable(plan, demand_bps, rate_bps, link_bps or {})
    balance = Balance(links, [asked], _others_s(plan, links, others_bps))
    before = {number: links.way(plan.flows[number].path) for number in elephants}
    for number, way in before.items():
        balance.put(number, way)
    moved = {number: way for number, way in _relieved(balance).items() if way != before[number]}
    if not moved:
        return plan
    flows = tuple(
        replace(flow, path=links.path(number, moved[number])) if number in moved else flow
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


def _unmovable(
    plan: Plan,
    demand_bps: Mapping[int, float],
    rate_bps: Mapping[int, float],
    link_bps: Mapping[Egress, float],
) -> dict[Egress, float]:
    """The load of mice, and of what no flow explains if it is more than counters read at different times
    differ by.
    """
    mice: defaultdict[Egress, float] = defaultdict(float)
    known: defaultdict[Egress, float] = defaultdict(float)
    for number, bps in rate_bps.items():
        for egress in plan.flows[number].path:
            known[egress] += bps
            if number not in demand_bps:
                mice[egress] += bps
    for egress, bps in link_bps.items():
        if bps - known[egress] > TOLERANCE * plan.fabric.rates[egress]:
            mice[egress] += bps - known[egress]
    return mice


def _others_s(plan: Plan, links: Links, others_bps: Mapping[Egress, float]) -> dict[int, float]:
    """By the number of a link between switches."""
    return {
        link: bps / plan.fabric.rates[egress]
        for egress, bps in others_bps.items()
        for link in links.way([egress])
    }


def _relieved(start: Balance) -> Mapping[int, Way]:
    """The ways of all elephants, as few links too full as is found."""
    _relieve(start)
    left = _too_full(start)
    if not left:
        return start.ways
    other = Balance(start.links, start.demands, start.given_s)
    put_by_colours(other, start.links.fabric, 0)
    _relieve(other)
    gained = start.busy_s(0, left[0]) - other.worst(0)[0]
    return other.ways if gained >= TOLERANCE else start.ways


def _relieve(balance: Balance) -> None:
    """Relieve the links that are too full, the fullest first, until no more of them can be, or enough was
    tried.
    """
    left = MOST_MOVES
    hopeless: set[int] = set()
    while full := [link for link in _too_full(balance) if link not in hopeless]:
        n_tried, is_relieved = _relieve_link(balance, full[0], left)
        left -= n_tried
        if not is_relieved:
            hopeless.add(full[0])


def _too_full(balance: Balance) -> list[int]:
    """The links that elephants use and that are asked for too much, the fullest first."""
    used = [link for link in balance.used(0) if balance.busy_s(0, link) > 1 + TOLERANCE]
    return sorted(used, key=lambda link: (-balance.busy_s(0, link), link))


def _relieve_link(balance: Balance, link: int, most_moves: int) -> tuple[int, bool]:
    """Move a flow off a link, and as few others as that takes: to where there is room, or else to where all
    links that get more are as far below this one as can be.  How many moves were tried, and with success?
    """
    n_tried = 0
    for limit in _limits(balance.busy_s(0, link)):
        for depth in range(DEEPEST + 1):
            relief = Relief(balance, {0: limit}, None, min(most_moves - n_tried, MOST_MOVES_AT_ONCE))
            is_relieved = relief.relieve(0, link, depth)
            n_tried += relief.tried
            if is_relieved:
                return n_tried, True
    return n_tried, False


def _limits(share: float) -> list[float]:
    """What this link and those that get more may be asked for: the least first, the last just better."""
    most = max(1 + TOLERANCE, share - TOLERANCE)
    n_steps = int((most - 1 - TOLERANCE) / STEP)
    return [*(1 + TOLERANCE + step * STEP for step in range(n_steps + 1)), most]
