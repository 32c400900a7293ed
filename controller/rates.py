"""How fast each flow of a plan is, from the counters of the switches that their sources are cabled to."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

from emu.plan import Plan

_FIELDS = ("ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst")


class Rates:
    """Readings of counters, and what has changed between the last two."""

    def __init__(self, plan: Plan) -> None:
        self.switches = tuple(sorted({flow.path[1].node for flow in plan.flows}))
        self._first = {
            (flow.path[1].node, flow.src_ip, flow.dst_ip, flow.sport, flow.dport): number
            for number, flow in enumerate(plan.flows)
        }
        self._numbers: dict[tuple[str, bytes], int | None] = {}
        self._read: dict[int, tuple[int, int]] = {}

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
                now = entry.duration_sec * 10**9 + entry.duration_nsec, entry.byte_count
                before = self._read.get(number)
                self._read[number] = now
                if before and now[0] > before[0] and now[1] >= before[1]:
                    rate_bps[number] = (now[1] - before[1]) * 8e9 / (now[0] - before[0])
        return rate_bps

    def _number(self, switch: str, entry: Any) -> int | None:
        """The flow that a rule is the first of; None for all other rules.  The library reads 15,000
        matches/s, so each is read once.
        """
        length = int.from_bytes(entry.rest[2:4], "big")
        key = switch, entry.rest[:length]
        if key not in self._numbers:
            fields = dict(entry.match.items())
            five_tuple = (switch, *(_plain(fields.get(name)) for name in _FIELDS))
            self._numbers[key] = self._first.get(five_tuple)
        return self._numbers[key]


def _plain(value: Any) -> Any:
    """Addresses as a plan writes them."""
    return str(IPv4Address(value)) if isinstance(value, str) else value
