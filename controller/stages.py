"""The stages in which rules change so that no packet is lost: near its destination first.

Switches cannot change at the same moment.  So each takes its new rules for a destination only when all that
are nearer to it have theirs.  A packet that meets a new rule then meets only new ones on the rest of its way,
and until it meets one the old ones lead it, to the destination as well.  This needs rules that lead nearer:
others, such as those of detours, come last, and no packet may need them until then.
"""

from collections.abc import Collection, Mapping
from functools import cache, partial
from itertools import chain

from gradwire.controller.openflow import SwitchTable, changes
from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.planning.flowhash import address_number
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, Match
from gradwire.planning.openflow.rules import Rule, Rules, has_room
from gradwire.planning.routing.reroute import without


def stages(fabric: Fabric, down: Collection[Link], there: Rules, wanted: Rules) -> list[Rules]:
    """What the switches have one after the other, from what is `there` on; after the last one comes `wanted`.

    `down` are the cables that `wanted` does not use.  Old rules that no new rule replaces, and those that add
    up, stay as they are until after the last stage.  Empty if the switches had no room for one of them.
    """
    access = {address_number(fabric.ip(host)): access_switch(fabric, host) for host in fabric.hosts}
    left = without(fabric, frozenset(down).intersection(fabric.inner_links))
    distances_to = cache(partial(distances, left))
    differing = {switch: _differing(there[switch], wanted[switch]) for switch in wanted}
    moved = set(chain(*differing.values()))
    due: dict[int, dict[str, dict[Match, Rule]]] = {}  # by distance and switch
    for switch, matches in differing.items():
        destinations = {match.ipv4_dst for match in matches}
        for rule in wanted[switch]:
            destination = rule.match.ipv4_dst
            if destination is None or destination not in destinations:
                continue
            far = distances_to(access[destination])
            if switch in far and (rule.match not in moved or _leads_nearer(fabric, switch, rule, far)):
                due.setdefault(far[switch], {}).setdefault(switch, {})[rule.match] = rule
    rules, found = there, list[Rules]()
    for distance in sorted(due):
        rules = rules | {switch: _replaced(rules[switch], new) for switch, new in due[distance].items()}
        found.append(rules)
    return found if all(map(has_room, found)) else []


def _differing(there: tuple[Rule, ...], wanted: tuple[Rule, ...]) -> set[Match]:
    """What is matched by the rules that a switch is to get, change or lose."""
    if there is wanted:
        return set()
    return {rule.match for rule in chain(*changes(SwitchTable(there), SwitchTable(wanted)))}


def _leads_nearer(fabric: Fabric, switch: str, rule: Rule, far: Mapping[str, int]) -> bool:
    """`far` is how far all switches are from the rule's destination; there is no host but that on the way."""
    ports = rule.ports[:1] if rule.choice == "failover" else rule.ports
    ends = [fabric.peers[Egress(switch, port)].node for port in ports]
    return all(end in fabric.host_set or far.get(end, far[switch]) < far[switch] for end in ends)


def _replaced(there: tuple[Rule, ...], new: Mapping[Match, Rule]) -> tuple[Rule, ...]:
    """`there` with the new rules.  Old ones stay for what no new one matches."""
    kept = [rule for rule in there if rule.match not in new and _towards(rule) not in new]
    return (*kept, *new.values())


def _towards(rule: Rule) -> Match:
    """What matches all packets to the rule's destination."""
    return Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=rule.match.ipv4_dst)
