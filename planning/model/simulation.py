"""How long a schedule takes, simulated in the fluid model or in a model of TCP segments.

The fluid model shares links max-min fairly and has no other cost; the other one has the costs of hosts.

What becomes ready when, and what ranks handle, is planning.model.progress; this file chooses the network
that carries it, and runs the two until nothing more happens.  In the fluid model the connections that are
sending share every link max-min fairly (planning.model.fluid).  No packets, no queues, no acknowledgements:
what a run measures above it is the price of real TCP.  If hosts' costs name a segment, connections send
segments instead, and notices keep their place among them (planning.model.segments).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwire.planning.fabrics.fabric import ETHERNET_NBYTES, Egress, Fabric
from gradwire.planning.model.addedup import tree_links
from gradwire.planning.model.dag import Item, items_of
from gradwire.planning.model.fluid import FluidNetwork
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.loops import Times
from gradwire.planning.model.network import Network
from gradwire.planning.model.progress import Progress
from gradwire.planning.model.segments import MOST_STEPS, Delays, SegmentNetwork, n_steps
from gradwire.planning.model.socketbuffer import Socket
from gradwire.planning.plan import Flow, flow_numbers
from gradwire.planning.transport import (
    TCP_HEADERS_NBYTES,
    fabric_transport,
    held_nbytes,
    payload_efficiency,
    port_burst_nbytes,
    segment_nbytes,
)
from gradwire.planning.trees.tree import Tree
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES
from gradwire.traces.schedules.outbox import FIFO
from gradwire.traces.schedules.schedule import Schedule

COLUMNS_ABOVE = 5_000  # sends; for fewer, to load what was compiled takes longer than it saves


Seconds = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Simulated:
    """When a schedule was complete (`time_s`), when each item (sends, then aggregations) became ready and
    ended, and when each gate opened; all in seconds from the start.
    """

    time_s: float
    ready_s: Seconds
    ends_s: Seconds
    opened_s: Seconds


def simulate(
    fabric: Fabric,
    flows: Sequence[Flow],
    schedule: Schedule,
    *,
    trees: Sequence[Tree] = (),
    alpha_s: float = 0.0,
    eta: float | None = None,
    hosts: HostCosts | None = None,
) -> Simulated:
    """All times of a schedule in seconds.

    `flows` have their paths, `trees[i]` is that of the schedule's i-th reduce group; without trees what
    switches add up takes no time, which is enough to compare routes.  Each send waits `alpha_s` after it
    became ready, an aggregation twice that (`planning.model.progress.ROUNDS`), and the schedule's delay; this
    is latency and does not occupy the connection.  `eta` is the share of the link rate that TCP's payload
    has, in full frames unless given; aggregations have the share of their trees' frames.  With `hosts` a send
    ends when its receiver has handled it, and `alpha_s` is only that of aggregations; links are still shared
    as fluids are with trees, or if segments would take more than MOST_STEPS.  Raise ValueError for a schedule
    that can never end.
    """
    share = payload_efficiency(fabric.mtu_nbytes) if eta is None else eta
    if (
        hosts is None
        and not (schedule.aggregations or schedule.locks)
        and schedule.order == FIFO
        and len(schedule.sends) > COLUMNS_ABOVE
    ):
        times = _in_columns(fabric, flows, schedule, alpha_s, share)
        return _checked(schedule, times.ready_s, times.ends_s, times.opened_s)
    items = items_of(flows, schedule, trees, share)
    paths = [flow.path for flow in flows] + [tree_links(fabric, tree) for tree in trees]
    sends = items[: len(schedule.sends)]
    network = _network(fabric, paths, share, sends, hosts if not trees else None, bool(schedule.locks))
    progress = Progress(schedule, items, network, alpha_s, hosts, flow_numbers(flows))
    while progress.step():
        pass
    return _checked(
        schedule, np.array(progress.ready_s), np.array(progress.ends_s), np.array(progress.opened_s)
    )


def _checked(schedule: Schedule, ready_s: Seconds, ends_s: Seconds, opened_s: Seconds) -> Simulated:
    """When items became ready and ended, and gates opened.  Raise ValueError if something never happens,
    which is at -1.
    """
    stuck = np.flatnonzero(ends_s < 0)
    if len(stuck):
        n_sends = len(schedule.sends)
        first = f"send {stuck[0]}"
        if stuck[0] >= n_sends:
            first = f"a sum of operation {schedule.aggregations[stuck[0] - n_sends].op}"
        raise ValueError(
            f"{len(stuck)} sends or sums wait for each other and never begin, among them {first}"
        )
    never = np.flatnonzero(opened_s < 0)
    if len(never):
        raise ValueError(f"operation {schedule.gates[never[0]].op} never begins")
    time_s = float(max(ends_s.max(initial=0.0), opened_s.max(initial=0.0)))
    return Simulated(time_s, ready_s, ends_s, opened_s)


def _in_columns(
    fabric: Fabric, flows: Sequence[Flow], schedule: Schedule, alpha_s: float, eta: float
) -> Times:
    """The same by compiled loops, for which much has to be loaded."""
    from gradwire.planning.model.bulk import run

    paths, capacity = links_of(fabric, [flow.path for flow in flows], eta)
    return run(schedule, flows, paths, capacity, schedule.send_delay_ns / 1e9 + alpha_s)


def links_of(
    fabric: Fabric, paths: Sequence[Sequence[Egress]], eta: float
) -> tuple[list[list[int]], list[float]]:
    """The paths with numbers for links, and what each of these carries in bytes of payload a second."""
    numbers = {egress: i for i, egress in enumerate(fabric.rates)}
    return (
        [[numbers[egress] for egress in path] for path in paths],
        [rate_bps * eta / 8 for rate_bps in fabric.rates.values()],
    )


def _network(
    fabric: Fabric,
    paths: Sequence[Sequence[Egress]],
    eta: float,
    sends: Sequence[Item],
    hosts: HostCosts | None,
    has_locks: bool,
) -> Network:
    """A network of segments if `hosts` name one and `sends` take at most MOST_STEPS of them, else a fluid,
    with sockets' buffers if there are locks, which are free again when TCP has taken an answer.
    """
    numbered, capacity = links_of(fabric, paths, eta)
    sizes = [(send.nbytes, len(paths[send.flow])) for send in sends]
    if not hosts or not hosts.segment_nbytes or n_steps(hosts.segment_nbytes, sizes) > MOST_STEPS:
        if not has_locks:
            return FluidNetwork(numbered, capacity)
        transport = fabric_transport(fabric)
        held_segment_nbytes = segment_nbytes(transport.gso_max_nbytes, fabric.mtu_nbytes)
        socket = Socket.of(held_nbytes(transport), held_segment_nbytes)
        return FluidNetwork(numbered, capacity, socket)
    return SegmentNetwork(
        numbered,
        capacity,
        segment_nbytes=segment_nbytes(hosts.segment_nbytes, fabric.mtu_nbytes),
        bursts_s=[port_burst_nbytes(each / eta, fabric.frame_nbytes) * eta / each for each in capacity],
        buffer_nbytes=hosts.buffer_nbytes,
        delays=Delays(hosts.release_s, hosts.late_s),
        lone_nbytes=(PREAMBLE_NBYTES + TCP_HEADERS_NBYTES + ETHERNET_NBYTES) * eta,
    )
