"""The most common matches, each read and written in one piece.

Nearly every rule has one of a few sets of match fields, and nearly every controller writes them in the
order of their numbers and without masks.  What then differs from rule to rule is a few numbers; the
bytes between them are always the same, and tell which set it is.  Any other match is read and written
field by field (oxm.py, encode.py), to the same result; reading takes five times as long, writing twice.
"""

import struct
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from gradwire.emu.switch.wire.openflow13 import ofp
from gradwire.planning.openflow.match import ETH_TYPE_IPV4, PROTO_TCP, PROTO_UDP, Match

_TYPE_LENGTH = struct.Struct("!HH")
_OXM = struct.Struct("!HBB")
_CODES = {1: "B", 2: "H", 4: "I"}  # of struct, by the number of bytes


class _Field(NamedTuple):
    """An OXM field, its name in `Match`, and its value if all matches of the layout have the same."""

    number: int
    nbytes: int
    name: str
    value: int | None = None


class WireLayout:
    """An ofp_match with its padding, its numbers apart from the bytes before each.

    `codes` are those of struct, by turns of the bytes before a number, which are in `before`, and the number.
    """

    def __init__(self, *fields: _Field) -> None:
        length = _TYPE_LENGTH.size + sum(_OXM.size + field.nbytes for field in fields)
        self.head = before = _TYPE_LENGTH.pack(ofp.OFPMT_OXM, length)
        self.before: list[bytes] = []
        codes = ""
        for field in fields:
            before += _OXM.pack(ofp.OFPXMC_OPENFLOW_BASIC, field.number << 1, field.nbytes)
            if field.value is not None:
                before += field.value.to_bytes(field.nbytes, "big")
            else:
                codes += f"{len(before)}s{_CODES[field.nbytes]}"
                self.before.append(before)
                before = b""
        self.codes = f"{codes}{-length % 8}x"
        self._struct = struct.Struct(f"!{self.codes}")
        self.nbytes = self._struct.size
        numbers = [field.name for field in fields if field.value is None]
        # What is written is picked from a match and the bytes before its numbers.
        n_fields = len(Match._fields)
        order = [(n_fields + i, Match._fields.index(name)) for i, name in enumerate(numbers)]
        self._arrange = itemgetter(*(place for pair in order for place in pair))
        self._with = tuple(self.before)
        # A match is picked from what is unpacked, the values that never differ, and None.
        values = {field.name: field.value for field in fields if field.value is not None}
        self._constants = (*values.values(), None)
        places = {name: 2 * i + 1 for i, name in enumerate(numbers)}
        places |= {name: 2 * len(numbers) + i for i, name in enumerate(values)}
        self._pick = itemgetter(*(places.get(name, -1) for name in Match._fields))

    def read(self, octets: bytes, at: int) -> Match | None:
        """The match at `at`, where there are `nbytes`; None if it has another layout."""
        unpacked = self._struct.unpack_from(octets, at)
        if [*unpacked[::2]] != self.before:
            return None
        return Match._make(self._pick(unpacked + self._constants))

    def matches(self, numbers: Sequence[Sequence[int]]) -> list[Match]:
        """Many matches at once, from a column for each number."""
        columns = self._pick(
            [each for column in numbers for each in ((), column)] + [*map(repeat, self._constants)]
        )
        return [*map(tuple.__new__, repeat(Match), zip(*columns, strict=False))]

    def write(self, match: Match) -> bytes:
        return self._struct.pack(*self._arrange(match + self._with))


_IPV4 = _Field(5, 2, "eth_type", ETH_TYPE_IPV4)
_TCP, _UDP = _Field(10, 1, "ip_proto", PROTO_TCP), _Field(10, 1, "ip_proto", PROTO_UDP)
_SRC, _DST = _Field(11, 4, "ipv4_src"), _Field(12, 4, "ipv4_dst")
_BY_SHAPE = {  # which of source, destination and ports are missing, and the protocol between them
    (True, False, None, True, True): WireLayout(_IPV4, _DST),
    (False, False, None, True, True): WireLayout(_IPV4, _SRC, _DST),
    (False, False, PROTO_TCP, False, False): WireLayout(
        _IPV4, _TCP, _SRC, _DST, _Field(13, 2, "sport"), _Field(14, 2, "dport")
    ),
    (False, False, PROTO_UDP, False, False): WireLayout(
        _IPV4, _UDP, _SRC, _DST, _Field(15, 2, "sport"), _Field(16, 2, "dport")
    ),
}
_BY_HEAD: dict[bytes, list[WireLayout]] = {}
for _layout in _BY_SHAPE.values():
    _BY_HEAD.setdefault(_layout.head, []).append(_layout)


def read(octets: bytes, at: int) -> tuple[Match, int] | None:
    """The match at `at` and where what follows its padding begins; None if it is unusual."""
    for layout in _BY_HEAD.get(octets[at : at + _TYPE_LENGTH.size], ()):
        after = at + layout.nbytes
        match = layout.read(octets, at) if after <= len(octets) else None
        if match is not None:
            return match, after
    return None


def layout_at(octets: bytes, at: int) -> WireLayout | None:
    """The layout of the match at `at`; None if it is unusual."""
    for layout in _BY_HEAD.get(octets[at : at + _TYPE_LENGTH.size], ()):
        if at + layout.nbytes <= len(octets) and layout.read(octets, at) is not None:
            return layout
    return None


def write(match: Match) -> bytes | None:
    """The match as an ofp_match with its padding; None if it is not one of the usual ones."""
    eth_type, src, dst, proto, sport, dport, in_port, eth_src, eth_dst = match
    if eth_type != ETH_TYPE_IPV4 or not (in_port is eth_src is eth_dst is None):
        return None
    layout = _BY_SHAPE.get((src is None, dst is None, proto, sport is None, dport is None))
    return layout.write(match) if layout else None
