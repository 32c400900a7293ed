"""The flow table against a plain reading of OpenFlow: the highest priority that matches wins."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.switch.table.numbers import Numbers, TableFullError
from gradwire.emu.switch.table.planeoperations import (
    ClearCounters,
    ClearGroupCounters,
    Operation,
    RemoveGroup,
    RemoveRule,
    SetGroup,
    SetRule,
)
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.planning.openflow.entries import (
    WRITE_ACTIONS,
    Actions,
    Entry,
    FlowGone,
    Gone,
    GroupBucket,
    GroupKind,
    Output,
    SwitchGroup,
    ToGroup,
    slots,
)
from gradwire.planning.openflow.match import Form, Match, form

ANY = Match()
DST = Match(eth_type=0x800, ipv4_dst=2)
PAIR = Match(eth_type=0x800, ipv4_src=1, ipv4_dst=2)
FLOW = Match(eth_type=0x800, ip_proto=6, ipv4_src=1, ipv4_dst=2, sport=10, dport=20)


def out(port: int) -> Actions:
    return Actions((Output(port),))


def buckets(*ports: int) -> tuple[GroupBucket, ...]:
    return tuple(GroupBucket((Output(port),), weight=1) for port in ports)


def entry(match: Match, priority: int, port: int = 1, cookie: int = 0) -> Entry:
    return Entry(match, priority, out(port), cookie, 0, 0, 0)


def table(n_flows: int = 100, n_groups: int = 10) -> FlowTable:
    return FlowTable(Numbers(n_flows), Numbers(n_groups))


@dataclass
class DataPlane:
    """The data plane's maps in memory; obeys operations, and finds what a packet would."""

    rules: dict[Match, SetRule] = field(default_factory=dict)
    groups: dict[int, SwitchGroup] = field(default_factory=dict)

    def obey(self, operations: object) -> None:
        for operation in operations:  # type: ignore[attr-defined]
            self.step(operation)

    def step(self, operation: Operation) -> None:
        match operation:
            case SetRule():
                self.rules[operation.match] = operation
            case RemoveRule():
                del self.rules[operation.match]
            case SetGroup():
                self.groups[operation.group] = operation.value
            case RemoveGroup():
                del self.groups[operation.group]

    def find(self, packet: Match) -> SetRule | None:
        """As switch.c: all forms looked up, the highest priority wins, then the more specific form."""
        found = [rule for rule in self.rules.values() if contains(rule.match, packet)]
        order = list(Form)
        return max(found, key=lambda r: (r.priority, order.index(form(r.match) or Form.ANY)), default=None)


def port_of(rule: SetRule) -> int:
    (action,) = rule.actions
    assert isinstance(action, Output)
    return action.port


def contains(outer: Match, inner: Match) -> bool:
    """Every field that `outer` names has the same value in `inner`."""
    named = {name: value for name, value in outer._asdict().items() if value is not None}
    return named.items() <= inner._asdict().items()


few = st.integers(1, 2)
matches = st.one_of(
    st.just(ANY),
    few.map(lambda dst: Match(eth_type=0x800, ipv4_dst=dst)),
    st.tuples(few, few).map(lambda pair: Match(0x800, *pair)),
    st.tuples(few, few, st.just(6), few, few).map(lambda five_tuple: Match(0x800, *five_tuple)),
)
packets = [Match(0x800, s, d, 6, sp, dp) for s in (1, 2) for d in (1, 2) for sp in (1, 2) for dp in (1, 2)]
changes = st.tuples(
    st.sampled_from(["add", "delete", "strict"]), matches, st.integers(1, 4), st.integers(1, 3)
)


