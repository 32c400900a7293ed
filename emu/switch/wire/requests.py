"""Decodes GROUP_MOD, PORT_MOD and PACKET_OUT, as decode.py does for FLOW_MOD."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gradwire.emu.switch.wire import decode
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.planning.openflow.entries import Aggregate, Forward, GroupBucket, Output, SwitchGroup

_GROUP_MOD = struct.Struct(ofp.OFP_GROUP_MOD_PACK_STR)
_GROUP_BUCKET = struct.Struct(ofp.OFP_BUCKET_PACK_STR)
_PORT_MOD = struct.Struct(ofp.OFP_PORT_MOD_PACK_STR)
_PACKET_OUT = struct.Struct(ofp.OFP_PACKET_OUT_PACK_STR)
_ETHERNET_HEADER_NBYTES = 14
_MANY_GROUPS, _USUAL_NBYTES = 1024, 512  # what is kept of group requests that were read, 16 buckets each


@dataclass(frozen=True, slots=True)
class GroupMod:
    command: int
    number: int
    group: SwitchGroup


@dataclass(frozen=True, slots=True)
class PortMod:
    port: int
    mac: bytes
    config: int
    mask: int
    advertise: int


@dataclass(frozen=True, slots=True)
class PacketOut:
    in_port: int
    actions: tuple[Forward, ...]
    frame: bytes


def group_mod(body: bytes) -> GroupMod:
    """Switches that are alike get the same groups, so what was read lately is kept."""
    return _usual_group_mod(body) if len(body) <= _USUAL_NBYTES else _group_mod(body)


@lru_cache(_MANY_GROUPS)
def _usual_group_mod(body: bytes) -> GroupMod:
    return _group_mod(body)


def _group_mod(body: bytes) -> GroupMod:
    if len(body) < _GROUP_MOD.size:
        raise bad_length()
    command, kind, number = _GROUP_MOD.unpack_from(body)
    buckets = tuple(_group_buckets(body)) if command != ofp.OFPGC_DELETE else ()
    return GroupMod(command, number, SwitchGroup(kind, buckets))


def port_mod(body: bytes) -> PortMod:
    if len(body) != _PORT_MOD.size:
        raise bad_length()
    return PortMod(*_PORT_MOD.unpack(body))


def packet_out(body: bytes) -> PacketOut:
    if len(body) < _PACKET_OUT.size:
        raise bad_length()
    buffer, in_port, actions_nbytes = _PACKET_OUT.unpack_from(body)
    end = _PACKET_OUT.size + actions_nbytes
    if end > len(body):
        raise bad_length()
    if buffer != ofp.OFP_NO_BUFFER:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BUFFER_UNKNOWN)
    given = _forwards(body, _PACKET_OUT.size, end)
    if len(body) - end < _ETHERNET_HEADER_NBYTES:
        raise bad_length()
    return PacketOut(in_port, given, body[end:])


def _group_buckets(body: bytes) -> Iterator[GroupBucket]:
    at = _GROUP_MOD.size
    while at < len(body):
        if len(body) - at < _GROUP_BUCKET.size:
            raise _group_error(ofp.OFPGMFC_BAD_BUCKET)
        length, weight, watch_port, watch_group = _GROUP_BUCKET.unpack_from(body, at)
        if length < _GROUP_BUCKET.size or length % 8 or at + length > len(body):
            raise _group_error(ofp.OFPGMFC_BAD_BUCKET)
        if watch_group not in (0, ofp.OFPG_ANY):
            raise _group_error(ofp.OFPGMFC_WATCH_UNSUPPORTED)
        given = _forwards(body, at + _GROUP_BUCKET.size, at + length)
        outputs = tuple(action for action in given if isinstance(action, Output))
        if len(outputs) < len(given):
            raise _group_error(ofp.OFPGMFC_CHAINING_UNSUPPORTED)
        yield GroupBucket(outputs, weight, None if watch_port in (0, ofp.OFPP_ANY) else watch_port)
        at += length


def _forwards(body: bytes, at: int, end: int) -> tuple[Forward, ...]:
    """The actions of what has no match, without which nothing can be added up."""
    given = decode.actions(body, at, end)
    forwards = tuple(action for action in given if not isinstance(action, Aggregate))
    if len(forwards) < len(given):
        raise decode.bad_action(ofp.OFPBAC_MATCH_INCONSISTENT)
    return forwards


def _group_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_GROUP_MOD_FAILED, code)
