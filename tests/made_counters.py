"""What perfect switches would count of a plan: every flow's packets, one by one, along its path."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Flow, Plan

FULL, HEADERS, SYN, HELLO, PREAMBLE = 1448, 66, 74, 8, 48


def switches_json(plan: Plan, repeats: int = 1) -> dict[str, Any]:
    """As `switches.json` holds it, acknowledgements included."""
    flows: list[dict[str, Any]] = []
    packets: Counter[Egress] = Counter()
    nbytes: Counter[Egress] = Counter()
    for flow in plan.flows:
        frames = flow_frames(plan, flow, repeats)
        for egress in flow.path:
            packets[egress] += len(frames)
            nbytes[egress] += sum(frames)
            if egress.node in plan.fabric.switches:
                flows.append(_rule(flow, egress, frames))
    peers = plan.fabric.peers
    ports = [
        {
            "switch": end.node,
            "port": end.port,
            "rx_packets": packets[peers[end]],
            "rx_bytes": nbytes[peers[end]],
            "rx_dropped": 0,
            "tx_packets": packets[end],
            "tx_bytes": nbytes[end],
            "tx_dropped": 0,
        }
        for end in peers
        if end.node in plan.fabric.switches
    ]
    return {"schema": "gradwire.switches/1", "flows": flows, "ports": ports}


def flow_frames(plan: Plan, flow: Flow, repeats: int) -> list[int]:
    """The sizes of a flow's frames: its SYN, its hello, its messages, an acknowledgement for each second one
    of the other direction."""
    sent = [SYN]
    if flow.src > flow.dst:
        sent.append(HEADERS + HELLO)
    for send in [*plan.schedule.sends] * repeats:
        if (send.src, send.dst) == (flow.src, flow.dst):
            left = send.nbytes + 2 * PREAMBLE
            while left > 0:
                sent.append(HEADERS + min(left, FULL))
                left -= FULL
        elif (send.dst, send.src) == (flow.src, flow.dst):
            sent.append(HEADERS + PREAMBLE)
            sent += [HEADERS] * (send.nbytes // FULL // 2 + 1)
    return sent


def write_counters(folder: Path, value: dict[str, Any]) -> None:
    (folder / "switches.json").write_text(json.dumps(value))


def _rule(flow: Flow, egress: Egress, frames: Sequence[int]) -> dict[str, Any]:
    return {
        "switch": egress.node,
        "match": {
            "eth_type": 2048,
            "ip_proto": 6,
            "ipv4_src": flow.src_ip,
            "ipv4_dst": flow.dst_ip,
            "tcp_src": flow.sport,
            "tcp_dst": flow.dport,
        },
        "priority": 300,
        "output": egress.port,
        "packets": len(frames),
        "bytes": sum(frames),
    }
