"""Makes a plan from a schedule, a fabric and the user's choices: everything that a run needs to know."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.model.predict import predict
from gradwire.planning.placement import place
from gradwire.planning.plan import Flow, Plan
from gradwire.planning.plancheck import check_path, check_schedule
from gradwire.planning.refused import Refused
from gradwire.planning.routing.policies import policy
from gradwire.planning.transport import Transport
from gradwire.planning.trees.grants import DEFAULT_TERMS, Terms, granted
from gradwire.planning.trees.tree import Tree
from gradwire.traces.framing.setups import STORE_PORT
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.seeded import draw

FIRST_PORT, LAST_PORT = 20_000, 60_999
Ports = Mapping[tuple[int, int], tuple[int, int]]
"""(source, destination), ranks: (source port, destination port)."""
NO_PORTS: Ports = MappingProxyType({})


def resolve(  # noqa: PLR0913 - each is a choice of its own
    fabric: Fabric,
    schedule: Schedule,
    *,
    algorithm: str,
    placement: str,
    routes: str,
    seed: int,
    transport: Transport,
    terms: Terms = DEFAULT_TERMS,
    ports: Ports = NO_PORTS,
    source: str = "",
) -> Plan:
    """The plan; the same arguments give the same plan, to the last port number.

    `terms` are those of the trees that add up.  `ports` are those of captured connections: policies choose
    a flow's path as if it had them, so that ECMP lets those flows meet that met in the capture.  `algorithm`
    and `source` are only recorded.  Raise ValueError for names that do not exist and for a schedule or a
    policy that is wrong, Refused for a combination that makes no sense, and for a job that gets no trees.
    """
    hosts = place(placement, fabric, schedule.n_ranks, seed)
    plan = resolve_placed(
        fabric,
        hosts,
        schedule,
        algorithm=algorithm,
        placement=placement,
        routes=routes,
        seed=seed,
        transport=transport,
        terms=terms,
        ports=ports,
    )
    return replace(plan, source=source)


def resolve_placed(  # noqa: PLR0913 - likewise
    fabric: Fabric,
    hosts: tuple[str, ...],
    schedule: Schedule,
    *,
    algorithm: str,
    placement: str,
    routes: str,
    seed: int,
    transport: Transport,
    terms: Terms = DEFAULT_TERMS,
    ports: Ports = NO_PORTS,
) -> Plan:
    """The plan for ranks whose hosts are chosen already: rank r on `hosts[r]`."""
    check_schedule(schedule)
    check_correct(schedule)
    unrouted = tuple(flows_of(fabric, hosts, schedule, seed))
    captured = [_as_captured(flow, ports) for flow in unrouted] if ports else unrouted
    paths = policy(routes)(fabric, hosts, captured, schedule, seed)
    if len(paths) != len(unrouted):
        raise ValueError(f"routing policy {routes} gave {len(paths)} paths for {len(unrouted)} flows")
    flows = tuple(_routed(flow, path) for flow, path in zip(unrouted, paths, strict=True))
    for flow in flows:
        try:
            check_path(fabric, hosts[flow.src], hosts[flow.dst], flow.path)
        except ValueError as error:
            raise ValueError(f"routing policy {routes}: {error}") from error
    trees = _trees(fabric, hosts, schedule, terms, seed)
    return Plan(
        fabric=fabric,
        algorithm=algorithm,
        placement_name=placement,
        placement=hosts,
        routes=routes,
        seed=seed,
        schedule=schedule,
        flows=flows,
        transport=transport,
        prediction=predict(fabric, hosts, flows, schedule, trees),
        trees=trees,
        switch_slots=terms.switch_slots,
    )


def _routed(flow: Flow, path: Sequence[Egress]) -> Flow:
    """With a path; `replace` takes four times as long, and there may be a million flows."""
    return Flow(flow.src, flow.dst, flow.src_ip, flow.dst_ip, flow.sport, flow.dport, tuple(path))


def _as_captured(flow: Flow, ports: Ports) -> Flow:
    sport, dport = ports.get((flow.src, flow.dst), (flow.sport, flow.dport))
    return replace(flow, sport=sport, dport=dport)


def _trees(
    fabric: Fabric, hosts: Sequence[str], schedule: Schedule, terms: Terms, seed: int
) -> tuple[Tree, ...]:
    """The tree of each reduce group.  Raise Refused if one has none."""
    grants = granted(fabric, hosts, schedule, terms, seed)
    for reason in grants.refused.values():
        raise Refused(f"the switches of {fabric.spec} cannot add this up: {reason}")
    return tuple(tree for tree in grants.trees if tree is not None)


def flows_of(fabric: Fabric, placement: Sequence[str], schedule: Schedule, seed: int) -> Iterator[Flow]:
    """Both directions of one connection for every pair of ranks that sends, as yet without paths.

    The rank with the higher number opens it from a port of its own to the lower one's only listening
    port.  No port is used twice on a host.
    """
    pairs = sorted({(min(pair), max(pair)) for pair in schedule.sends.pairs()})
    used: list[set[int]] = [set() for _ in range(schedule.n_ranks)]
    listening = [_free_port(used[rank], seed, "listen", rank) for rank in range(schedule.n_ranks)]
    for low, high in pairs:
        sport = _free_port(used[high], seed, "connect", high, low)
        low_ip, high_ip = fabric.ip(placement[low]), fabric.ip(placement[high])
        yield Flow(high, low, high_ip, low_ip, sport, listening[low])
        yield Flow(low, high, low_ip, high_ip, listening[low], sport)


def _free_port(used: set[int], seed: int, *what: object) -> int:
    span = LAST_PORT - FIRST_PORT + 1
    start = draw(seed, "port", *what) % span
    for step in range(span):
        port = FIRST_PORT + (start + step) % span
        if port not in used and port != STORE_PORT:  # what is seen there is no training traffic
            used.add(port)
            return port
    raise ValueError(f"a host of this schedule needs more than {span} ports")
