"""What a rule of the switch can match: the IPv4 forms that its data plane has a map for."""

from dataclasses import dataclass
from enum import Enum, auto

ETH_TYPE_IPV4 = 0x0800
PROTO_TCP = 6
PROTO_UDP = 17


class Form(Enum):
    """One hash map of the data plane each; the later wins among equal priorities."""

    ANY = auto()
    DST = auto()
    PAIR = auto()
    FLOW = auto()


@dataclass(frozen=True, slots=True)
class Match:
    """OpenFlow match fields as integers; None matches everything.

    `sport` and `dport` are OpenFlow's `tcp_src`... or `udp_src`..., as `ip_proto` says.
    """

    eth_type: int | None = None
    ipv4_src: int | None = None
    ipv4_dst: int | None = None
    ip_proto: int | None = None
    sport: int | None = None
    dport: int | None = None

    def covers(self, other: "Match") -> bool:
        """True when everything that `other` matches is matched by this, OpenFlow's loose matching."""
        return (
            self.eth_type in (None, other.eth_type)
            and self.ipv4_src in (None, other.ipv4_src)
            and self.ipv4_dst in (None, other.ipv4_dst)
            and self.ip_proto in (None, other.ip_proto)
            and self.sport in (None, other.sport)
            and self.dport in (None, other.dport)
        )


def form(match: Match) -> Form | None:
    """The form of a match, None if the data plane has no map for it."""
    present = (
        match.eth_type is not None,
        match.ipv4_src is not None,
        match.ipv4_dst is not None,
        match.ip_proto is not None,
        match.sport is not None,
        match.dport is not None,
    )
    return _FORMS.get(present)


_FORMS = {
    (False, False, False, False, False, False): Form.ANY,
    (True, False, True, False, False, False): Form.DST,
    (True, True, True, False, False, False): Form.PAIR,
    (True, True, True, True, True, True): Form.FLOW,
}
