"""The load that a plan puts on every link: in total, by phase, and by flow where flows collide.

Phases are those of planning.model.phases.  A tree that adds up counts among the flows of each of its links.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradwire.planning.fabrics.fabric import HOST_PORT, Egress, Fabric
from gradwire.planning.model.addedup import as_tcp_nbytes, tree_links
from gradwire.planning.model.bounds import Cuts, phase_bound_s
from gradwire.planning.model.phases import Pair, PhaseKey, Sizes, same_phases, sizes_by_phase
from gradwire.planning.plan import Plan, flow_numbers
from gradwire.planning.transport import payload_efficiency

SLACK = 1 + 1e-9  # what rounding may add to a time
LEAST_EXCESS = 0.01  # of the phases' time: a link that adds less does not matter


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """What one direction of a cable carries; `nbytes` is payload.

    `as_tcp_nbytes` is what it would be if trees' frames held as much as TCP's, `busy_s` the time that these
    need in full frames.  `together` is the largest number of flows that use it in one phase.  `excess_s` is
    what it adds to the phases: how much longer it is busy in them than the busiest host link, summed.
    `worst_share` is the largest of its busy time in a phase over that of the busiest host link: 2.0 where two
    flows must share what each could fill alone.
    """

    egress: Egress
    rate_bps: int
    nbytes: int
    as_tcp_nbytes: float
    busy_s: float
    n_flows: int
    together: int
    excess_s: float
    worst_share: float


@dataclass(frozen=True, slots=True)
class Carried:
    """What one direction of a cable carries in a phase; see `LinkLoad` for `nbytes` and `as_tcp_nbytes`.

    `flows` are numbers of the plan's flows, those with the most bytes first, `trees` of its trees; `n_flows`
    counts both.  `share` is its busy time over that of the busiest host link.
    """

    egress: Egress
    nbytes: int
    as_tcp_nbytes: float
    flows: tuple[int, ...]
    trees: tuple[int, ...]
    busy_s: float
    share: float

    @property
    def n_flows(self) -> int:
        return len(self.flows) + len(self.trees)


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: `least_s` is the time its busiest link needs, `host_s` that of its busiest host link.

    `bound_s`: no routing can make `least_s` shorter; see `planning.model.bounds` for what is known of that.
    """

    key: PhaseKey
    worst: Egress
    n_flows: int
    nbytes: int
    least_s: float
    host_s: float
    bound_s: float


@dataclass(frozen=True, slots=True)
class PhaseLoad:
    """All phases (`keys`) in which the same flows send the same bytes; `phase` is the first of them.

    `links` are those that carry anything, the busiest first; `host` is the busiest host link among them.
    `collisions` are links between switches that are busier than any host link, so that the phase waits
    for flows that meet there.  `n_flows` are the flows that send and the trees that add up, `nbytes` what
    these take in.
    """

    phase: Phase
    keys: tuple[PhaseKey, ...]
    links: tuple[Carried, ...]
    host: Carried
    collisions: tuple[Carried, ...]
    n_flows: int
    nbytes: int

    @property
    def worst(self) -> Carried:
        return self.links[0]

    @property
    def excess_s(self) -> float:
        """How much longer these phases take in all than the hosts' links need."""
        return len(self.keys) * max(0.0, self.phase.least_s - self.phase.host_s)


@dataclass(frozen=True)
class PlanLoad:
    """`bounded_s`: no order of the sends can take less on these paths.

    `barrier_s` is the time if every phase waited for the one before; `barrier_bound_s` is the least that
    any routing could make of it.  `n_collisions` counts the phases in which a link between switches is the
    bottleneck.  `parts` are the different phases, in the order in which they first come.
    """

    loads: Mapping[Egress, LinkLoad]
    phases: tuple[Phase, ...]
    parts: tuple[PhaseLoad, ...]
    worst: LinkLoad
    bounded_s: float
    barrier_s: float
    barrier_bound_s: float
    n_collisions: int


