"""Compares a plan with what the switches counted in its run: flow by flow and link by link.

Counters of packets and bytes give TCP's stream to the byte (`planning.model.wire`), and the plan says what
it must be.  No switch on a flow's path can have seen less.  More is possible by what TCP sent again,
which the ranks' kernels counted, and by the options of selective acknowledgements.  What switches add up is
held by `results.audit.treeagreement`; here it is part of what links carry.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gradwire.controller.counters import Counters, WireCount
from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.model.loads import is_host_link
from gradwire.planning.model.wire import SET_UP_SPARE_NBYTES, again_nbytes, payload_nbytes, stream_nbytes
from gradwire.planning.plan import Plan
from gradwire.results.audit.disagreements import Finding, off
from gradwire.results.audit.treeagreement import tree_agreement
from gradwire.results.audit.treecounts import Again, SumCount, TreeLoad
from gradwire.traces.units import show_count

NOTHING = WireCount(0, 0)
NOTHING_AGAIN = Again()


@dataclass(frozen=True, slots=True)
class FlowCount:
    """One flow; `expected_nbytes` and `spare_nbytes` are of TCP's stream, `counted` is by switch."""

    flow: int
    payload_nbytes: int
    expected_nbytes: int
    spare_nbytes: int
    counted: Mapping[str, WireCount]


@dataclass(frozen=True, slots=True)
class LinkCount:
    """One direction of a cable, counted by the switch that sends and by the one that receives.

    `payload_nbytes` is what the ranks send to each other over it in all repeats, elements of trees among it,
    `expected_nbytes` TCP's stream and these by the plan, `spare_nbytes` what that may be more.  A link that
    is not `held` may carry flows that a failure or a moving policy put there.
    """

    egress: Egress
    payload_nbytes: int
    expected_nbytes: int
    spare_nbytes: int
    sent: WireCount | None
    received: WireCount | None
    held: bool

    @property
    def counted(self) -> WireCount | None:
        return self.received or self.sent

    @property
    def off_nbytes(self) -> int:
        """Counted less expected: negative when bytes are missing."""
        return self.counted.stream_nbytes - self.expected_nbytes if self.counted else 0


@dataclass(frozen=True)
class Agreement:
    """`sums` are what came in at switches to be added up, or had been; `of_trees` is what of the links' bytes
    is theirs.  `moved` says that flows could leave the plan's paths: then only hosts' links are held.
    """

    flows: tuple[FlowCount, ...]
    links: tuple[LinkCount, ...]
    findings: tuple[Finding, ...]
    moved: bool
    sums: tuple[SumCount, ...] = ()
    of_trees: Mapping[Egress, TreeLoad] = field(default_factory=dict)

    @property
    def held(self) -> tuple[LinkCount, ...]:
        """The links that were held against the plan."""
        return tuple(link for link in self.links if link.held and link.counted)

    @property
    def worst(self) -> LinkCount | None:
        """The link that is farthest from the plan."""
        return max(self.held, key=lambda link: abs(link.off_nbytes), default=None)


def strayed(plan: Plan, compared: Agreement) -> tuple[tuple[int, str], ...]:
    """(flow, switch) of every flow that was counted at a switch off its path in the plan."""
    return tuple(
        (one.flow, switch)
        for one in compared.flows
        for switch, count in one.counted.items()
        if count.packets and switch not in {egress.node for egress in plan.flows[one.flow].path}
    )


def agreement(
    plan: Plan,
    counters: Counters,
    resent: Sequence[int],
    repeats: int,
    *,
    late_s: float = 0.0,
    moved: bool = False,
    n_moves: int = 0,
    again: Again = NOTHING_AGAIN,
) -> Agreement:
    """Hold the plan against the counters of a run of this many `repeats`.

    `resent[r]` are the segments that rank r's TCP sent again.  `late_s`: a flow's count may lack what
    passed so long before it was read (Open vSwitch; its ports count at once).  `moved`: flows could take
    other paths than the plan's; `n_moves`: how often, at most, any one of them went from path to path.
    `again`: what the ranks' workers repeated.
    """
    payload, stream = payload_nbytes(plan), stream_nbytes(plan, repeats)
    flows = tuple(
        _flow_count(plan, number, payload[number] * repeats, stream[number], counters, resent, n_moves)
        for number in range(len(plan.flows))
    )
    trees = tree_agreement(plan, counters, again, repeats)
    links = tuple(_link_counts(plan, flows, counters, resent, moved, n_moves, trees.loads))
    findings = (
        *_flow_findings(plan, flows, late_s, moved),
        *_link_findings(plan, links),
        *trees.findings,
        *_stray_findings(plan, counters, moved),
    )
    return Agreement(flows, links, findings, moved, trees.sums, trees.loads)


