"""Rules as OpenFlow 1.3 messages, and messages as rules.  Builds and reads, sends nothing."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from controller.rules import Rule
from controller.ryu_api import ofp, parser
from emu.switch.match import PROTO_TCP, Match

_U16, _U32 = struct.Struct("!H"), struct.Struct("!I")
# Numbers whose bytes stand nowhere else in a FLOW_MOD; the transaction number is in bytes 4 to 7.
_SRC_MARK, _DST_MARK, _ARGUMENT_MARK = 0xA1A2A3A4, 0xB1B2B3B4, 0xC1C2C3C4
_SPORT_MARK, _DPORT_MARK, _PRIORITY_MARK = 0xD1D2, 0xD3D4, 0xD5D6
_AFTER_HEADER = 8


class UnknownRule(ValueError):
    """A switch reports a rule that none of ours could be."""


def program(datapath: Any, rules: Iterable[Rule]) -> bytes:
    """All messages that one switch needs, ready to send: first forget, then groups, rules, a barrier.

    In one piece, because os-ken's queue and thread per message take as long as building them; and
    rules of one shape from one template of os-ken's making: it builds 7,000 rules/s, templates 150,000.
    """
    rules = tuple(rules)
    several = sorted({rule.ports for rule in rules if len(rule.ports) > 1})
    groups = {ports: number for number, ports in enumerate(several, start=1)}
    encoded = _serialized(datapath, _forget(datapath))
    encoded += _serialized(datapath, (_select_group(datapath, n, ports) for ports, n in groups.items()))
    templates: dict[tuple[Match, bool], _Template] = {}
    for rule in rules:
        is_grouped = rule.ports in groups
        shape = _marked(rule.match), is_grouped
        if shape not in templates:
            templates[shape] = _template(datapath, *shape)
        encoded += templates[shape].filled(rule, groups[rule.ports] if is_grouped else rule.ports[0])
    return bytes(encoded + _serialized(datapath, [parser.OFPBarrierRequest(datapath)]))


def installed(flow_stats: Iterable[Any], group_descriptions: Iterable[Any]) -> Iterator[Rule]:
    """The rules that a switch says it has.  Raise UnknownRule."""
    groups = {
        group.group_id: tuple(bucket.actions[0].port for bucket in group.buckets)
        for group in group_descriptions
    }
    for flow in flow_stats:
        yield Rule(flow.priority, _our_match(flow.match), _ports(flow.instructions, groups))


def _serialized(datapath: Any, messages: Iterable[Any]) -> bytearray:
    encoded = bytearray()
    for message in messages:
        datapath.set_xid(message)
        message.serialize()
        encoded += message.buf
    return encoded


def _forget(datapath: Any) -> Iterator[Any]:
    yield parser.OFPFlowMod(
        datapath,
        command=ofp.OFPFC_DELETE,
        table_id=ofp.OFPTT_ALL,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
    )
    yield parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, group_id=ofp.OFPG_ALL)


@dataclass(frozen=True, slots=True)
class _Template:
    """A FLOW_MOD with marks where a rule's own numbers go; an offset of None is not in the message."""

    octets: bytes
    priority_at: int
    argument_at: int
    src_at: int | None
    dst_at: int | None
    sport_at: int | None
    dport_at: int | None

    def filled(self, rule: Rule, argument: int) -> bytearray:
        octets = bytearray(self.octets)
        _U16.pack_into(octets, self.priority_at, rule.priority)
        _U32.pack_into(octets, self.argument_at, argument)
        for number, offset, value in (
            (_U32, self.src_at, rule.match.ipv4_src),
            (_U32, self.dst_at, rule.match.ipv4_dst),
            (_U16, self.sport_at, rule.match.sport),
            (_U16, self.dport_at, rule.match.dport),
        ):
            if offset is not None:
                number.pack_into(octets, offset, value)
        return octets