def busy_s(fabric: Fabric, egress: Egress, nbytes: float) -> float:
    """The time of this many bytes of payload on a link, at the goodput of TCP in full frames."""
    return nbytes * 8 / (fabric.rates[egress] * payload_efficiency(fabric.mtu_nbytes))


def plan_load(plan: Plan) -> PlanLoad:
    """What a plan puts on its links, in all and phase by phase.  Raise ValueError if it sends nothing."""
    sizes = sizes_by_phase(plan.schedule)
    if not sizes:
        raise ValueError("the plan sends nothing, so there is nothing to audit")
    cuts, number = Cuts(plan.fabric), flow_numbers(plan.flows)
    parts = []
    for keys in same_phases(sizes):
        one = sizes[keys[0]]
        bound_s = phase_bound_s(cuts, plan.placement, one.pairs)
        parts.append(_part(plan, sorted(keys), one, bound_s, number))
    parts.sort(key=lambda part: part.keys)
    phases = sorted(
        (replace(part.phase, key=key) for part in parts for key in part.keys), key=lambda phase: phase.key
    )
    loads = _link_loads(plan.fabric, parts)
    return PlanLoad(
        loads=loads,
        phases=tuple(phases),
        parts=tuple(parts),
        worst=worst_link(loads),
        bounded_s=max(load.busy_s for load in loads.values()),
        barrier_s=sum(phase.least_s for phase in phases),
        barrier_bound_s=sum(phase.bound_s for phase in phases),
        n_collisions=sum(phase.least_s > phase.host_s * SLACK for phase in phases),
    )


def worst_link(loads: Mapping[Egress, LinkLoad]) -> LinkLoad:
    """The link that adds most to what the hosts' own links take; if none does, the busiest.

    Bytes alone would name a host link: a link between switches may carry less than a host's in all and
    still be what two flows must share while the others wait.  Among equals it is the first in cabling
    order.
    """
    return by_severity(loads)[0]


def by_severity(loads: Mapping[Egress, LinkLoad]) -> list[LinkLoad]:
    """The worst link first, see `worst_link`."""
    return sorted(
        loads.values(), key=lambda load: (-round(load.excess_s, 9), -round(load.busy_s, 9), -load.together)
    )


def worst_link_matters(fabric: Fabric, load: PlanLoad) -> bool:
    """Whether the worst link joins two switches, and phases wait for it for more than LEAST_EXCESS of all."""
    worst = load.worst
    return not is_host_link(fabric, worst.egress) and worst.excess_s > LEAST_EXCESS * load.barrier_s


def slowest(phases: Sequence[PhaseLoad]) -> int:
    """The position of the phase that adds most to what the hosts' links take; if none does, the longest."""
    return max(
        range(len(phases)),
        key=lambda i: (round(phases[i].excess_s, 9), round(phases[i].phase.least_s, 9), -i),
    )


def worst_shares(phases: Sequence[PhaseLoad]) -> dict[Egress, float]:
    """Of each link its largest share over the phases."""
    shares: defaultdict[Egress, float] = defaultdict(float)
    for one in phases:
        for link in one.links:
            shares[link.egress] = max(shares[link.egress], link.share)
    return dict(shares)


def is_host_link(fabric: Fabric, egress: Egress) -> bool:
    """Whether one end of the cable is a host."""
    return HOST_PORT in (egress.port, fabric.peers[egress].port)


