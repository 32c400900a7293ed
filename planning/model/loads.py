"""What a plan puts on every link, in all and phase by phase (see planning.model.phases).

A tree that adds up counts among the flows of each of its links.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planning.fabrics.fabric import HOST_PORT, Egress, Fabric
from planning.model.addedup import as_tcp_nbytes, tree_links
from planning.model.bounds import Cuts, phase_bound_s
from planning.model.phases import PhaseKey, Sizes, same_phases, sizes_by_phase
from planning.plan import Plan, flow_numbers
from planning.transport import payload_efficiency

SLACK = 1 + 1e-9  # what rounding may add to a time


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """What one direction of a cable carries; `nbytes` is payload.

    `as_tcp_nbytes` is what it would be if trees' frames held as much as TCP's, `busy_s` the time that these
    need in full frames.  `together` is the largest
    number of flows that use it in one phase.  `excess_s` is what it adds to
    the phases: how much longer it is busy in them than the busiest host link, summed.  `worst_share` is
    the largest of its busy time in a phase over that of the busiest host link: 2.0 where two flows must
    share what each could fill alone.
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


@dataclass(frozen=True)
class Audit:
    """`bounded_s`: no order of the sends can take less on these paths.

    `barrier_s` is the time if every phase waited for the one before; `barrier_bound_s` is the least that
    any routing could make of it.  `n_collisions` counts the phases in which a link between switches is the
    bottleneck.
    """

    loads: Mapping[Egress, LinkLoad]
    phases: tuple[Phase, ...]
    worst: LinkLoad
    bounded_s: float
    barrier_s: float
    barrier_bound_s: float
    n_collisions: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a link carries in one phase; `flows` are numbers of the plan's flows, those with the most bytes
    first, `trees` of its trees.  `nbytes` is payload; see `LinkLoad` for `as_tcp_nbytes`.
    """

    nbytes: int
    as_tcp_nbytes: float
    flows: tuple[int, ...]
    trees: tuple[int, ...] = ()

    @property
    def n_flows(self) -> int:
        return len(self.flows) + len(self.trees)


def busy_s(fabric: Fabric, egress: Egress, nbytes: float) -> float:
    """The time of so many bytes of payload on a link, at the goodput of TCP in full frames."""
    return nbytes * 8 / (fabric.rates[egress] * payload_efficiency(fabric.mtu_nbytes))


def audit(plan: Plan) -> Audit:
    """Raise ValueError for a plan that sends nothing."""
    fabric = plan.fabric
    sizes = sizes_by_phase(plan.schedule)
    if not sizes:
        raise ValueError("the plan sends nothing, so there is nothing to audit")
    uses: dict[PhaseKey, dict[Egress, Use]] = {}
    cuts = Cuts(fabric)
    phases: list[Phase] = []
    for keys in same_phases(sizes):
        links = link_uses(plan, sizes[keys[0]])
        bound_s = phase_bound_s(cuts, plan.placement, sizes[keys[0]].pairs)
        phase = _phase(fabric, keys[0], links, bound_s)
        phases += [replace(phase, key=key) for key in keys]
        uses |= dict.fromkeys(keys, links)
    loads = _link_loads(fabric, uses, {phase.key: phase.host_s for phase in phases})
    return Audit(
        loads=loads,
        phases=tuple(sorted(phases, key=lambda phase: phase.key)),
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


def link_uses(plan: Plan, sizes: Sizes) -> dict[Egress, Use]:
    """What every link carries in a phase; links without a flow or tree are left out."""
    number = flow_numbers(plan.flows)
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
    eta = payload_efficiency(plan.fabric.mtu_nbytes)
    for group, size in sizes.groups.items():
        tree = plan.trees[group]
        for egress in tree_links(plan.fabric, tree):
            nbytes[egress] += size
            as_tcp[egress] += as_tcp_nbytes(size, tree, eta)
            trees[egress].append(group)
    return {
        egress: Use(nbytes[egress], as_tcp[egress], tuple(flows[egress]), tuple(trees[egress]))
        for egress in plan.fabric.rates
        if egress in nbytes
    }


def _phase(fabric: Fabric, key: PhaseKey, links: Mapping[Egress, Use], bound_s: float) -> Phase:
    """`bound_s` is that of the phase's flows: trees take their hosts' links, wherever else they go."""
    times = {egress: busy_s(fabric, egress, use.as_tcp_nbytes) for egress, use in links.items()}
    worst = max(times, key=lambda egress: (times[egress], links[egress].n_flows))
    at_hosts = {egress: seconds for egress, seconds in times.items() if is_host_link(fabric, egress)}
    in_trees = [seconds for egress, seconds in at_hosts.items() if links[egress].trees]
    return Phase(
        key=key,
        worst=worst,
        n_flows=links[worst].n_flows,
        nbytes=links[worst].nbytes,
        least_s=times[worst],
        host_s=max(at_hosts.values()),
        bound_s=max(bound_s, *in_trees) if in_trees else bound_s,
    )


def is_host_link(fabric: Fabric, egress: Egress) -> bool:
    """Whether one end of the cable is a host."""
    return HOST_PORT in (egress.port, fabric.peers[egress].port)


def _link_loads(
    fabric: Fabric, uses: Mapping[PhaseKey, Mapping[Egress, Use]], host_s: Mapping[PhaseKey, float]
) -> dict[Egress, LinkLoad]:
    used: defaultdict[Egress, list[tuple[PhaseKey, Use]]] = defaultdict(list)
    for key, links in uses.items():
        for egress, use in links.items():
            used[egress].append((key, use))
    return {
        egress: _link_load(fabric, egress, used[egress], host_s) for egress in fabric.rates if egress in used
    }


def _link_load(
    fabric: Fabric, egress: Egress, used: Sequence[tuple[PhaseKey, Use]], host_s: Mapping[PhaseKey, float]
) -> LinkLoad:
    times = [(busy_s(fabric, egress, use.as_tcp_nbytes), host_s[key]) for key, use in used]
    flows = frozenset().union(*(use.flows for _, use in used))
    trees = frozenset().union(*(use.trees for _, use in used))
    return LinkLoad(
        egress=egress,
        rate_bps=fabric.rates[egress],
        nbytes=sum(use.nbytes for _, use in used),
        as_tcp_nbytes=sum(use.as_tcp_nbytes for _, use in used),
        busy_s=sum(busy for busy, _ in times),
        n_flows=len(flows) + len(trees),
        together=max(use.n_flows for _, use in used),
        excess_s=sum(max(0.0, busy - host) for busy, host in times),
        worst_share=max(busy / host if host else 0.0 for busy, host in times),
    )
