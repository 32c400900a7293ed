"""Made-up OpenFlow requests for a switch with the ports 1, 2, 3 and 7.  Values only.

What OpenFlow leaves undefined is not made: two rules that overlap never have the same priority, because
every form of match has priorities of its own, and two matches of one form are equal or disjoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

DATAPATH = ProtocolDesc(version=ofp.OFP_VERSION)
PORTS = (1, 2, 3, 7)
MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.1")
L4_PORTS = (0, 5000, 10000)
GROUPS = (1, 2, 0x80000001)
IPV4, ARP, TCP, UDP = 0x0800, 0x0806, 6, 17
ETH_TYPES = (IPV4, ARP, 0x86DD, 0x88B6)
N_BASES = 3

Value = TypeVar("Value")
Fields = tuple[tuple[str, int | str], ...]


class Brief:
    """How Hypothesis shows it: with the fields alone that are not as usual, in a line."""

    def __repr__(self) -> str:
        shown = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]  # type: ignore[arg-type]
        said = [f"{name}={value!r}" for name, value, usual in shown if value != usual]
        return f"{type(self).__name__}({', '.join(said)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True)
class Output:
    port: int
    max_len: int = ofp.OFPCML_NO_BUFFER


@dataclass(frozen=True)
class ToGroup:
    number: int


Action = Output | ToGroup


@dataclass(frozen=True, repr=False)
class FlowChange(Brief):
    """One FLOW_MOD; `instruction` None means no instruction at all."""

    command: int
    match: Fields
    priority: int
    actions: tuple[Action, ...] = ()
    instruction: int | None = ofp.OFPIT_APPLY_ACTIONS
    cookie: int = 0
    cookie_mask: int = 0
    flags: int = 0
    out_port: int = ofp.OFPP_ANY
    out_group: int = ofp.OFPG_ANY
    table: int = 0


@dataclass(frozen=True, repr=False)
class GroupBucket(Brief):
    actions: tuple[Action, ...]
    weight: int = 0
    watch_port: int = ofp.OFPP_ANY


@dataclass(frozen=True, repr=False)
class GroupChange(Brief):
    """One GROUP_MOD."""

    command: int
    kind: int
    number: int
    buckets: tuple[GroupBucket, ...] = ()


Change = FlowChange | GroupChange


def encoded(change: Change, xid: int) -> bytes:
    """The request as os-ken writes it."""
    if isinstance(change, GroupChange):
        buckets = [
            parser.OFPBucket(bucket.weight, bucket.watch_port, ofp.OFPG_ANY, _actions(bucket.actions))
            for bucket in change.buckets
        ]
        group = parser.OFPGroupMod(DATAPATH, change.command, change.kind, change.number, buckets)
        return serialized(group, xid)
    instructions = []
    if change.instruction is not None:
        instructions = [parser.OFPInstructionActions(change.instruction, _actions(change.actions))]
    message = parser.OFPFlowMod(
        DATAPATH,
        cookie=change.cookie,
        cookie_mask=change.cookie_mask,
        table_id=change.table,
        command=change.command,
        priority=change.priority,
        out_port=change.out_port,
        out_group=change.out_group,
        flags=change.flags,
        match=parser.OFPMatch(**dict(change.match)),
        instructions=instructions,
    )
    return serialized(message, xid)


def serialized(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def _actions(actions: Sequence[Action]) -> list[Any]:
    return [
        parser.OFPActionOutput(action.port, action.max_len)
        if isinstance(action, Output)
        else parser.OFPActionGroup(action.number)
        for action in actions
    ]


# Matches: each form is a function that draws the values of its fields.


def one(values: Sequence[Value]) -> st.SearchStrategy[Value]:
    return st.sampled_from(values)


def _fields(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[Fields]:
    return st.fixed_dictionaries(values).map(lambda chosen: tuple(chosen.items()))


def _five_tuple(proto: int, name: str) -> st.SearchStrategy[Fields]:
    return _fields(
        eth_type=st.just(IPV4),
        ip_proto=st.just(proto),
        ipv4_src=one(ADDRESSES[:2]),
        ipv4_dst=one(ADDRESSES[:2]),
        **{f"{name}_src": one(L4_PORTS[:2]), f"{name}_dst": one(L4_PORTS[:2])},
    )


FORMS: tuple[st.SearchStrategy[Fields], ...] = (
    st.just(()),
    _fields(eth_type=one(ETH_TYPES)),
    _fields(eth_dst=one(MACS)),
    _fields(in_port=one(PORTS), eth_dst=one(MACS)),
    _fields(in_port=one(PORTS), eth_src=one(MACS[:2]), eth_dst=one(MACS)),
    _fields(eth_type=st.just(IPV4), ipv4_dst=one(ADDRESSES)),
    _fields(eth_type=st.just(IPV4), ipv4_src=one(ADDRESSES), ipv4_dst=one(ADDRESSES)),
    _fields(eth_type=st.just(IPV4), ip_proto=st.just(UDP), udp_dst=one(L4_PORTS)),
    _fields(in_port=one(PORTS), eth_type=st.just(IPV4), ip_proto=st.just(UDP), udp_dst=one(L4_PORTS)),
    _five_tuple(TCP, "tcp") | _five_tuple(UDP, "udp"),
)


@st.composite
def keys(draw: st.DrawFn) -> tuple[Fields, int]:
    """A match, and a priority that is its form's alone.  Priority 0 is the table-miss entry's."""
    form = draw(st.integers(0, len(FORMS) - 1))
    return draw(FORMS[form]), draw(st.integers(0, N_BASES - 1)) * 16 + form


@st.composite
def wider(draw: st.DrawFn, match: Fields) -> Fields:
    """The match with some of its fields left out, and whatever cannot be without them."""
    kept = dict(match)
    for name in draw(st.lists(one([name for name, _ in match] or ["none"]), max_size=2)):
        kept.pop(name, None)
    if "eth_type" not in kept:
        kept = {name: value for name, value in kept.items() if name in ("in_port", "eth_src", "eth_dst")}
    if "ip_proto" not in kept:
        kept = {name: value for name, value in kept.items() if not name.startswith(("tcp", "udp"))}
    return tuple(kept.items())


# Actions.

OUTPUTS = one((*PORTS, *PORTS, ofp.OFPP_IN_PORT, ofp.OFPP_FLOOD, ofp.OFPP_ALL)).map(Output)
TO_CONTROLLER = one((0, 20, 128, ofp.OFPCML_NO_BUFFER)).map(
    lambda max_len: Output(ofp.OFPP_CONTROLLER, max_len)
)
ACTION_LISTS: st.SearchStrategy[tuple[Action, ...]] = st.one_of(
    st.tuples(OUTPUTS),
    st.tuples(one(PORTS).map(Output)),
    *[st.tuples(one((*GROUPS[:2] * 2, GROUPS[2])).map(ToGroup))] * 4,
    st.tuples(TO_CONTROLLER),
    st.lists(OUTPUTS | TO_CONTROLLER, min_size=2, max_size=4).map(tuple),
    st.just(()),
)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[int | None, tuple[Action, ...]]:
    """WRITE_ACTIONS with one action at most: an action set has no order and keeps one output.

    Nor with one to the controller: OpenFlow leaves open whether a table-miss entry's then says
    OFPR_NO_MATCH (ours) or OFPR_ACTION (Open vSwitch).
    """
    actions = draw(ACTION_LISTS)
    kind = draw(one((*[ofp.OFPIT_APPLY_ACTIONS] * 6, ofp.OFPIT_WRITE_ACTIONS, None)))
    if kind is None:
        return None, ()
    if kind == ofp.OFPIT_WRITE_ACTIONS and (len(actions) > 1 or ofp.OFPP_CONTROLLER in map(_target, actions)):
        kind = ofp.OFPIT_APPLY_ACTIONS
    return kind, actions


def _target(action: Action) -> int:
    return action.port if isinstance(action, Output) else action.number


COOKIES = one((0, 1, 2, 0xAB00, 0xAB01))
COOKIE_MASKS = one((0, 0, 0, 0xFF00, 1, 2**64 - 1))


@st.composite
def additions(draw: st.DrawFn) -> FlowChange:
    match, priority = draw(keys())
    kind, actions = draw(instructions())
    flags = draw(one((0, 0, 0, ofp.OFPFF_RESET_COUNTS, ofp.OFPFF_SEND_FLOW_REM)))
    return FlowChange(ofp.OFPFC_ADD, match, priority, actions, kind, draw(COOKIES), flags=flags)


@st.composite
def modifications(draw: st.DrawFn, known: Sequence[tuple[Fields, int]]) -> FlowChange:
    match, priority = draw(one(known)) if known else draw(keys())
    kind, actions = draw(instructions())
    command = draw(one((ofp.OFPFC_MODIFY, ofp.OFPFC_MODIFY_STRICT)))
    if command == ofp.OFPFC_MODIFY:
        match = draw(wider(match))
    flags = draw(one((0, 0, ofp.OFPFF_RESET_COUNTS)))
    return FlowChange(command, match, priority, actions, kind, draw(COOKIES), draw(COOKIE_MASKS), flags=flags)


@st.composite
def deletions(draw: st.DrawFn, known: Sequence[tuple[Fields, int]]) -> FlowChange:
    match, priority = draw(one(known)) if known else draw(keys())
    command = draw(one((ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)))
    if command == ofp.OFPFC_DELETE:
        match = draw(wider(match))
    return FlowChange(
        command,
        match,
        priority,
        instruction=None,
        cookie=draw(COOKIES),
        cookie_mask=draw(COOKIE_MASKS),
        out_port=draw(one((ofp.OFPP_ANY, ofp.OFPP_ANY, *PORTS))),
        out_group=draw(one((ofp.OFPG_ANY, ofp.OFPG_ANY, *GROUPS))),
        table=draw(one((0, ofp.OFPTT_ALL))),
    )


@st.composite
def group_changes(draw: st.DrawFn, added: int | None = None) -> GroupChange:
    """Any change of a group, or the adding of group `added`."""
    if added is not None:
        return draw(_group(ofp.OFPGC_ADD, added))
    command = draw(one((ofp.OFPGC_ADD, ofp.OFPGC_ADD, ofp.OFPGC_ADD, ofp.OFPGC_MODIFY, ofp.OFPGC_DELETE)))
    number = draw(one(GROUPS))
    if command == ofp.OFPGC_DELETE:
        return GroupChange(command, ofp.OFPGT_ALL, draw(one((number, number, number, ofp.OFPG_ALL))))
    return draw(_group(command, number))


@st.composite
def _group(draw: st.DrawFn, command: int, number: int) -> GroupChange:
    kind = draw(one((ofp.OFPGT_ALL, ofp.OFPGT_SELECT, ofp.OFPGT_INDIRECT, ofp.OFPGT_FF)))
    outputs = st.tuples(one(PORTS).map(Output))
    match kind:
        case ofp.OFPGT_SELECT:  # which bucket is the switch's own choice: more are tested elsewhere
            buckets = [GroupBucket(draw(outputs), weight=draw(st.integers(1, 9)))]
        case ofp.OFPGT_INDIRECT:
            buckets = [GroupBucket(draw(outputs))]
        case ofp.OFPGT_FF:
            buckets = [
                GroupBucket(draw(outputs), watch_port=draw(one(PORTS)))
                for _ in range(draw(st.integers(0, 3)))
            ]
        case _:
            buckets = [GroupBucket(draw(outputs)) for _ in range(draw(st.integers(0, 4)))]
    return GroupChange(command, kind, number, tuple(buckets))
