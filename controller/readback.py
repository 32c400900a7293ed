"""Reads rules and groups back from a switch, and compares them with what it was sent.

os-ken reads 15,000 flow statistics a second, which with 100,000 rules would be most of the start.  Here
its reply takes only the numbers apart, and the rest, match and instructions, is compared as bytes: what
a switch sends back is what it was sent, unless it orders match fields in its own way as Open vSwitch does.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from ipaddress import IPv4Address
from typing import Any

from gradwire.controller.experimenter import aggregate_of
from gradwire.controller.openflow import SwitchTable
from gradwire.controller.ryu_api import ofp, parser
from gradwire.planning.openflow.match import PROTO_TCP, Match
from gradwire.planning.openflow.rules import Choice, GroupKey, Rule

_FIXED = struct.Struct(ofp.OFP_FLOW_STATS_0_PACK_STR)
_HEADER = struct.Struct(ofp.OFP_HEADER_PACK_STR)
_FLOW_MOD = struct.Struct(ofp.OFP_FLOW_MOD_PACK_STR0)
_FLOW_MOD_COMMAND, _FLOW_MOD_PRIORITY = 3, 6  # which of the numbers that unpacks
_FLOW_MOD_MATCH_AT = _HEADER.size + _FLOW_MOD.size
_CHOICES: dict[int, Choice] = {ofp.OFPGT_SELECT: "spread", ofp.OFPGT_FF: "failover"}


class UnknownRule(ValueError):
    """A switch reports a rule or a group that none of ours could be."""


class FlowStats:
    """One entry of a flow statistics reply, with os-ken's names; match and instructions when asked for."""

    def __init__(self, octets: bytes) -> None:
        (
            self.length,
            self.table_id,
            self.duration_sec,
            self.duration_nsec,
            self.priority,
            self.idle_timeout,
            self.hard_timeout,
            self.flags,
            self.cookie,
            self.packet_count,
            self.byte_count,
        ) = _FIXED.unpack_from(octets)
        self.match_and_instructions = octets[_FIXED.size :]

    @classmethod
    def parser(cls, buffer: bytes, offset: int) -> "FlowStats":
        """Raise struct.error or ValueError for an entry that is cut short."""
        length = int.from_bytes(buffer[offset : offset + 2], "big")
        if length < _FIXED.size or offset + length > len(buffer):
            raise ValueError(f"a flow statistics entry has an impossible length of {length} bytes")
        return cls(bytes(buffer[offset : offset + length]))

    @cached_property
    def match(self) -> Any:
        return parser.OFPMatch.parser(self.match_and_instructions, 0)

    @cached_property
    def instructions(self) -> list[Any]:
        at = (self.match.length + 7) // 8 * 8
        instructions = []
        while at < len(self.match_and_instructions):
            instructions.append(parser.OFPInstruction.parser(self.match_and_instructions, at))
            at += instructions[-1].len
        return instructions


def use_quick_flow_stats() -> None:
    """Let the library make `FlowStats` of flow statistics from now on."""
    parser.OFPFlowStatsReply.cls_stats_body_cls = FlowStats


def complaint(
    sent: bytes, wanted: SwitchTable, entries: Iterable[FlowStats], groups: Iterable[Any]
) -> str | None:
    """What is wrong with the rules and groups of a switch that was sent `sent`; None if nothing is."""
    entries = tuple(entries)
    try:
        keys = group_keys(groups)
        if keys != {number: key for key, number in wanted.groups.items()}:
            return f"did not install the groups it was sent: sent {len(wanted.groups)}, installed {len(keys)}"
        if Counter((entry.priority, entry.match_and_instructions) for entry in entries) == Counter(
            _sent_rules(sent)
        ):
            return None
        present = Counter(installed(entries, keys))
    except UnknownRule as error:
        return str(error)
    missing, foreign = Counter(wanted.rules) - present, present - Counter(wanted.rules)
    if not missing and not foreign:
        return None
    example = next(iter(missing or foreign))
    return (
        f"did not install the rules it was sent: {missing.total()} missing, "
        f"{foreign.total()} that were not sent, such as {example}"
    )


def installed(entries: Iterable[FlowStats], groups: Mapping[int, GroupKey]) -> Iterator[Rule]:
    """The rules that a switch says it has.  Raise UnknownRule."""
    for entry in entries:
        match = _our_match(entry.match)
        actions = [action for instruction in entry.instructions for action in instruction.actions]
        if len(actions) == 1 and (aggregate := aggregate_of(actions[0])):
            yield Rule(entry.priority, match, (), aggregate=aggregate)
        else:
            choice, ports = _output(actions, groups)
            yield Rule(entry.priority, match, ports, choice)


def group_keys(descriptions: Iterable[Any]) -> dict[int, GroupKey]:
    """What the groups of a switch do, by number.  Raise UnknownRule."""
    keys: dict[int, GroupKey] = {}
    for group in descriptions:
        choice = _CHOICES.get(group.type)
        if choice is None:
            raise UnknownRule(f"reports group {group.group_id} of type {group.type}, which we never install")
        ports = [_bucket_port(bucket, choice) for bucket in group.buckets]
        if None in ports:
            raise UnknownRule(
                f"reports group {group.group_id} with the buckets {group.buckets}, which we never install"
            )
        keys[group.group_id] = choice, tuple(port for port in ports if port is not None)
    return keys


def _bucket_port(bucket: Any, choice: str) -> int | None:
    """The port that a group bucket sends to; None if it does anything else, or watches another one."""
    match bucket.actions:
        case [parser.OFPActionOutput(port=int() as port)] if choice == "spread" or bucket.watch_port == port:
            return port
        case _:
            return None


def _sent_rules(sent: bytes) -> Iterator[tuple[int, bytes]]:
    """Priority, and match and instructions, of every FLOW_MOD that adds a rule."""
    at = 0
    while at < len(sent):
        _, kind, length, _ = _HEADER.unpack_from(sent, at)
        if kind == ofp.OFPT_FLOW_MOD:
            numbers = _FLOW_MOD.unpack_from(sent, at + _HEADER.size)
            if numbers[_FLOW_MOD_COMMAND] == ofp.OFPFC_ADD:
                yield numbers[_FLOW_MOD_PRIORITY], sent[at + _FLOW_MOD_MATCH_AT : at + length]
        at += length


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
        in_port=fields.pop("in_port", None),
    )
    if fields:
        raise UnknownRule(
            f"reports a rule that matches {', '.join(sorted(fields))}, which our rules never match"
        )
    return ours


def _address(text: str | None) -> int | None:
    return None if text is None else int(IPv4Address(text))


def _output(actions: list[Any], groups: Mapping[int, GroupKey]) -> GroupKey:
    match actions:
        case [parser.OFPActionOutput(port=port)]:
            return "spread", (port,)
        case [parser.OFPActionGroup(group_id=number)] if number in groups:
            return groups[number]
        case _:
            raise UnknownRule(f"reports a rule with the actions {actions}, which we never install")
