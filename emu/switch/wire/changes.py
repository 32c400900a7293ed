"""Checks what controllers ask to change, and turns it into operations on the switch's table.

FLOW_MOD, GROUP_MOD, PACKET_OUT, PORT_MOD and TABLE_MOD.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from gradwire.emu.switch.plane.counters import Instruments
from gradwire.emu.switch.ports import SwitchPort
from gradwire.emu.switch.table.numbers import TableFullError
from gradwire.emu.switch.table.planeoperations import EnablePort, Operation, SendPacket
from gradwire.emu.switch.table.table import FlowTable
from gradwire.emu.switch.wire import decode, requests
from gradwire.emu.switch.wire.adds import Adds
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.planning.openflow.entries import (
    FROM_PARENT,
    MAX_BUCKETS,
    NO_COOKIE,
    Aggregate,
    Entry,
    FlowGone,
    Forward,
    GroupBucket,
    GroupKind,
    Output,
    PacketIn,
    Reserved,
    Why,
)
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, Form, Match, form

_DELETES = (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
_FLAGS = (
    ofp.OFPFF_SEND_FLOW_REM
    | ofp.OFPFF_CHECK_OVERLAP
    | ofp.OFPFF_RESET_COUNTS
    | ofp.OFPFF_NO_PKT_COUNTS  # counting all the same is allowed
    | ofp.OFPFF_NO_BYT_COUNTS
)
_PLACES = (Reserved.IN_PORT, Reserved.FLOOD, Reserved.ALL, Reserved.CONTROLLER)
_TABLE_MOD = struct.Struct(ofp.OFP_TABLE_MOD_PACK_STR)
_NOWHERE = (ofp.OFPP_CONTROLLER, ofp.OFPP_ANY)  # in_port of a packet that came in through no port


def change_flows(
    table: FlowTable, ports: Collection[int], body: bytes, now_ns: int
) -> Iterable[Operation | FlowGone]:
    """Raise ProtocolError, or return what is to be done."""
    mod = decode.flow_mod(body)
    _check_flow_mod(mod, table, ports)
    resets = bool(mod.flags & ofp.OFPFF_RESET_COUNTS)
    if mod.command in _DELETES:
        return table.delete(mod.selection())
    if mod.command != ofp.OFPFC_ADD:
        return table.modify(mod.selection(), mod.actions, resets)
    chosen = mod.match, mod.priority, mod.actions, mod.cookie, mod.flags
    try:
        return table.add(Entry(*chosen, 0, now_ns, mod.idle_s, mod.hard_s), resets)
    except TableFullError as error:
        raise _flow_error(ofp.OFPFMFC_TABLE_FULL) from error


def add_flows(
    table: FlowTable, ports: Collection[int], adds: Adds, now_ns: int
) -> Iterable[Operation] | None:
    """Carry out many FLOW_MODs at once, if nothing is wrong with any of them and all matches are new.

    Else return None, and do nothing: one at a time each gets what it deserves.
    """
    if adds.flags & ~_FLAGS or adds.flags & ofp.OFPFF_CHECK_OVERLAP:
        return None
    try:
        actions = {octets: decode.instructions(octets) for octets in set(adds.instructions)}
        for chosen in actions.values():
            if any(isinstance(action, Aggregate) for action in chosen.given):
                return None
            check_actions(cast(tuple[Forward, ...], chosen.given), table, ports)
    except ProtocolError:
        return None
    given = [actions[octets] for octets in adds.instructions]
    return table.add_new(adds.matches, adds.priorities, given, adds.cookies, adds.flags, now_ns)


def change_groups(
    table: FlowTable, ports: Collection[int], body: bytes, now_ns: int
) -> Iterator[Operation | FlowGone]:
    """Raise ProtocolError before the first operation, or not at all."""
    mod = requests.group_mod(body)
    if mod.command == ofp.OFPGC_DELETE:
        chosen = sorted(table.groups) if mod.number == ofp.OFPG_ALL else [mod.number]
        for number in chosen:
            if number in table.groups:  # deleting a group that does not exist succeeds
                yield from table.delete_group(number)
        return
    _check_group_mod(mod, table, ports)
    try:
        yield from table.set_group(mod.number, mod.group, now_ns)
    except TableFullError as error:
        raise _group_error(ofp.OFPGMFC_OUT_OF_GROUPS) from error
    except ValueError as error:
        raise _group_error(ofp.OFPGMFC_WEIGHT_UNSUPPORTED) from error


def check_actions(
    actions: Iterable[Forward], table: FlowTable, ports: Collection[int], places: Collection[int] = _PLACES
) -> None:
    """Raise ProtocolError for a port or a group that does not exist; `places` are the reserved ports."""
    for action in actions:
        if isinstance(action, Output):
            if action.port not in ports and action.port not in places:
                raise decode.bad_action(ofp.OFPBAC_BAD_OUT_PORT)
        elif action.group not in table.groups:
            raise decode.bad_action(ofp.OFPBAC_BAD_OUT_GROUP)


def _check_flow_mod(mod: decode.FlowMod, table: FlowTable, ports: Collection[int]) -> None:
    is_delete = mod.command in _DELETES
    if mod.command > ofp.OFPFC_DELETE_STRICT:
        raise _flow_error(ofp.OFPFMFC_BAD_COMMAND)
    if mod.table != 0 and not (is_delete and mod.table == ofp.OFPTT_ALL):
        raise _flow_error(ofp.OFPFMFC_BAD_TABLE_ID)
    if mod.flags & ~_FLAGS:
        raise _flow_error(ofp.OFPFMFC_BAD_FLAGS)
    if is_delete:
        return
    if mod.has_buffer:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BUFFER_UNKNOWN)
    match = mod.match
    if mod.command == ofp.OFPFC_ADD:
        if form(match) is None:
            raise ProtocolError(ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_WILDCARDS)
        if match.in_port is not None and match.in_port not in ports:
            raise ProtocolError(ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_VALUE)
    for action in mod.actions.given:
        if isinstance(action, Aggregate):
            _check_aggregate(mod, action, table, ports)
        else:
            check_actions((action,), table, ports)
    checks_overlap = mod.command == ofp.OFPFC_ADD and mod.flags & ofp.OFPFF_CHECK_OVERLAP
    if checks_overlap and table.has_overlap(match, mod.priority):
        raise _flow_error(ofp.OFPFMFC_OVERLAP)


def _check_aggregate(mod: decode.FlowMod, rule: Aggregate, table: FlowTable, ports: Collection[int]) -> None:
    if mod.command != ofp.OFPFC_ADD:
        raise _flow_error(ofp.OFPFMFC_BAD_COMMAND)
    parent = () if rule.parent_port is None else (rule.parent_port,)
    if not all(port in ports for port in (*rule.ports, *parent)):
        raise decode.bad_action(ofp.OFPBAC_BAD_OUT_PORT)
    if not _is_of_child(mod.match, rule):
        raise decode.bad_action(ofp.OFPBAC_MATCH_INCONSISTENT)
    job = table.jobs.held.get(rule.job)
    if job is None:
        return
    if job.rule._replace(child=rule.child) != rule:
        raise decode.bad_action(ofp.OFPBAC_BAD_ARGUMENT)
    if job.dport != mod.match.dport:
        raise decode.bad_action(ofp.OFPBAC_MATCH_INCONSISTENT)


def _is_of_child(match: Match, rule: Aggregate) -> bool:
    """It matches what comes from the rule's child, or its parent, to one UDP port."""
    in_port = rule.parent_port if rule.child == FROM_PARENT else rule.ports[rule.child]
    is_udp = form(match) is Form.IN_UDP_DST and match.eth_type == ETH_TYPE_IPV4
    return is_udp and match.in_port == in_port


