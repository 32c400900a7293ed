"""Rules as OpenFlow 1.3 messages: a switch's complete set, or only the changes.  Sends nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.templates import FlowMods, numbered, serialized
from gradwire.planning.openflow.rules import GroupKey, Rule, groups_of


@dataclass(frozen=True)
class SwitchTable:
    """What one switch has: its rules, and the numbers of the groups that they use."""

    rules: tuple[Rule, ...] = ()
    groups: Mapping[GroupKey, int] = field(default_factory=dict)

    def group(self, rule: Rule) -> int | None:
        """The group that a rule of the table sends to; None if it sends to its only port."""
        return self.groups[rule.choice, rule.ports] if len(rule.ports) > 1 else None


def table(rules: Iterable[Rule], before: SwitchTable | None = None) -> SwitchTable:
    """A table of these rules.  Equal groups are one; those of `before` keep their numbers."""
    rules = tuple(rules)
    wanted = groups_of(rules)
    groups = {key: number for key, number in before.groups.items() if key in wanted} if before else {}
    taken = set(before.groups.values()) if before else set()
    free = (number for number in count(1) if number not in taken)
    for key in sorted(wanted - groups.keys()):
        groups[key] = next(free)
    return SwitchTable(rules, groups)


def program(datapath: Any, new: SwitchTable) -> bytes:
    """All messages that a switch needs, ready to send: first forget, then groups, rules, a barrier.

    In one piece, because os-ken's queue and thread per message take as long as building them.
    """
    encoded = [_forget(datapath)]
    encoded += [_group(datapath, *item) for item in new.groups.items()]
    encoded.append(FlowMods(datapath).carry_out(new.rules, ofp.OFPFC_ADD, new.group))
    encoded.append(_barrier(datapath))
    return b"".join(encoded)


def update(datapath: Any, old: SwitchTable, new: SwitchTable, differing: "Changes") -> bytes:
    """What leads from `old` to `new`, whose `changes` are known; `b""` if there is nothing to do.

    Make before break: new groups, new and changed rules, then what is no longer wanted, and the barrier.
    A changed rule keeps its counters.  No message replaces a group that rules use.  What adds up breaks
    before it makes: a switch takes new rules of a job only once it has none of the old.
    """
    added, changed, removed = differing
    before, wanted = old.groups.keys(), new.groups.keys()
    if not (added or changed or removed or before ^ wanted):
        return b""
    flow_mods = FlowMods(datapath)
    encoded = [flow_mods.delete(rule for rule in removed if rule.aggregate)]
    encoded += [_group(datapath, key, new.groups[key]) for key in sorted(wanted - before)]
    encoded.append(flow_mods.carry_out(added, ofp.OFPFC_ADD, new.group))
    encoded.append(flow_mods.carry_out(changed, ofp.OFPFC_MODIFY_STRICT, new.group))
    encoded.append(flow_mods.delete(rule for rule in removed if not rule.aggregate))
    encoded += [
        serialized(datapath, [parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, group_id=old.groups[key])])
        for key in sorted(before - wanted)
    ]
    encoded.append(_barrier(datapath))
    return b"".join(encoded)


class Changes(NamedTuple):
    """Rules that are added, rules that send elsewhere than before, and rules that are removed.

    One that adds up otherwise than before is removed and added.
    """

    added: list[Rule]
    changed: list[Rule]
    removed: list[Rule]


def changes(old: SwitchTable, new: SwitchTable) -> Changes:
    """From one table to the next."""
    # Most rules are the very objects that they were, and telling that takes a twentieth of comparing them.
    gone = {id(rule): rule for rule in old.rules}
    come = [rule for rule in new.rules if gone.pop(id(rule), None) is None]
    before = {(rule.match, rule.priority): rule for rule in gone.values()}
    after = {(rule.match, rule.priority): rule for rule in come}
    both = before.keys() & after.keys()
    kept = {place for place in both if before[place].aggregate == after[place].aggregate}
    added = [rule for place, rule in after.items() if place not in kept]
    changed = [rule for place, rule in after.items() if place in kept and before[place] != rule]
    removed = [rule for place, rule in before.items() if place not in kept]
    return Changes(added, changed, removed)


def _forget(datapath: Any) -> bytes:
    """All rules, then all groups."""
    rules = _same(
        datapath,
        "no rules",
        lambda: parser.OFPFlowMod(
            datapath,
            command=ofp.OFPFC_DELETE,
            table_id=ofp.OFPTT_ALL,
            out_port=ofp.OFPP_ANY,
            out_group=ofp.OFPG_ANY,
        ),
    )
    groups = _same(
        datapath,
        "no groups",
        lambda: parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, group_id=ofp.OFPG_ALL),
    )
    return rules + groups


_written: dict[object, bytes] = {}  # messages that several switches get


def _same(datapath: Any, key: object, make: Callable[[], Any]) -> bytes:
    """The library's message that `make` makes, with a number of the datapath; `key` says which it is."""
    if key not in _written:
        _written[key] = serialized(datapath, [make()])
    return numbered(datapath, _written[key])


def _group(datapath: Any, key: GroupKey, number: int) -> bytes:
    return _same(datapath, (key, number), lambda: _group_mod(datapath, key, number))


def _barrier(datapath: Any) -> bytes:
    return _same(datapath, "barrier", lambda: parser.OFPBarrierRequest(datapath))


def _group_mod(datapath: Any, key: GroupKey, number: int) -> Any:
    choice, ports = key
    is_failover = choice == "failover"
    buckets = [
        parser.OFPBucket(
            weight=0 if is_failover else 1,  # only select groups have weights (OpenFlow 1.3.5, 7.3.4.2)
            watch_port=port if is_failover else ofp.OFPP_ANY,
            watch_group=ofp.OFPG_ANY,
            actions=[parser.OFPActionOutput(port)],
        )
        for port in ports
    ]
    kind = ofp.OFPGT_FF if is_failover else ofp.OFPGT_SELECT
    return parser.OFPGroupMod(datapath, ofp.OFPGC_ADD, kind, number, buckets)