@given(st.lists(changes, max_size=30))
def test_every_packet_meets_the_highest_priority_that_matches_it(
    script: list[tuple[str, Match, int, int]],
) -> None:
    ours, plane = table(), DataPlane()
    reference: dict[tuple[Match, int], int] = {}
    for what, match, priority, port in script:
        if what == "add":
            plane.obey(ours.add(entry(match, priority, port), reset_counts=False))
            reference[match, priority] = port
        elif what == "strict":
            plane.obey(ours.delete(Selection(match, priority)))
            reference.pop((match, priority), None)
        else:
            plane.obey(ours.delete(Selection(match)))
            reference = {key: p for key, p in reference.items() if not contains(match, key[0])}
    assert len(ours) == len(reference)
    for packet in packets:
        highest = max((p for m, p in reference if contains(m, packet)), default=None)
        found = plane.find(packet)
        assert (found.priority if found else None) == highest
        if found:
            assert port_of(found) == reference[found.match, found.priority]


def test_a_shadowed_rule_comes_back_when_the_higher_one_is_deleted() -> None:
    ours, plane = table(), DataPlane()
    plane.obey(ours.add(entry(DST, 10, port=1), reset_counts=False))
    plane.obey(ours.add(entry(DST, 20, port=2), reset_counts=False))
    assert plane.rules[DST].actions == (Output(2),)
    plane.obey(ours.delete(Selection(DST, priority=20)))
    assert plane.rules[DST].actions == (Output(1),)


def test_adding_the_same_match_and_priority_keeps_the_counters() -> None:
    """OpenFlow 1.3.5, 6.4: cleared if OFPFF_RESET_COUNTS is set, otherwise copied."""
    ours = table()
    list(ours.add(entry(DST, 10, port=1), reset_counts=False))
    (before,) = ours.entries(Selection())
    operations = list(ours.add(entry(DST, 10, port=2), reset_counts=False))
    assert operations == [SetRule(DST, 10, (Output(2),), before.flow)]
    assert ClearCounters(before.flow) in list(ours.add(entry(DST, 10, port=3), reset_counts=True))


def test_a_new_rule_starts_with_cleared_counters_even_in_a_used_number() -> None:
    ours = table(n_flows=1)
    (first,) = ours.add(entry(DST, 10), reset_counts=False)
    assert isinstance(first, SetRule)  # the kernel makes counters zero
    list(ours.delete(Selection()))
    operations = list(ours.add(entry(PAIR, 10), reset_counts=False))
    assert operations[0] == ClearCounters(0)
    assert isinstance(operations[1], SetRule)


def test_a_loose_delete_takes_what_its_match_covers_and_nothing_else() -> None:
    ours = table()
    for match in (ANY, DST, PAIR, FLOW):
        list(ours.add(entry(match, 10), reset_counts=False))
    list(ours.delete(Selection(Match(eth_type=0x800, ipv4_src=1))))
    assert {e.match for e in ours.entries(Selection())} == {ANY, DST}


def test_a_strict_delete_takes_only_the_very_match_and_priority() -> None:
    ours = table()
    list(ours.add(entry(DST, 10), reset_counts=False))
    list(ours.add(entry(PAIR, 10), reset_counts=False))
    assert list(ours.delete(Selection(DST, priority=11))) == []
    assert list(ours.delete(Selection(DST, priority=10))) == [RemoveRule(DST)]


def test_a_delete_can_be_limited_to_a_cookie_and_to_an_output() -> None:
    ours = table()
    list(ours.add(entry(DST, 10, port=1, cookie=0xA1), reset_counts=False))
    list(ours.add(entry(PAIR, 10, port=2, cookie=0xB1), reset_counts=False))
    assert list(ours.delete(Selection(cookie=0xA0, cookie_mask=0xF0, out_port=2))) == []
    assert list(ours.delete(Selection(cookie=0xA0, cookie_mask=0xF0))) == [RemoveRule(DST)]
    assert list(ours.delete(Selection(out_port=2))) == [RemoveRule(PAIR)]


def test_a_modify_changes_the_action_and_keeps_cookie_and_counters() -> None:
    ours = table()
    list(ours.add(entry(DST, 10, port=1, cookie=7), reset_counts=False))
    (before,) = ours.entries(Selection())
    assert list(ours.modify(Selection(), out(2), reset_counts=False)) == [
        SetRule(DST, 10, (Output(2),), before.flow, cookie=7)
    ]
    (after,) = ours.entries(Selection())
    assert (after.cookie, after.flow, after.actions) == (7, before.flow, out(2))


