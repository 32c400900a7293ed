"""The switches' counters of a run: reads and writes `switches.json`, schema `gradwire.switches/1`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.model.wire import HEADERS_NBYTES
from gradwire.planning.openflow.extension import JobCounts
from gradwire.planning.openflow.pool import EVENTS, Event
from gradwire.planning.runfiles import BadRun
from gradwire.traces.complaints import complaint, other_version

SCHEMA = "gradwire.switches/1"
MAX_FILE_NBYTES = 512 << 20
_UNAVAILABLE = 2**64 - 1  # OpenFlow's value of a counter that a switch does not have

_Number = Annotated[int, Field(ge=0, lt=1 << 64)]
FiveTuple = tuple[str, str, int, int]
"""Source and destination address, source and destination port."""

Joint = tuple[Egress, int]
"""The switch's port that packets of a tree come in through, and the tree's UDP port."""


@dataclass(frozen=True, slots=True)
class WireCount:
    """Packets and bytes of the wire, with Ethernet header and without FCS."""

    packets: int
    nbytes: int

    @property
    def stream_nbytes(self) -> int:
        """Without the headers, which are as long in TCP's packets as in aggregation's: see
        `planning.model.wire`.
        """
        return self.nbytes - HEADERS_NBYTES * self.packets

    def __add__(self, other: "WireCount") -> "WireCount":
        return WireCount(self.packets + other.packets, self.nbytes + other.nbytes)


@dataclass(frozen=True)
class Counters:
    """`flows` counts, by 5-tuple, what each switch's rules for that flow matched; `sums` what rules of trees
    matched; `others`, by switch, what the other rules matched.  `pools` is what the switches say that they
    added up, by switch and job.

    `received` is what came in at a switch's port, `sent` what left it; a port whose switch does not
    count is left out.
    """

    flows: Mapping[FiveTuple, Mapping[str, WireCount]]
    others: Mapping[str, WireCount]
    received: Mapping[Egress, WireCount]
    sent: Mapping[Egress, WireCount]
    sums: Mapping[Joint, WireCount] = field(default_factory=dict)
    pools: Mapping[tuple[str, int], JobCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Match:
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    in_port: int | None = None
    udp_dst: int | None = None

    @property
    def five_tuple(self) -> FiveTuple | None:
        """None for a rule that is not a flow's."""
        if None in (self.ipv4_src, self.ipv4_dst, self.tcp_src, self.tcp_dst):
            return None
        return (str(self.ipv4_src), str(self.ipv4_dst), int(self.tcp_src or 0), int(self.tcp_dst or 0))


@dataclass(frozen=True, slots=True)
class _RuleCount:
    switch: str
    match: _Match
    packets: _Number
    bytes: _Number


@dataclass(frozen=True, slots=True)
class _Pool:
    switch: str
    job: int
    epoch: int
    slots: int
    children: int
    counts: dict[Event, _Number]


@dataclass(frozen=True, slots=True)
class _Port:
    switch: str
    port: int
    rx_packets: _Number | None = None
    rx_bytes: _Number | None = None
    tx_packets: _Number | None = None
    tx_bytes: _Number | None = None


@dataclass(frozen=True, slots=True)
class _File:
    flows: list[_RuleCount]
    ports: list[_Port]
    pools: list[_Pool] = field(default_factory=list)
    schema: str = SCHEMA


def counters_json(
    fabric: Fabric,
    entries: Mapping[str, Iterable[Any]],
    ports: Mapping[str, Iterable[Any]],
    pools: Mapping[str, Iterable[JobCounts]] = MappingProxyType({}),
) -> dict[str, Any]:
    """All counters of a fabric, from statistics replies to what `switches.json` holds.

    `entries` are OpenFlow's flow statistics, one entry for each rule, and `ports` its port statistics, both
    by switch.  `pools` are those of the switches that add something up.  Packets and bytes are those of the
    wire, with Ethernet header and without FCS, in both directions as the switch sees them: `rx` is what came
    in.  A counter that a switch does not have is None.
    """
    return {
        "schema": SCHEMA,
        "flows": [row for switch in fabric.switches for row in _rule_rows(switch, entries[switch])],
        "ports": [
            row
            for switch in fabric.switches
            for row in _port_rows(switch, fabric.ports.get(switch, ()), ports[switch])
        ],
        "pools": [
            {
                "switch": switch,
                "job": job.job,
                "epoch": job.epoch,
                "slots": job.slots,
                "children": job.n_children,
                "counts": dict(job.counts),
            }
            for switch in fabric.switches
            for job in sorted(pools.get(switch, ()), key=lambda job: job.job)
        ],
    }


def load_counters(path: Path) -> Counters:
    """The counters in a run's `switches.json`.  Raise OSError, or BadRun for another file."""
    if path.stat().st_size > MAX_FILE_NBYTES:
        raise BadRun(path, f"not a counters file: it is larger than {MAX_FILE_NBYTES >> 20} MiB")
    try:
        file = TypeAdapter(_File).validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadRun(path, f"not a counters file: {complaint(error)}") from error
    if file.schema != SCHEMA:
        other = other_version(file.schema, SCHEMA, "read its run with the older one")
        if other:
            raise BadRun(path, other, "or run it again")
        raise BadRun(path, f"not a counters file: its schema is not {SCHEMA}")
    flows: dict[FiveTuple, dict[str, WireCount]] = {}
    sums: dict[Joint, WireCount] = {}
    others: dict[str, WireCount] = {}
    for row in file.flows:
        count = WireCount(row.packets, row.bytes)
        match = row.match
        if (five_tuple := match.five_tuple) is not None:
            at = flows.setdefault(five_tuple, {})
            at[row.switch] = at.get(row.switch, WireCount(0, 0)) + count
        elif match.in_port is not None and match.udp_dst is not None:
            joint = (Egress(row.switch, match.in_port), match.udp_dst)
            sums[joint] = sums.get(joint, WireCount(0, 0)) + count
        else:
            others[row.switch] = others.get(row.switch, WireCount(0, 0)) + count
    sent, received = (_by_port(file.ports, way) for way in ("tx", "rx"))
    return Counters(flows, others, received, sent, sums, _by_job(file.pools))


def _by_job(rows: Iterable[_Pool]) -> dict[tuple[str, int], JobCounts]:
    return {
        (row.switch, row.job): JobCounts(
            row.job, row.epoch, row.slots, row.children, {event: row.counts.get(event, 0) for event in EVENTS}
        )
        for row in rows
    }


def _by_port(rows: list[_Port], way: str) -> dict[Egress, WireCount]:
    counts = {}
    for row in rows:
        packets, nbytes = getattr(row, f"{way}_packets"), getattr(row, f"{way}_bytes")
        if packets is not None and nbytes is not None:
            counts[Egress(row.switch, row.port)] = WireCount(packets, nbytes)
    return counts


def _rule_rows(switch: str, entries: Iterable[Any]) -> Iterable[dict[str, Any]]:
    for entry in entries:
        yield {
            "switch": switch,
            "match": dict(entry.match.items()),
            "priority": entry.priority,
            "output": _output(entry),
            "packets": entry.packet_count,
            "bytes": entry.byte_count,
        }


def _output(entry: Any) -> int | None:
    """The port of a rule that does nothing but send out of one; None for groups and drops."""
    actions = [action for instruction in entry.instructions for action in instruction.actions]
    return getattr(actions[0], "port", None) if len(actions) == 1 else None


def _port_rows(switch: str, cabled: Iterable[int], ports: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Open vSwitch has a port of its own besides (`OFPP_LOCAL`), which is not a port of the fabric."""
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