def _part(
    plan: Plan, keys: Sequence[PhaseKey], sizes: Sizes, bound_s: float, number: Mapping[Pair, int]
) -> PhaseLoad:
    """`bound_s` is that of the phase's flows: trees take their hosts' links, wherever else they go.

    `number` is the flow of each pair of ranks.
    """
    links = _links(plan, sizes, number)
    at_hosts = [link for link in links if is_host_link(plan.fabric, link.egress)]
    worst = max(links, key=lambda link: (link.busy_s, link.n_flows))
    host_s = max(link.busy_s for link in at_hosts)
    in_trees = [link.busy_s for link in at_hosts if link.trees]
    phase = Phase(
        key=keys[0],
        worst=worst.egress,
        n_flows=worst.n_flows,
        nbytes=worst.nbytes,
        least_s=worst.busy_s,
        host_s=host_s,
        bound_s=max(bound_s, *in_trees) if in_trees else bound_s,
    )
    links.sort(key=lambda link: (-round(link.busy_s, 9), -link.n_flows))
    added = sum(size * len(plan.trees[tree_index].givers) for tree_index, size in sizes.groups.items())
    return PhaseLoad(
        phase=phase,
        keys=tuple(keys),
        links=tuple(links),
        host=next(link for link in links if is_host_link(plan.fabric, link.egress)),
        collisions=tuple(link for link in links if link.busy_s > host_s * SLACK),
        n_flows=len(sizes.pairs) + len(sizes.groups),
        nbytes=sum(sizes.pairs.values()) + added,
    )


def _links(plan: Plan, sizes: Sizes, number: Mapping[Pair, int]) -> list[Carried]:
    """What every link carries in a phase, in cabling order; links without a flow or tree are left out."""
    fabric = plan.fabric
    nbytes: defaultdict[Egress, int] = defaultdict(int)
    as_tcp: defaultdict[Egress, float] = defaultdict(float)
    flows: defaultdict[Egress, list[int]] = defaultdict(list)
    trees: defaultdict[Egress, list[int]] = defaultdict(list)
    of_flows = ((number[pair], size) for pair, size in sizes.pairs.items())
    for flow, size in sorted(of_flows, key=lambda one: (-one[1], one[0])):
        for egress in plan.flows[flow].path:
            nbytes[egress] += size
            as_tcp[egress] += size
            flows[egress].append(flow)
    eta = payload_efficiency(fabric.mtu_nbytes)
    for tree_index, size in sizes.groups.items():
        tree = plan.trees[tree_index]
        for egress in tree_links(fabric, tree):
            nbytes[egress] += size
            as_tcp[egress] += as_tcp_nbytes(size, tree, eta)
            trees[egress].append(tree_index)
    times_s = {egress: busy_s(fabric, egress, as_tcp[egress]) for egress in fabric.rates if egress in nbytes}
    host_s = max(time_s for egress, time_s in times_s.items() if is_host_link(fabric, egress))
    return [
        Carried(
            egress=egress,
            nbytes=nbytes[egress],
            as_tcp_nbytes=as_tcp[egress],
            flows=tuple(flows[egress]),
            trees=tuple(trees[egress]),
            busy_s=time_s,
            share=time_s / host_s if host_s else 0.0,
        )
        for egress, time_s in times_s.items()
    ]


def _link_loads(fabric: Fabric, parts: Sequence[PhaseLoad]) -> dict[Egress, LinkLoad]:
    used: defaultdict[Egress, list[tuple[PhaseLoad, Carried]]] = defaultdict(list)
    for part in parts:
        for link in part.links:
            used[link.egress].append((part, link))
    return {egress: _link_load(fabric, egress, used[egress]) for egress in fabric.rates if egress in used}


def _link_load(fabric: Fabric, egress: Egress, used: Sequence[tuple[PhaseLoad, Carried]]) -> LinkLoad:
    times = [(len(part.keys), link.busy_s, part.phase.host_s) for part, link in used]
    flows = frozenset().union(*(link.flows for _, link in used))
    trees = frozenset().union(*(link.trees for _, link in used))
    return LinkLoad(
        egress=egress,
        rate_bps=fabric.rates[egress],
        nbytes=sum(len(part.keys) * link.nbytes for part, link in used),
        as_tcp_nbytes=sum(len(part.keys) * link.as_tcp_nbytes for part, link in used),
        busy_s=sum(n * busy for n, busy, _ in times),
        n_flows=len(flows) + len(trees),
        together=max(link.n_flows for _, link in used),
        excess_s=sum(n * max(0.0, busy - host) for n, busy, host in times),
        worst_share=max(link.share for _, link in used),
    )
