"""Our switch and Open vSwitch side by side: same ports (of sides.py), requests, packets.  Used `inside`."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from tests.made_rules import DATAPATH, PORTS, Change, FlowChange, encoded, serialized
from tests.made_scenarios import Phase
from tests.real import lab
from tests.real.ends import MARKER_COOKIE, MARKER_RULES
from tests.real.group_counts import GroupRow, Uncounted
from tests.real.sides import Side, open_vswitch, our_switch
from tests.real.speaker import Speaker
from tests.real.timely import PATIENCE_S

Refusals = dict[int, tuple[int, int]]  # number of the request: type and code of the error
_FIRST_XID = 100
_MODIFIES = (ofp.OFPFC_MODIFY, ofp.OFPFC_MODIFY_STRICT)


@dataclass(frozen=True)
class Observation:
    """What one switch did in one phase; two that did the same are equal."""

    refusals: Refusals
    came: dict[int, Counter[bytes]]
    flows: list[Any]
    groups: list[GroupRow]
    n_active: int
    unasked: list[Any]


def difference(ours: Observation, peer: Observation) -> str:
    """What differs, a line each; frames by their first 34 octets."""
    lines = [f"request {n}: ours says {ours.refusals.get(n)}, Open vSwitch {peer.refusals.get(n)}"
             for n in sorted(ours.refusals.keys() | peer.refusals.keys())
             if ours.refusals.get(n) != peer.refusals.get(n)]  # fmt: skip
    if ours.n_active != peer.n_active:
        lines.append(f"active flows: ours {ours.n_active}, Open vSwitch {peer.n_active}")
    for port in PORTS:
        left, right = ours.came.get(port, Counter()), peer.came.get(port, Counter())
        for who, extra in (("ours", left - right), ("Open vSwitch", right - left)):
            lines += [f"port {port}: only {who} sends {n} of {len(frame)} octets {frame[:38].hex()}"
                      for frame, n in extra.items()]  # fmt: skip
    for name in ("flows", "groups", "unasked"):
        left, right = getattr(ours, name), getattr(peer, name)
        lines += [f"{name}: only ours {row}" for row in left if row not in right]
        lines += [f"{name}: only Open vSwitch {row}" for row in right if row not in left]
    return "\n".join(lines)


@dataclass
class TwoSwitches:
    sides: tuple[Side, Side]
    down: frozenset[int] = field(default=frozenset())
    scenario: int = 0
    uncounted: Uncounted = field(default_factory=Uncounted)

    def reset(self) -> None:
        """No flows, no groups, all cables up."""
        self.scenario += 1
        self.uncounted = Uncounted()
        self.set_down(frozenset())
        forget = serialized(
            parser.OFPFlowMod(
                DATAPATH,
                command=ofp.OFPFC_DELETE,
                table_id=ofp.OFPTT_ALL,
                out_port=ofp.OFPP_ANY,
                out_group=ofp.OFPG_ANY,
            ),
            2,
        ) + serialized(parser.OFPGroupMod(DATAPATH, ofp.OFPGC_DELETE, group_id=ofp.OFPG_ALL), 3)
        for side in self.sides:
            side.speaker.send(forget)
            assert side.speaker.barrier() == []
            side.speaker.unasked = [m for m in side.speaker.unasked if m.msg_type == ofp.OFPT_FLOW_REMOVED]
            side.ends.drop()

    def set_down(self, down: frozenset[int]) -> None:
        """Cut exactly these cables, and wait until both switches have reported it."""
        changed = sorted(down ^ self.down)
        if not changed:
            return
        lines = [
            f"link set {side.name}{port} {'down' if port in down else 'up'}\n"
            for side in self.sides
            for port in changed
        ]
        lab.run("ip", "-batch", "-", stdin="".join(lines))
        self.down = down
        deadline_s = time.monotonic() + PATIENCE_S
        for side in self.sides:
            while _cut_ports(side.speaker) != down:
                assert time.monotonic() < deadline_s, f"{side.name} does not see that its cables are cut"

    def run(self, phase: Phase) -> list[Observation]:
        """Both switches' part in one phase."""
        changes = [self._marked(change) for change in phase.changes]
        requests = b"".join(encoded(change, xid) for xid, change in enumerate(changes, _FIRST_XID))
        refusals: list[Refusals] = []
        for side in self.sides:
            side.speaker.send(requests)
            refusals.append({m.xid - _FIRST_XID: (m.type, m.code) for m in side.speaker.barrier()})
        _forgive(changes, *refusals)
        self.uncounted.changed(changes, refusals[0])
        self.set_down(phase.down)
        live = [port for port in PORTS if port not in phase.down]
        observed = []
        for side, refused in zip(self.sides, refusals, strict=True):
            side.markers(is_on=True)
            side.settle()
            side.ends.send(phase.frames)
            came = side.ends.received(live)
            side.settle()
            observed.append(_observation(side, refused, came))
        ours, peer = observed
        packet_ins = self._packet_ins_of_both()
        ours = replace(ours, groups=self.uncounted.taken_off(ours.groups))
        return [replace(ours, unasked=packet_ins[0]), replace(peer, unasked=packet_ins[1])]

    def _packet_ins_of_both(self) -> list[list[Any]]:
        """What both have sent as PACKET_IN; these come beside the answers, so wait until they agree."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            packet_ins = [
                sorted(_packet_in(m) for m in side.speaker.unasked if m.msg_type == ofp.OFPT_PACKET_IN)
                for side in self.sides
            ]
            if packet_ins[0] == packet_ins[1] or time.monotonic() > deadline_s:
                break
            for side in self.sides:
                side.speaker.barrier()
        for side in self.sides:
            side.speaker.unasked = [m for m in side.speaker.unasked if m.msg_type == ofp.OFPT_FLOW_REMOVED]
        return packet_ins

    def removals(self) -> tuple[list[Any], list[Any]]:
        """Delete all flows; what both report of the removal of the scenario's own.

        Open vSwitch reports it some time after the barrier's answer: both are waited for until they agree.
        """
        scenario = self.scenario
        self.reset()
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            ours, peer = (
                sorted(
                    _removal(message)
                    for message in side.speaker.unasked
                    if message.msg_type == ofp.OFPT_FLOW_REMOVED and message.cookie >> 32 == scenario
                )
                for side in self.sides
            )
            if ours == peer or time.monotonic() > deadline_s:
                for side in self.sides:
                    side.speaker.unasked.clear()
                return ours, peer
            for side in self.sides:
                side.speaker.barrier()

    def _marked(self, change: Change) -> Change:
        """The change with this scenario's number in its cookie, by which later messages name it."""
        if isinstance(change, FlowChange):
            return replace(change, cookie=self.scenario << 32 | change.cookie)
        return change


