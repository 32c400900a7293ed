"""Decodes the match of a request (OpenFlow's extensible match fields, OXM), strictly."""

import struct

from gradwire.emu.switch.wire import layouts
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, PROTO_TCP, PROTO_UDP, Match

_TYPE_LENGTH = struct.Struct("!HH")
_OXM = struct.Struct("!HBB")
_IN_PORT, _ETH_DST, _ETH_SRC, _ETH_TYPE = 0, 3, 4, 5
_IP_PROTO, _IPV4_SRC, _IPV4_DST, _TCP_SRC, _TCP_DST, _UDP_SRC, _UDP_DST = range(10, 17)
FIELDS = {  # the OXM fields that the switch reads, and how many bytes they have
    _IN_PORT: 4,
    _ETH_DST: 6,
    _ETH_SRC: 6,
    _ETH_TYPE: 2,
    _IP_PROTO: 1,
    _IPV4_SRC: 4,
    _IPV4_DST: 4,
    **dict.fromkeys((_TCP_SRC, _TCP_DST, _UDP_SRC, _UDP_DST), 2),
}
_BAD_MASKS = {  # refused are masks other than all ones, and any mask of in_port
    **dict.fromkeys((_ETH_DST, _ETH_SRC), ofp.OFPBMC_BAD_DL_ADDR_MASK),
    **dict.fromkeys((_IPV4_SRC, _IPV4_DST), ofp.OFPBMC_BAD_NW_ADDR_MASK),
}
_PREREQUISITES = {
    **dict.fromkeys((_IP_PROTO, _IPV4_SRC, _IPV4_DST), (_ETH_TYPE, ETH_TYPE_IPV4)),
    **dict.fromkeys((_TCP_SRC, _TCP_DST), (_IP_PROTO, PROTO_TCP)),
    **dict.fromkeys((_UDP_SRC, _UDP_DST), (_IP_PROTO, PROTO_UDP)),
}


def match(body: bytes, offset: int) -> tuple[Match, int]:
    """An ofp_match at `offset`, and where what follows its padding begins."""
    return layouts.read(body, offset) or match_by_fields(body, offset)


def match_by_fields(body: bytes, offset: int) -> tuple[Match, int]:
    """As `match`, of any layout.  Raise ProtocolError."""
    if len(body) < offset + _TYPE_LENGTH.size:
        raise bad_length()
    kind, length = _TYPE_LENGTH.unpack_from(body, offset)
    after: int = offset + (length + 7) // 8 * 8
    if kind != ofp.OFPMT_OXM:
        raise _bad_match(ofp.OFPBMC_BAD_TYPE)
    if length < _TYPE_LENGTH.size or after > len(body):
        raise _bad_match(ofp.OFPBMC_BAD_LEN)
    values: dict[int, int] = {}
    at, end = offset + _TYPE_LENGTH.size, offset + length
    while at < end:
        at = _match_field(body, at, end, values)
    return (
        Match(
            eth_type=values.get(_ETH_TYPE),
            ipv4_src=values.get(_IPV4_SRC),
            ipv4_dst=values.get(_IPV4_DST),
            ip_proto=values.get(_IP_PROTO),
            sport=values.get(_TCP_SRC, values.get(_UDP_SRC)),
            dport=values.get(_TCP_DST, values.get(_UDP_DST)),
            in_port=values.get(_IN_PORT),
            eth_src=values.get(_ETH_SRC),
            eth_dst=values.get(_ETH_DST),
        ),
        after,
    )


def _match_field(body: bytes, at: int, end: int, values: dict[int, int]) -> int:
    """Read one OXM field into `values`; return where the next one begins."""
    if at + _OXM.size > end:
        raise _bad_match(ofp.OFPBMC_BAD_LEN)
    oxm_class, field_and_mask, length = _OXM.unpack_from(body, at)
    field, has_mask = field_and_mask >> 1, field_and_mask & 1
    at += _OXM.size
    if at + length > end:
        raise _bad_match(ofp.OFPBMC_BAD_LEN)
    if oxm_class != ofp.OFPXMC_OPENFLOW_BASIC or field not in FIELDS:
        raise _bad_match(ofp.OFPBMC_BAD_FIELD)
    width: int = FIELDS[field]
    if length != width * (1 + has_mask):
        raise _bad_match(ofp.OFPBMC_BAD_LEN)
    if field in values:
        raise _bad_match(ofp.OFPBMC_DUP_FIELD)
    if has_mask and (field == _IN_PORT or body[at + width : at + length].strip(b"\xff")):
        raise _bad_match(_BAD_MASKS.get(field, ofp.OFPBMC_BAD_MASK))
    needs = _PREREQUISITES.get(field)
    if needs is not None and values.get(needs[0]) != needs[1]:
        raise _bad_match(ofp.OFPBMC_BAD_PREREQ)
    values[field] = int.from_bytes(body[at : at + width], "big")
    return at + int(length)


def _bad_match(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_BAD_MATCH, code)
