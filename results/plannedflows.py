"""What a plan sends on each connection, in the columns that frames and JSON share."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.planning.model.wire import payload_nbytes
from gradwire.planning.plan import Flow, Plan


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """One direction of a TCP connection in a plan; its fields are columns (docs/schemas.md, "plan --json:
    flows").  `path` are the nodes from host to host, `payload_nbytes` what it carries in one repeat.
    """

    src: int
    dst: int
    src_host: str
    dst_host: str
    src_ip: str
    dst_ip: str
    sport: int
    dport: int
    payload_nbytes: int
    path: tuple[str, ...]


def planned_flows(plan: Plan) -> list[PlannedFlow]:
    """Both directions of every connection, in the plan's order."""
    return [
        PlannedFlow(
            src=flow.src,
            dst=flow.dst,
            src_host=plan.placement[flow.src],
            dst_host=plan.placement[flow.dst],
            src_ip=flow.src_ip,
            dst_ip=flow.dst_ip,
            sport=flow.sport,
            dport=flow.dport,
            payload_nbytes=nbytes,
            path=tuple(path_nodes(plan, flow)),
        )
        for flow, nbytes in zip(plan.flows, payload_nbytes(plan), strict=True)
    ]


def path_nodes(plan: Plan, flow: Flow) -> Sequence[str]:
    """The nodes on a flow's path, the hosts included."""
    return [*(egress.node for egress in flow.path), plan.placement[flow.dst]]