def _forgive(changes: list[Change], ours: Refusals, peer: Refusals) -> None:
    """Open vSwitch looks at a modify's actions only if there is a rule to modify; ours looks first."""
    bad_group = ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP
    for i, change in enumerate(changes):
        is_modify = isinstance(change, FlowChange) and change.command in _MODIFIES
        if is_modify and i not in peer and ours.get(i) == bad_group:
            del ours[i]


def _cut_ports(speaker: Speaker) -> frozenset[int]:
    ports = speaker.ask(parser.OFPPortDescStatsRequest(DATAPATH, 0))
    return frozenset(
        port.port_no for port in ports if port.port_no in PORTS and port.state & ofp.OFPPS_LINK_DOWN
    )


def _observation(side: Side, refusals: Refusals, came: dict[int, Counter[bytes]]) -> Observation:
    speaker = side.speaker
    flows = speaker.ask(parser.OFPFlowStatsRequest(DATAPATH))
    groups = speaker.ask(parser.OFPGroupStatsRequest(DATAPATH, 0, ofp.OFPG_ALL))
    tables = speaker.ask(parser.OFPTableStatsRequest(DATAPATH, 0))
    side.markers(is_on=False)
    return Observation(
        refusals,
        {port: frames for port, frames in came.items() if frames},
        sorted(_flow(flow) for flow in flows if flow.cookie != MARKER_COOKIE),
        sorted(_group(group) for group in groups),
        next(table.active_count for table in tables if table.table_id == 0) - len(MARKER_RULES),
        [],
    )


def _flow(flow: Any) -> tuple[Any, ...]:
    return (
        flow.priority,
        sorted((name, str(value)) for name, value in flow.match.items()),
        flow.cookie,
        flow.flags & ~ofp.OFPFF_RESET_COUNTS,  # Open vSwitch forgets it, and may: it asks for something once
        [(each.type, [_action(action) for action in each.actions]) for each in flow.instructions],
        flow.packet_count,
        flow.byte_count,
    )


def _action(action: Any) -> tuple[int, ...]:
    return (action.type, action.port) if action.type == ofp.OFPAT_OUTPUT else (action.type, action.group_id)


def _group(group: Any) -> GroupRow:
    buckets = [(bucket.packet_count, bucket.byte_count) for bucket in group.bucket_stats]
    return group.group_id, group.ref_count, group.packet_count, group.byte_count, buckets


def _packet_in(message: Any) -> tuple[Any, ...]:
    return (
        message.match["in_port"],
        message.reason,
        message.cookie,
        message.total_len,
        bytes(message.data).hex(),
    )


def _removal(message: Any) -> tuple[Any, ...]:
    matched = sorted((name, str(value)) for name, value in message.match.items())
    counts = message.packet_count, message.byte_count
    return message.reason, message.priority, matched, message.cookie, *counts


@contextmanager
def two_switches(folder: Path) -> Iterator[TwoSwitches]:
    """Both switches on their cables, connected."""
    with our_switch(folder) as ours, open_vswitch(folder) as peer:
        yield TwoSwitches((ours, peer))
