"""Builds FLOW_MOD messages for many rules at a time.

os-ken builds 7,000 messages/s.  Here it makes one of each shape, with marks where a rule's own numbers go,
and those of all rules of the shape are packed between the rest: 600,000/s.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address
from itertools import repeat
from typing import Any

from gradwire.controller import experimenter
from gradwire.controller.ryu_api import ofp, parser
from gradwire.planning.openflow.match import PROTO_TCP, Match
from gradwire.planning.openflow.rules import Rule

# Numbers whose bytes occur nowhere else in a FLOW_MOD after its header, and how struct writes them.
_PRIORITY_MARK, _ARGUMENT_MARK = 0xD5D6, 0xC1C2C3C4
_MARKS = {
    "ipv4_src": (0xA1A2A3A4, "I"),
    "ipv4_dst": (0xB1B2B3B4, "I"),
    "sport": (0xD1D2, "H"),
    "dport": (0xD3D4, "H"),
    "in_port": (0xE1E2E3E4, "I"),
    "priority": (_PRIORITY_MARK, "H"),
    "argument": (_ARGUMENT_MARK, "I"),
}
_AFTER_HEADER, _XID_AT = 8, 4
_templates: "dict[_Shape, _Template]" = {}

_Shape = tuple[int, bool | None, tuple[object, ...]]  # command, whether there is a group, what is matched


class FlowMods:
    """Makes the messages for one switch; `datapath` gives the transaction numbers.

    Messages of one shape come one after the other, so a switch can read them at once, and have one number.
    """

    def __init__(self, datapath: Any) -> None:
        self._datapath = datapath

    def carry_out(self, rules: Iterable[Rule], command: int, group_of: Callable[[Rule], int | None]) -> bytes:
        """Add or change rules: packets go to the rule's group, or out of its only port, or are added up."""
        octets: list[bytes] = []
        of_shape: dict[_Shape, tuple[list[Rule], list[int]]] = {}
        for rule in rules:
            if rule.aggregate:  # no two are alike, and there are few
                action = experimenter.action(rule.aggregate)
                octets.append(_flow_mod(self._datapath, rule.match, command, rule.priority, [action]))
                continue
            group = group_of(rule)
            shape = _shape(rule.match, command, group is not None)
            alike, arguments = of_shape.setdefault(shape, ([], []))
            alike.append(rule)
            arguments.append(rule.ports[0] if group is None else group)
        octets += [self._filled(shape, *columns) for shape, columns in of_shape.items()]
        return b"".join(octets)

    def delete(self, rules: Iterable[Rule]) -> bytes:
        """Delete rules by their match and priority."""
        of_shape: dict[_Shape, list[Rule]] = {}
        for rule in rules:
            of_shape.setdefault(_shape(rule.match, ofp.OFPFC_DELETE_STRICT, None), []).append(rule)
        return b"".join(self._filled(shape, alike) for shape, alike in of_shape.items())

    def _filled(self, shape: _Shape, alike: Sequence[Rule], arguments: Sequence[int] = ()) -> bytes:
        if shape not in _templates:
            _templates[shape] = _template(self._datapath, alike[0].match, *shape[:2])
        return _templates[shape].filled(_next_xid(self._datapath), alike, arguments)


def _shape(match: Match, command: int, is_grouped: bool | None) -> _Shape:
    """What messages with the same template have in common; `is_grouped` None: they do not say what to do
    with packets.
    """
    eth_type, src, dst, proto, sport, dport, in_port, _, _ = match
    missing = src is None, dst is None, sport is None, dport is None, in_port is None
    return command, is_grouped, (eth_type, proto, missing)


def serialized(datapath: Any, messages: Iterable[Any]) -> bytes:
    """The library's messages as bytes, each with a transaction number of the datapath."""
    encoded = bytearray()
    for message in messages:
        datapath.set_xid(message)
        message.serialize()
        encoded += message.buf
    return bytes(encoded)


def numbered(datapath: Any, octets: bytes) -> bytes:
    """A message with another transaction number, one of the datapath."""
    return octets[:_XID_AT] + _next_xid(datapath).to_bytes(4, "big") + octets[_AFTER_HEADER:]


def _next_xid(datapath: Any) -> int:
    message = parser.OFPBarrierRequest(datapath)
    datapath.set_xid(message)
    xid: int = message.xid
    return xid


class _Template:
    """A FLOW_MOD, by turns of bytes that are the same in all and a number, the first the transaction's."""

    def __init__(self, octets: bytes, marked: Iterable[str]) -> None:
        """`marked` are the names of the marks that are there."""
        placed = [(_XID_AT, "xid", "I")]
        for name in marked:
            mark, code = _MARKS[name]
            placed.append((octets.index(struct.pack("!" + code, mark), _AFTER_HEADER), name, code))
        placed.sort()
        self._names = [name for _, name, _ in placed]
        self._before: list[bytes] = []
        codes, end = "!", 0
        for at, _, code in placed:
            self._before.append(octets[end:at])
            codes += f"{at - end}s{code}"
            end = at + struct.calcsize("!" + code)
        self._after = octets[end:]
        self._pack = struct.Struct(f"{codes}{len(self._after)}s").pack

    def filled(self, xid: int, rules: Sequence[Rule], arguments: Sequence[int]) -> bytes:
        """One message after the other; `arguments` are the numbers of ports or groups, if there is a mark
        for them.
        """
        columns: dict[str, Iterable[Any]] = dict(
            zip(Match._fields, zip(*[rule.match for rule in rules], strict=True), strict=True)
        )
        columns |= {"xid": repeat(xid), "priority": [rule.priority for rule in rules], "argument": arguments}
        parts: list[Iterable[Any]] = []
        for before, name in zip(self._before, self._names, strict=True):
            parts += (repeat(before), columns[name])
        return b"".join(map(self._pack, *parts, repeat(self._after)))


def _template(datapath: Any, match: Match, command: int, is_grouped: bool | None) -> _Template:
    """Of messages with such a match."""
    marks = {name: mark for name, (mark, _) in _MARKS.items() if getattr(match, name, None) is not None}
    actions = []
    names = [*marks, "priority"]
    if is_grouped is not None:
        actions.append((parser.OFPActionGroup if is_grouped else parser.OFPActionOutput)(_ARGUMENT_MARK))
        names.append("argument")
    octets = _flow_mod(datapath, match._replace(**marks), command, _PRIORITY_MARK, actions)
    return _Template(octets, names)


def _flow_mod(datapath: Any, match: Match, command: int, priority: int, actions: list[Any]) -> bytes:
    """Without actions it says nothing of what to do with packets."""
    apply = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    message = parser.OFPFlowMod(
        datapath,
        command=command,
        priority=priority,
        match=_ofp_match(match),
        instructions=apply,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
    )
    return serialized(datapath, [message])


def _ofp_match(match: Match) -> Any:
    fields: dict[str, int | str] = {}
    if match.in_port is not None:
        fields["in_port"] = match.in_port
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