def test_a_modify_of_a_shadowed_rule_leaves_the_data_plane_alone() -> None:
    ours = table()
    list(ours.add(entry(DST, 10, port=1), reset_counts=False))
    list(ours.add(entry(DST, 20, port=2), reset_counts=False))
    assert list(ours.modify(Selection(DST, priority=10), out(3), reset_counts=False)) == []


def test_deleting_a_group_deletes_the_rules_that_use_it_first() -> None:
    ours = table()
    list(ours.set_group(5, SwitchGroup(GroupKind.SELECT, buckets(1)), 0))
    to_group = Entry(DST, 10, Actions((ToGroup(5),)), 0, 0, 0, 0)
    list(ours.add(to_group, reset_counts=False))
    assert list(ours.delete_group(5)) == [RemoveRule(DST), RemoveGroup(5)]
    assert len(ours) == 0


def test_a_full_table_refuses_and_stays_as_it_was() -> None:
    ours = table(n_flows=1)
    list(ours.add(entry(DST, 10), reset_counts=False))
    with pytest.raises(TableFullError):
        list(ours.add(entry(PAIR, 10), reset_counts=False))
    assert [e.match for e in ours.entries(Selection())] == [DST]


def test_all_switches_share_the_room_for_groups_and_for_flows() -> None:
    flows, groups = Numbers(1), Numbers(1)
    one, other = FlowTable(flows, groups), FlowTable(flows, groups)
    group = SwitchGroup(GroupKind.SELECT, buckets(1))
    list(one.set_group(1, group, 0))
    list(one.set_group(1, group, 0))  # replacing takes no more
    with pytest.raises(TableFullError):
        list(other.set_group(1, group, 0))
    list(one.delete_group(1))
    list(other.set_group(1, group, 0))
    list(one.add(entry(DST, 10), reset_counts=False))
    with pytest.raises(TableFullError):
        list(other.add(entry(DST, 10), reset_counts=False))


def test_a_table_has_its_own_limit_and_may_be_filled_again_to_it() -> None:
    ours = FlowTable(Numbers(100), Numbers(1), max_entries=2)
    for match in (DST, PAIR):
        list(ours.add(entry(match, 10), reset_counts=False))
    with pytest.raises(TableFullError):
        list(ours.add(entry(FLOW, 10), reset_counts=False))
    list(ours.add(entry(DST, 10, port=2), reset_counts=False))  # replaces, and takes no more
    list(ours.delete(Selection(DST, priority=10)))
    list(ours.add(entry(FLOW, 10), reset_counts=False))
    assert len(ours) == 2


def test_changing_a_group_keeps_its_own_counters_and_clears_those_of_its_buckets() -> None:
    ours = table()
    first, _ = ours.set_group(5, SwitchGroup(GroupKind.ALL, buckets(1)), 10)
    again, _ = ours.set_group(5, SwitchGroup(GroupKind.ALL, buckets(2, 3)), 20)
    assert (first, again) == (
        ClearGroupCounters(0, keeps_whole=False),
        ClearGroupCounters(0, keeps_whole=True),
    )
    assert ours.groups[5].since_ns == 10


def test_of_actions_to_write_the_last_output_is_left_and_of_those_to_apply_all() -> None:
    """OpenFlow 1.3.5, 5.10: an action set has at most one output, and a list is carried out in order."""
    ours, given = table(), (Output(1), Output(2), Output(1))
    (applied,) = ours.add(Entry(DST, 10, Actions(given), 0, 0, 0, 0), reset_counts=False)
    (written,) = ours.add(Entry(PAIR, 10, Actions(given, WRITE_ACTIONS), 0, 0, 0, 0), reset_counts=False)
    assert (applied.actions, written.actions) == (given, (Output(1),))  # type: ignore[union-attr]