def _marked(match: Match) -> Match:
    """The match with a mark in place of each number that differs between rules of one shape."""
    return Match(
        eth_type=match.eth_type,
        ip_proto=match.ip_proto,
        ipv4_src=None if match.ipv4_src is None else _SRC_MARK,
        ipv4_dst=None if match.ipv4_dst is None else _DST_MARK,
        sport=None if match.sport is None else _SPORT_MARK,
        dport=None if match.dport is None else _DPORT_MARK,
    )


def _template(datapath: Any, marked: Match, is_grouped: bool) -> _Template:
    action = (parser.OFPActionGroup if is_grouped else parser.OFPActionOutput)(_ARGUMENT_MARK)
    apply = parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [action])
    message = parser.OFPFlowMod(
        datapath, priority=_PRIORITY_MARK, match=_ofp_match(marked), instructions=[apply]
    )
    octets = bytes(_serialized(datapath, [message]))
    return _Template(
        octets,
        priority_at=octets.index(_U16.pack(_PRIORITY_MARK), _AFTER_HEADER),
        argument_at=octets.index(_U32.pack(_ARGUMENT_MARK), _AFTER_HEADER),
        src_at=_position(octets, _U32, marked.ipv4_src),
        dst_at=_position(octets, _U32, marked.ipv4_dst),
        sport_at=_position(octets, _U16, marked.sport),
        dport_at=_position(octets, _U16, marked.dport),
    )


def _position(octets: bytes, number: struct.Struct, mark: int | None) -> int | None:
    """Where a mark stands behind the header, whose transaction number may look like one."""
    return None if mark is None else octets.index(number.pack(mark), _AFTER_HEADER)


def _select_group(datapath: Any, number: int, ports: tuple[int, ...]) -> Any:
    buckets = [parser.OFPBucket(weight=1, actions=[parser.OFPActionOutput(port)]) for port in ports]
    return parser.OFPGroupMod(datapath, ofp.OFPGC_ADD, ofp.OFPGT_SELECT, number, buckets)


def _ofp_match(match: Match) -> Any:
    fields: dict[str, int | str] = {}
    if match.eth_type is not None:
        fields["eth_type"] = match.eth_type
    if match.ip_proto is not None:
        fields["ip_proto"] = match.ip_proto
    if match.ipv4_src is not None:
        fields["ipv4_src"] = str(IPv4Address(match.ipv4_src))
    if match.ipv4_dst is not None:
        fields["ipv4_dst"] = str(IPv4Address(match.ipv4_dst))
    protocol = "tcp" if match.ip_proto == PROTO_TCP else "udp"
    if match.sport is not None:
        fields[f"{protocol}_src"] = match.sport
    if match.dport is not None:
        fields[f"{protocol}_dst"] = match.dport
    return parser.OFPMatch(**fields)


def _our_match(match: Any) -> Match:
    fields = dict(match.items())
    protocol = "tcp" if fields.get("ip_proto") == PROTO_TCP else "udp"
    ours = Match(
        eth_type=fields.pop("eth_type", None),
        ip_proto=fields.pop("ip_proto", None),
        ipv4_src=_address(fields.pop("ipv4_src", None)),
        ipv4_dst=_address(fields.pop("ipv4_dst", None)),
        sport=fields.pop(f"{protocol}_src", None),
        dport=fields.pop(f"{protocol}_dst", None),
    )
    if fields:
        raise UnknownRule(f"a rule matches {', '.join(sorted(fields))}, which no rule of ours does")
    return ours


def _address(text: str | None) -> int | None:
    return None if text is None else int(IPv4Address(text))


def _ports(instructions: Iterable[Any], groups: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    actions = [action for instruction in instructions for action in instruction.actions]
    match actions:
        case [parser.OFPActionOutput(port=port)]:
            return (port,)
        case [parser.OFPActionGroup(group_id=number)] if number in groups:
            return groups[number]
        case _:
            raise UnknownRule(f"a rule has the actions {actions}, which no rule of ours has")
