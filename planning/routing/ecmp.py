"""ECMP: every switch spreads flows over its equally short ports by a hash of their 5-tuple.

The baseline of every Ethernet fabric.  The hash is published (`planning.flowhash`) and each switch has a
salt of its own, so the paths are known beforehand and any kind of switch can be told to take them.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address

from planning.fabrics.fabric import Fabric
from planning.flowhash import flow_hash, switch_salt
from planning.openflow.match import PROTO_TCP
from planning.plan import Flow
from planning.routing.shortest import Path, walks
from traces.schedules.schedule import Schedule


def ecmp(
    fabric: Fabric, placement: Sequence[str], flows: Sequence[Flow], schedule: Schedule, seed: int
) -> list[Path]:
    """Port `ports[hash % n]` at every switch, as a select group with n buckets of one weight does."""
    del schedule
    salts = {switch: switch_salt(fabric.dpid(switch), seed) for switch in fabric.switches}

    def choose(switch: str, ports: tuple[int, ...], flow: Flow, stride: int) -> int:
        del stride
        source, destination = int(IPv4Address(flow.src_ip)), int(IPv4Address(flow.dst_ip))
        return flow_hash(source, destination, PROTO_TCP, flow.sport, flow.dport, salts[switch]) % len(ports)

    return list(walks(fabric, placement, flows, choose))