def _check_group_mod(mod: requests.GroupMod, table: FlowTable, ports: Collection[int]) -> None:
    exists = mod.number in table.groups
    if mod.command not in (ofp.OFPGC_ADD, ofp.OFPGC_MODIFY):
        raise _group_error(ofp.OFPGMFC_BAD_COMMAND)
    if mod.group.kind not in tuple(GroupKind):
        raise _group_error(ofp.OFPGMFC_BAD_TYPE)
    if mod.number > ofp.OFPG_MAX:
        raise _group_error(ofp.OFPGMFC_INVALID_GROUP)
    if mod.command == ofp.OFPGC_ADD and exists:
        raise _group_error(ofp.OFPGMFC_GROUP_EXISTS)
    if mod.command == ofp.OFPGC_MODIFY and not exists:
        raise _group_error(ofp.OFPGMFC_UNKNOWN_GROUP)
    if mod.group.kind == GroupKind.INDIRECT and len(mod.group.buckets) != 1:
        raise _group_error(ofp.OFPGMFC_INVALID_GROUP)
    if len(mod.group.buckets) > MAX_BUCKETS:
        raise _group_error(ofp.OFPGMFC_OUT_OF_BUCKETS)
    for bucket in mod.group.buckets:
        _check_bucket(bucket, mod.group.kind, table, ports)