@pytest.mark.parametrize("cause", ["flow", "group"])
def test_of_an_entry_that_ends_is_told_if_it_asks_for_that(cause: str) -> None:
    ours = table()
    list(ours.set_group(5, SwitchGroup(GroupKind.ALL, buckets(1)), 0))
    entry = Entry(DST, 10, Actions((ToGroup(5),)), 0, 1, 0, 0)
    list(ours.add(entry, reset_counts=False))
    list(ours.add(Entry(PAIR, 10, Actions((ToGroup(5),)), 0, 0, 0, 0), reset_counts=False))
    ended = list(ours.delete_group(5) if cause == "group" else ours.delete(Selection()))
    reason = Gone.GROUP_DELETED if cause == "group" else Gone.DELETED
    assert [each for each in ended if isinstance(each, FlowGone)] == [FlowGone(entry, reason)]


def test_entries_overlap_if_one_packet_can_match_both_at_one_priority() -> None:
    ours = table()
    list(ours.add(entry(PAIR, 10), reset_counts=False))
    assert ours.has_overlap(DST, 10)
    assert ours.has_overlap(Match(in_port=1, eth_dst=5), 10)
    assert not ours.has_overlap(DST, 11)
    assert not ours.has_overlap(DST._replace(ipv4_dst=3), 10)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, 1], (0, 1)),
        ([100, 100, 200], (0, 1, 2, 2)),
        ([0, 3], (1,)),  # OpenFlow 1.3.5, A.3.4.2: a weight of 0 is never selected
        ([0, 0], ()),
        ([0], (0,)),
    ],
)
def test_a_group_has_slots_in_proportion_to_its_weights(
    weights: list[int], expected: tuple[int, ...]
) -> None:
    weighted = tuple(GroupBucket((Output(1),), weight) for weight in weights)
    assert slots(SwitchGroup(GroupKind.SELECT, weighted)) == expected


def test_weights_that_need_too_many_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="need 101 slots, and a group has 64"):
        slots(SwitchGroup(GroupKind.SELECT, (GroupBucket((), 1), GroupBucket((), 100))))


L2 = Match(in_port=1, eth_src=5, eth_dst=6)
UDP = Match(eth_type=0x800, ip_proto=17, dport=9)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (ANY, Form.ANY),
        (DST, Form.DST),
        (PAIR, Form.PAIR),
        (FLOW, Form.FLOW),
        (L2, Form.IN_ETH_SRC_DST),
        (L2._replace(eth_src=None), Form.IN_ETH_DST),
        (Match(eth_dst=6), Form.ETH_DST),
        (Match(eth_type=0x806), Form.ETH_TYPE),
        (UDP, Form.UDP_DST),
        (UDP._replace(in_port=1), Form.IN_UDP_DST),
    ],
)
def test_each_form_is_known(match: Match, expected: Form) -> None:
    assert form(match) == expected


@pytest.mark.parametrize(
    "match",
    [
        Match(eth_type=0x800, ipv4_src=1),
        Match(in_port=1),
        Match(in_port=1, eth_src=5),
        UDP._replace(ip_proto=6),  # a TCP port alone
        FLOW._replace(in_port=1),
    ],
)
def test_what_the_data_plane_has_no_map_for_has_no_form(match: Match) -> None:
    assert form(match) is None


FULL = Match(0x800, 1, 2, 6, 10, 20, 3, 4, 5)


@pytest.mark.parametrize("name", Match._fields)
def test_a_match_covers_another_one_if_each_field_is_equal_or_absent(name: str) -> None:
    assert FULL._replace(**{name: None}).covers(FULL)
    assert not FULL.covers(FULL._replace(**{name: None}))
    assert not FULL._replace(**{name: 99}).covers(FULL)
    assert FULL._replace(**{name: None}).overlaps(FULL)
    assert not FULL._replace(**{name: 99}).overlaps(FULL)
