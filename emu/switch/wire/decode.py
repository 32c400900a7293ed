"""Decodes FLOW_MOD and flow requests; errors are the ones that the specification names.

os-ken's parsers are not used on this side, because they trust their input: a FLOW_MOD with an instruction
of length 0 keeps `OFPFlowMod.parser` in a loop for ever (os-ken 4.2.2), and it has none for GROUP_MOD,
PACKET_OUT and MULTIPART_REQUEST.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gradwire.emu.switch.table.table import Selection
from gradwire.emu.switch.wire import oxm
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.planning.openflow import extension
from gradwire.planning.openflow.entries import MAX_BUCKETS, Action, Actions, Aggregate, Output, ToGroup
from gradwire.planning.openflow.match import Match

_FLOW_MOD = struct.Struct(ofp.OFP_FLOW_MOD_PACK_STR0)
_FLOW_STATS_REQUEST = struct.Struct(ofp.OFP_FLOW_STATS_REQUEST_0_PACK_STR)
_TYPE_LENGTH = struct.Struct("!HH")
_ACTION_OUTPUT = struct.Struct(ofp.OFP_ACTION_OUTPUT_PACK_STR)
_ACTION_GROUP = struct.Struct(ofp.OFP_ACTION_GROUP_PACK_STR)
_ACTIONS_HEADER_NBYTES = 8
_DELETES = (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
_NO_ACTIONS = Actions()
_MANY_ACTIONS = (
    4096  # a fabric's rules have a few hundred; lists of up to this many bytes are cached, the latest ones
)
_USUAL_NBYTES = 64


class FlowMod(NamedTuple):
    """Numbers as in the message; `has_buffer`: it is about a packet too, which a delete never is."""

    command: int
    table: int
    match: Match
    priority: int
    cookie: int
    cookie_mask: int
    out_port: int
    out_group: int
    flags: int
    idle_s: int
    hard_s: int
    has_buffer: bool
    actions: Actions

    def selection(self) -> Selection:
        """What a modify or a delete is about."""
        is_strict = self.command in (ofp.OFPFC_MODIFY_STRICT, ofp.OFPFC_DELETE_STRICT)
        is_delete = self.command in _DELETES
        return Selection(
            self.match,
            self.priority if is_strict else None,
            self.cookie,
            self.cookie_mask,
            None if not is_delete or self.out_port == ofp.OFPP_ANY else self.out_port,
            None if not is_delete or self.out_group == ofp.OFPG_ANY else self.out_group,
        )


def flow_mod(body: bytes) -> FlowMod:
    if len(body) < _FLOW_MOD.size:
        raise bad_length()
    fields = _FLOW_MOD.unpack_from(body)
    cookie, cookie_mask, table, command, idle, hard, priority, buffer, out_port, out_group, flags = fields
    matched, offset = oxm.match(body, _FLOW_MOD.size)
    is_delete = command in _DELETES
    return FlowMod(
        command,
        table,
        matched,
        priority,
        cookie,
        cookie_mask,
        out_port,
        out_group,
        flags,
        idle,
        hard,
        buffer != ofp.OFP_NO_BUFFER and not is_delete,
        _NO_ACTIONS if is_delete else instructions(body[offset:]),
    )


def flow_request(body: bytes) -> tuple[int, Selection]:
    """The table and the selection of an OFPMP_FLOW or OFPMP_AGGREGATE request."""
    if len(body) < _FLOW_STATS_REQUEST.size:
        raise bad_length()
    table, out_port, out_group, cookie, cookie_mask = _FLOW_STATS_REQUEST.unpack_from(body)
    matched, offset = oxm.match(body, _FLOW_STATS_REQUEST.size)
    if offset != len(body):
        raise bad_length()
    return table, Selection(
        matched,
        cookie=cookie,
        cookie_mask=cookie_mask,
        out_port=None if out_port == ofp.OFPP_ANY else out_port,
        out_group=None if out_group == ofp.OFPG_ANY else out_group,
    )


def instructions(octets: bytes) -> Actions:
    """A flow entry's instructions: one with actions, or none.  Rules that say the same share the value."""
    return _usual_instructions(octets) if len(octets) <= _USUAL_NBYTES else _instructions(octets)


@lru_cache(_MANY_ACTIONS)
def _usual_instructions(octets: bytes) -> Actions:
    return _instructions(octets)


def _instructions(octets: bytes) -> Actions:
    applied: list[Actions] = []
    for kind, start, end in _structs(octets, 0, len(octets), ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_BAD_LEN):
        match kind:
            case ofp.OFPIT_APPLY_ACTIONS | ofp.OFPIT_WRITE_ACTIONS:
                given = actions(octets, start + _ACTIONS_HEADER_NBYTES, end)
                applied.append(Actions(given, kind))
            case ofp.OFPIT_GOTO_TABLE:
                raise ProtocolError(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_BAD_TABLE_ID)
            case ofp.OFPIT_WRITE_METADATA | ofp.OFPIT_CLEAR_ACTIONS | ofp.OFPIT_METER:
                raise ProtocolError(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_UNSUP_INST)
            case ofp.OFPIT_EXPERIMENTER:
                raise ProtocolError(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_BAD_EXPERIMENTER)
            case _:
                raise ProtocolError(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_UNKNOWN_INST)
    if len(applied) > 1:
        raise ProtocolError(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_UNSUP_INST)
    given = applied[0].given if applied else ()
    if len(given) > 1 and not all(isinstance(each, Output) for each in given):
        # The data plane has for an entry a list of outputs, a group, or a job to add up.
        raise bad_action(ofp.OFPBAC_TOO_MANY)
    return applied[0] if applied else _NO_ACTIONS


def actions(body: bytes, offset: int, end: int) -> tuple[Action, ...]:
    """An action list, in order; an empty one is a drop."""
    parsed: list[Action] = []
    for kind, start, stop in _structs(body, offset, end, ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_LEN):
        if kind == ofp.OFPAT_EXPERIMENTER:
            parsed.append(_aggregate(body[start:stop]))
            continue
        layout = {ofp.OFPAT_OUTPUT: _ACTION_OUTPUT, ofp.OFPAT_GROUP: _ACTION_GROUP}.get(kind)
        if layout is None:
            raise bad_action(ofp.OFPBAC_BAD_TYPE)
        if stop - start != layout.size:
            raise bad_action(ofp.OFPBAC_BAD_LEN)
        if kind == ofp.OFPAT_OUTPUT:
            _, _, port, max_nbytes = layout.unpack_from(body, start)
            parsed.append(Output(port, max_nbytes))
        else:
            parsed.append(ToGroup(layout.unpack_from(body, start)[2]))
    if len(parsed) > MAX_BUCKETS:
        raise bad_action(ofp.OFPBAC_TOO_MANY)
    return tuple(parsed)


def _aggregate(octets: bytes) -> Aggregate:
    try:
        return extension.read_action(octets)
    except extension.ActionError as error:
        raise bad_action(error.wrong) from error


def bad_action(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_BAD_ACTION, code)


def _structs(body: bytes, at: int, end: int, error: int, code: int) -> Iterator[tuple[int, int, int]]:
    """(type, start, end) of each of the structs that begin with a type and a length."""
    while at < end:
        if end - at < _TYPE_LENGTH.size:
            raise ProtocolError(error, code)
        kind, length = _TYPE_LENGTH.unpack_from(body, at)
        if length < 8 or length % 8 or at + length > end:
            raise ProtocolError(error, code)
        yield kind, at, at + length
        at += length