def _check_bucket(bucket: GroupBucket, kind: int, table: FlowTable, ports: Collection[int]) -> None:
    check_actions(bucket.outputs, table, ports)
    if kind == GroupKind.FAILOVER:
        if bucket.watch_port is None:
            raise _group_error(ofp.OFPGMFC_INVALID_GROUP)
        if bucket.watch_port not in ports:
            raise _group_error(ofp.OFPGMFC_BAD_WATCH)
    elif bucket.watch_port is not None:
        raise _group_error(ofp.OFPGMFC_WATCH_UNSUPPORTED)


def _flow_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_FLOW_MOD_FAILED, code)


def _group_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_GROUP_MOD_FAILED, code)


def send_packet(
    table: FlowTable, ports: Mapping[int, SwitchPort], body: bytes
) -> Iterator[SendPacket | PacketIn]:
    """PACKET_OUT: its actions in order, each on the frame as it came.  Raise ProtocolError."""
    asked = requests.packet_out(body)
    if asked.in_port not in ports and asked.in_port not in _NOWHERE:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT)
    check_actions(asked.actions, table, ports, tuple(Reserved))
    for action in asked.actions:
        if isinstance(action, Output) and action.port == Reserved.CONTROLLER:
            yield PacketIn(asked.in_port, Why.ACTION, NO_COOKIE, len(asked.frame), asked.frame)
        else:
            yield SendPacket(asked.in_port, action, asked.frame)


def change_port(ports: Mapping[int, SwitchPort], instruments: Instruments, body: bytes) -> EnablePort:
    """PORT_MOD: only up and down.  Raise ProtocolError."""
    asked = requests.port_mod(body)
    port = ports.get(asked.port)
    if port is None:
        raise _port_error(ofp.OFPPMFC_BAD_PORT)
    link = instruments.link(port.interface)
    if asked.mac != link.mac:
        raise _port_error(ofp.OFPPMFC_BAD_HW_ADDR)
    if asked.mask & ~ofp.OFPPC_PORT_DOWN:
        raise _port_error(ofp.OFPPMFC_BAD_CONFIG)
    if asked.advertise:
        raise _port_error(ofp.OFPPMFC_BAD_ADVERTISE)
    return EnablePort(asked.port, not asked.config & ofp.OFPPC_PORT_DOWN if asked.mask else link.is_enabled)


def check_table_mod(body: bytes) -> None:
    """There is one table, and nothing about it to be configured.  Raise ProtocolError."""
    if len(body) != _TABLE_MOD.size:
        raise bad_length()
    table, config = _TABLE_MOD.unpack(body)
    if table not in (0, ofp.OFPTT_ALL):
        raise ProtocolError(ofp.OFPET_TABLE_MOD_FAILED, ofp.OFPTMFC_BAD_TABLE)
    if config:
        raise ProtocolError(ofp.OFPET_TABLE_MOD_FAILED, ofp.OFPTMFC_BAD_CONFIG)


def _port_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_PORT_MOD_FAILED, code)
