"""A plan's routes looked at phase by phase: what every link carries, and where flows collide.

`planning.model.loads` sums up; this says it link by link and flow by flow.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from planning.fabrics.fabric import Egress, Fabric
from planning.model.loads import SLACK, Audit, Phase, Use, busy_s, is_host_link, link_uses
from planning.model.phases import PhaseKey, Sizes, same_phases, sizes_by_phase
from planning.openflow.rules import Rules, groups_of
from planning.plan import Plan


@dataclass(frozen=True, slots=True)
class Carried:
    """What one direction of a cable carries in a phase; `nbytes` is payload.

    `flows` are numbers of the plan's flows, those with the most bytes first, `trees` of its trees; `n_flows`
    counts both.  `share` is its busy time over that of the busiest host link.
    """

    egress: Egress
    nbytes: int
    flows: tuple[int, ...]
    trees: tuple[int, ...]
    busy_s: float
    share: float

    @property
    def n_flows(self) -> int:
        return len(self.flows) + len(self.trees)


@dataclass(frozen=True, slots=True)
class PhaseAudit:
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


@dataclass(frozen=True, slots=True)
class TableSize:
    """What a switch is told: the rules of its flow table, and the groups that they share."""

    switch: str
    n_rules: int
    n_groups: int


def phase_audits(plan: Plan, audited: Audit) -> tuple[PhaseAudit, ...]:
    """Every different phase once, in the order in which they first come; `audited` is of the same plan."""
    sizes = sizes_by_phase(plan.schedule)
    phases = {phase.key: phase for phase in audited.phases}
    made = [
        _phase_audit(plan, phases[min(keys)], sorted(keys), sizes[keys[0]]) for keys in same_phases(sizes)
    ]
    return tuple(sorted(made, key=lambda one: one.keys))


def slowest(audits: Sequence[PhaseAudit]) -> int:
    """The position of the phase that adds most to what the hosts' links take; if none does, the longest."""
    return max(
        range(len(audits)),
        key=lambda i: (round(audits[i].excess_s, 9), round(audits[i].phase.least_s, 9), -i),
    )


def worst_shares(audits: Sequence[PhaseAudit]) -> dict[Egress, float]:
    """Of each link its largest share over the phases."""
    shares: defaultdict[Egress, float] = defaultdict(float)
    for one in audits:
        for link in one.links:
            shares[link.egress] = max(shares[link.egress], link.share)
    return dict(shares)


def table_sizes(rules: Rules) -> tuple[TableSize, ...]:
    """Of each switch, in their order.  Rules that choose alike among the same ports share a group."""
    return tuple(TableSize(switch, len(own), len(groups_of(own))) for switch, own in rules.items())


def _phase_audit(plan: Plan, phase: Phase, keys: Sequence[PhaseKey], sizes: Sizes) -> PhaseAudit:
    fabric = plan.fabric
    links = [_carried(fabric, egress, use, phase.host_s) for egress, use in link_uses(plan, sizes).items()]
    links.sort(key=lambda link: (-round(link.busy_s, 9), -link.n_flows))
    added = sum(size * len(plan.trees[group].givers) for group, size in sizes.groups.items())
    return PhaseAudit(
        phase=phase,
        keys=tuple(keys),
        links=tuple(links),
        host=next(link for link in links if is_host_link(fabric, link.egress)),
        collisions=tuple(link for link in links if link.busy_s > phase.host_s * SLACK),
        n_flows=len(sizes.pairs) + len(sizes.groups),
        nbytes=sum(sizes.pairs.values()) + added,
    )


def _carried(fabric: Fabric, egress: Egress, use: Use, host_s: float) -> Carried:
    seconds = busy_s(fabric, egress, use.as_tcp_nbytes)
    share = seconds / host_s if host_s else 0.0
    return Carried(egress, use.nbytes, use.flows, use.trees, seconds, share)
