"""How fast each flow of a plan is, and how much each port sends, from the switches' counters.

A flow's rate comes from its source's switch.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Plan

_FIELDS = ("ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst")


class FlowRates:
    """Readings of counters, and what has changed between the last two."""

    def __init__(self, plan: Plan) -> None:
        self.switches = tuple(sorted({flow.path[1].node for flow in plan.flows}))
        self._first = {
            (flow.path[1].node, flow.src_ip, flow.dst_ip, flow.sport, flow.dport): number
            for number, flow in enumerate(plan.flows)
        }
        self._numbers: dict[tuple[str, bytes], int | None] = {}
        self._read: dict[int, tuple[int, int]] = {}
        self._ports = {end for end in plan.fabric.peers if end.node in plan.fabric.switches}
        self._sent: dict[Egress, tuple[int, int]] = {}

    def taken(self, answers: Mapping[str, Iterable[Any]]) -> dict[int, float]:
        """The bit/s of each flow since the last reading, from these flow statistics of every switch.

        Times are those of the switch: how long it has had the rule.  Nothing is known of a flow at its
        first reading.
        """
        rate_bps = {}
        for switch, entries in answers.items():
            for entry in entries:
                number = self._number(switch, entry)
                if number is None:
                    continue
                now = _age_ns(entry), entry.byte_count
                bps = _bps(self._read.get(number), now)
                self._read[number] = now
                if bps is not None:
                    rate_bps[number] = bps
        return rate_bps

    def links_taken(self, answers: Mapping[str, Iterable[Any]]) -> dict[Egress, float]:
        """The bit/s that each port of a switch sent since the last reading, from these port statistics."""
        link_bps = {}
        for switch, entries in answers.items():
            for entry in entries:
                end = Egress(switch, entry.port_no)
                if end not in self._ports:
                    continue  # Open vSwitch has a port of its own besides
                now = _age_ns(entry), entry.tx_bytes
                bps = _bps(self._sent.get(end), now)
                self._sent[end] = now
                if bps is not None:
                    link_bps[end] = bps
        return link_bps

    def forget_links(self) -> None:
        """Flows have moved: what ports sent before would be held against flows that were not there."""
        self._sent.clear()

    def _number(self, switch: str, entry: Any) -> int | None:
        """The flow that a rule is the first of; None for all other rules.  The library reads 15,000
        matches/s, so each is read once.
        """
        length = int.from_bytes(entry.match_and_instructions[2:4], "big")
        key = switch, entry.match_and_instructions[:length]
        if key not in self._numbers:
            fields = dict(entry.match.items())
            five_tuple = (switch, *(_plain(fields.get(name)) for name in _FIELDS))
            self._numbers[key] = self._first.get(five_tuple)
        return self._numbers[key]


def _age_ns(entry: Any) -> int:
    return int(entry.duration_sec * 10**9 + entry.duration_nsec)


def _bps(before: tuple[int, int] | None, now: tuple[int, int]) -> float | None:
    """Between two readings (time in ns, bytes); None for a first one, and for a counter that began again."""
    if before and now[0] > before[0] and now[1] >= before[1]:
        return (now[1] - before[1]) * 8e9 / (now[0] - before[0])
    return None


def _plain(value: Any) -> Any:
    """Addresses as a plan writes them."""
    return str(IPv4Address(value)) if isinstance(value, str) else value