def _flow_count(
    plan: Plan,
    number: int,
    payload: int,
    stream: int,
    counters: Counters,
    resent: Sequence[int],
    n_moves: int,
) -> FlowCount:
    flow = plan.flows[number]
    counted = counters.flows.get((flow.src_ip, flow.dst_ip, flow.sport, flow.dport), {})
    packets = max((count.packets for count in counted.values()), default=0)
    spare = SET_UP_SPARE_NBYTES + again_nbytes(plan, [flow], packets, resent, n_moves)
    return FlowCount(number, payload, stream, spare, counted)


def _link_counts(
    plan: Plan,
    flows: Sequence[FlowCount],
    counters: Counters,
    resent: Sequence[int],
    moved: bool,
    n_moves: int,
    of_trees: Mapping[Egress, TreeLoad],
) -> Iterator[LinkCount]:
    """Every link, those that the plan leaves idle too."""
    users: dict[Egress, list[FlowCount]] = {egress: [] for egress in plan.fabric.rates}
    for one in flows:
        for egress in plan.flows[one.flow].path:
            users[egress].append(one)
    for egress, using in users.items():
        sent, received = counters.sent.get(egress), counters.received.get(plan.fabric.peers[egress])
        packets = max((count.packets for count in (sent, received) if count), default=0)
        of_plan = [plan.flows[one.flow] for one in using]
        spare = len(using) * SET_UP_SPARE_NBYTES + again_nbytes(plan, of_plan, packets, resent, n_moves)
        trees = of_trees.get(egress, TreeLoad())
        yield LinkCount(
            egress=egress,
            payload_nbytes=sum(one.payload_nbytes for one in using) + trees.payload_nbytes,
            expected_nbytes=sum(one.expected_nbytes for one in using) + trees.payload_nbytes,
            spare_nbytes=spare + trees.spare_nbytes,
            sent=sent,
            received=received,
            held=not moved or is_host_link(plan.fabric, egress),
        )


def _flow_findings(plan: Plan, flows: Iterable[FlowCount], late_s: float, moved: bool) -> Iterator[Finding]:
    """A flow is counted at every switch of its path, and at no other."""
    for one in flows:
        flow = plan.flows[one.flow]
        path = [egress.node for egress in flow.path[1:]]
        held = {path[0], path[-1]} if moved else dict.fromkeys(path)
        slowest_bps = min(plan.fabric.rates[egress] for egress in flow.path)
        for switch in held:
            where = f"r{flow.src}→r{flow.dst} at {switch}"
            at_switch = one.counted.get(switch, NOTHING)
            late_nbytes = late_s * slowest_bps / 8 if at_switch.packets else 0.0
            more = at_switch.stream_nbytes - one.expected_nbytes
            yield from off(where, more, one.expected_nbytes, one.spare_nbytes, late_nbytes)
        for switch, count in one.counted.items():
            if switch not in path and count.packets and not moved:
                yield Finding(
                    "astray",
                    f"r{flow.src}→r{flow.dst} at {switch}",
                    f"{_amount(count)}, but its path is {' '.join(path)}",
                )


def _link_findings(plan: Plan, links: Iterable[LinkCount]) -> Iterator[Finding]:
    lossy = {loss.port for loss in plan.losses}
    for link in links:
        where = link_name(plan.fabric, link.egress)
        if not link.held:
            continue
        if link.counted is None:
            yield Finding("not counted", where, "no switch at its ends counted what passed")
            continue
        yield from off(where, link.off_nbytes, link.expected_nbytes, link.spare_nbytes)
        if link.sent and link.received and link.sent != link.received and link.egress not in lossy:
            yield Finding(
                "ends differ",
                where,
                f"{link.sent.nbytes} bytes went in, {link.received.nbytes} came out",
            )


def _stray_findings(plan: Plan, counters: Counters, moved: bool) -> Iterator[Finding]:
    """Packets that no flow's rule matched, and rules of flows that the plan has not.

    A flow that is moved, by a failover for one, may pass switches by the destinations' rules.
    """
    planned = {(flow.src_ip, flow.dst_ip, flow.sport, flow.dport) for flow in plan.flows}
    for switch, count in counters.others.items():
        if count.packets and not moved:
            what = f"{_amount(count)} matched no rule of a flow"
            yield Finding("no flow's", switch, what)
    for (src, dst, sport, dport), counted in counters.flows.items():
        for switch, count in counted.items():
            if count.packets and (src, dst, sport, dport) not in planned:
                packets = show_count(count.packets, "packet")
                what = f"{packets} of {src}:{sport} → {dst}:{dport}, no flow of the plan"
                yield Finding("no flow's", switch, what)


def _amount(count: WireCount) -> str:
    return f"{show_count(count.packets, 'packet')} ({count.nbytes:,} bytes)"
