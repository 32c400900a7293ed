"""The switches' counters, from statistics replies to rows; schema `gradwire.switches/1`."""

from collections.abc import Iterable, Mapping
from typing import Any

from emu.fabric import Fabric

SCHEMA = "gradwire.switches/1"
_UNAVAILABLE = 2**64 - 1  # OpenFlow's value of a counter that a switch does not have


def counters(
    fabric: Fabric, flows: Mapping[str, Iterable[Any]], ports: Mapping[str, Iterable[Any]]
) -> dict[str, Any]:
    """All counters of a fabric, ready for JSON.

    Packets and bytes are those of the wire, with Ethernet header and without FCS, in both directions
    as the switch sees them: `rx` is what came in.  A counter that a switch does not have is None.
    """
    return {
        "schema": SCHEMA,
        "flows": [row for switch in fabric.switches for row in _flow_rows(switch, flows[switch])],
        "ports": [
            row
            for switch in fabric.switches
            for row in _port_rows(switch, fabric.ports.get(switch, ()), ports[switch])
        ],
    }


def _flow_rows(switch: str, flows: Iterable[Any]) -> Iterable[dict[str, Any]]:
    for flow in flows:
        yield {
            "switch": switch,
            "match": dict(flow.match.items()),
            "priority": flow.priority,
            "output": _output(flow),
            "packets": flow.packet_count,
            "bytes": flow.byte_count,
        }


def _output(flow: Any) -> int | None:
    """The port of a rule that does nothing but send out of one; None for groups and drops."""
    actions = [action for instruction in flow.instructions for action in instruction.actions]
    return getattr(actions[0], "port", None) if len(actions) == 1 else None


def _port_rows(switch: str, cabled: Iterable[int], ports: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Open vSwitch has a port of its own besides (`OFPP_LOCAL`), which is no port of the fabric."""
    numbers = set(cabled)
    for port in sorted(ports, key=lambda port: int(port.port_no)):
        if port.port_no in numbers:
            yield {
                "switch": switch,
                "port": port.port_no,
                "rx_packets": _known(port.rx_packets),
                "rx_bytes": _known(port.rx_bytes),
                "rx_dropped": _known(port.rx_dropped),
                "tx_packets": _known(port.tx_packets),
                "tx_bytes": _known(port.tx_bytes),
                "tx_dropped": _known(port.tx_dropped),
            }


def _known(value: int) -> int | None:
    return None if value == _UNAVAILABLE else value
