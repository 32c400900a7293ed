"""What a switch rule can match: the combinations of fields that the data plane can look up."""

from enum import IntEnum
from typing import NamedTuple

ETH_TYPE_IPV4 = 0x0800
PROTO_TCP = 6
PROTO_UDP = 17


class Form(IntEnum):
    """A set of match fields, numbered as in layout.h.

    All forms are looked up and the highest priority wins.  OpenFlow leaves open which of two rules of
    equal priority a packet meets; here it is the one whose form comes later below, the more specific.
    """

    ANY = 0
    ETH_TYPE = 1
    ETH_DST = 2
    IN_ETH_DST = 3
    IN_ETH_SRC_DST = 4
    UDP_DST = 5
    IN_UDP_DST = 6
    DST = 7
    PAIR = 8
    FLOW = 9


class Match(NamedTuple):
    """OpenFlow match fields as integers; None matches everything.

    `sport` and `dport` are OpenFlow's `tcp_src`... or `udp_src`..., as `ip_proto` says.

    A tuple, as are the other values of which there is one per rule or message: a frozen dataclass takes
    four times as long to make, and six times to be found in a dictionary.
    """

    eth_type: int | None = None
    ipv4_src: int | None = None
    ipv4_dst: int | None = None
    ip_proto: int | None = None
    sport: int | None = None
    dport: int | None = None
    in_port: int | None = None
    eth_src: int | None = None
    eth_dst: int | None = None

    def covers(self, other: "Match") -> bool:
        """True when everything that `other` matches is matched by this, OpenFlow's loose matching."""
        pairs = zip(self, other, strict=True)
        return all(mine is None or mine == theirs for mine, theirs in pairs)

    def overlaps(self, other: "Match") -> bool:
        """True when a packet can match both."""
        pairs = zip(self, other, strict=True)
        return all(None in pair or pair[0] == pair[1] for pair in pairs)


def form(match: Match) -> Form | None:
    """The form of a match, None if the data plane does not look it up."""
    # Written out: with a loop this is the dearest step of adding a rule.
    known = _FORMS.get(
        (
            match.eth_type is not None,
            match.ipv4_src is not None,
            match.ipv4_dst is not None,
            match.ip_proto is not None,
            match.sport is not None,
            match.dport is not None,
            match.in_port is not None,
            match.eth_src is not None,
            match.eth_dst is not None,
        )
    )
    is_udp = known is Form.UDP_DST or known is Form.IN_UDP_DST
    return None if is_udp and match.ip_proto != PROTO_UDP else known


_FIELDS = {
    Form.ANY: "",
    Form.ETH_TYPE: "eth_type",
    Form.ETH_DST: "eth_dst",
    Form.IN_ETH_DST: "in_port eth_dst",
    Form.IN_ETH_SRC_DST: "in_port eth_src eth_dst",
    Form.UDP_DST: "eth_type ip_proto dport",
    Form.IN_UDP_DST: "in_port eth_type ip_proto dport",
    Form.DST: "eth_type ipv4_dst",
    Form.PAIR: "eth_type ipv4_src ipv4_dst",
    Form.FLOW: "eth_type ipv4_src ipv4_dst ip_proto sport dport",
}
_FORMS = {tuple(name in fields.split() for name in Match._fields): form for form, fields in _FIELDS.items()}
