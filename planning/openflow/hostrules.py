"""Rules for a fabric whose flows are not known in advance: paths between all pairs of hosts."""

from collections import defaultdict
from collections.abc import Collection
from ipaddress import IPv4Address

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, Match
from gradwire.planning.openflow.rules import DESTINATION_PRIORITY, Rule, Rules, destination_rules
from gradwire.planning.plan import ADAPTIVE, Flow
from gradwire.planning.refused import Refused
from gradwire.planning.routing.policies import policy
from gradwire.planning.routing.reroute import without
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send

PAIR_PRIORITY = 200
SEED = 0


def host_rules(fabric: Fabric, routes: str, down: Collection[Link] = ()) -> Rules:
    """`ecmp` as the switches' own hash; other policies as the path of each pair of hosts.

    A switch where all that goes to a host leaves by one port has one rule for that host.  A host whose own
    cable is in `down` keeps its rules: there is no other way to it.  Raise Refused where the policy makes no
    sense, ValueError if there is none of that name.
    """
    inner = frozenset(down).intersection(fabric.inner_links)
    left = without(fabric, inner) if inner else fabric
    if routes == "ecmp":
        return destination_rules(left)
    if routes == ADAPTIVE:
        raise Refused(f"{ADAPTIVE} routes move the flows of a plan: give a plan, or choose other routes")
    flows, schedule = _all_pairs(left)
    paths = policy(routes)(left, left.hosts, flows, schedule, SEED)
    leaving: dict[str, defaultdict[str, dict[str, int]]] = {
        switch: defaultdict(dict) for switch in left.switches
    }
    for flow, path in zip(flows, paths, strict=True):
        for end in path[1:]:
            leaving[end.node][flow.dst_ip][flow.src_ip] = end.port
    return {
        switch: tuple(rule for dst, ports in towards.items() for rule in _collapsed(dst, ports))
        for switch, towards in leaving.items()
    }


def _all_pairs(fabric: Fabric) -> tuple[tuple[Flow, ...], Schedule]:
    """A flow of any ports from each host to each other that it can reach, all at once, one byte each."""
    hosts = fabric.hosts
    at = [access_switch(fabric, host) for host in hosts]
    reach = {switch: distances(fabric, switch) for switch in set(at)}
    pairs = [
        (src, dst)
        for src in range(len(hosts))
        for dst in range(len(hosts))
        if src != dst and at[dst] in reach[at[src]]
    ]
    flows = tuple(Flow(src, dst, fabric.ip(hosts[src]), fabric.ip(hosts[dst]), 0, 0) for src, dst in pairs)
    ops = tuple(Op("message", 1, tag=i, root=src) for i, (src, _) in enumerate(pairs))
    sends = tuple(Send(i, src, dst, 0, 1, reduce=False) for i, (src, dst) in enumerate(pairs))
    return flows, Schedule.of(len(hosts), ops, sends)


def _collapsed(dst: str, ports: dict[str, int]) -> list[Rule]:
    """One rule if all sources leave by one port, else one for each."""
    to = int(IPv4Address(dst))
    if len(set(ports.values())) == 1:
        port = next(iter(ports.values()))
        return [Rule(DESTINATION_PRIORITY, Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=to), (port,))]
    return [
        Rule(
            PAIR_PRIORITY,
            Match(eth_type=ETH_TYPE_IPV4, ipv4_src=int(IPv4Address(src)), ipv4_dst=to),
            (port,),
        )
        for src, port in ports.items()
    ]
