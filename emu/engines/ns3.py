"""A plan's times packet by packet, by ns-3 (nsnam.org): TCP, IP and queues, which the fluid model leaves out.

ns-3 is given the plan's connections, paths, cables, queues and sockets' buffers, as an emulation is.  Hosts
cost nothing, and nothing but payload is sent.  TCP is NewReno with SACK and timestamps, whatever congestion
control the plan names: where queues are long enough nothing is lost, and all are alike.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwire import COMMAND
from gradwire.emu.engines.problem import Column, OnProgress, carry_out, check, integers, lists_of, waiting
from gradwire.emu.network.shaping import queue_nbytes
from gradwire.emu.project import NS3_DRIVER
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Plan, flow_numbers
from gradwire.planning.refused import Refused
from gradwire.planning.transport import Transport, buffered_nbytes, segment_nbytes, tcp_payload_nbytes
from gradwire.traces.units import show_nbytes

INITIAL_WINDOW_SEGMENTS = 10  # RFC 6928, and Linux
# An ACK comes for every second segment, or so long after a lone one (Linux's TCP_DELACK_MIN).  Nobody waits
# for that: a send is over when its last byte has arrived, and the window has room for ten segments at once.
DELAYED_ACK_MS = 40
LEAST_TIMEOUT_MS = 200  # Linux's TCP_RTO_MIN
MOST_CROSSINGS = 10_000_000  # of packets over cables; 10 to 30 µs each, 90 with 127 connections a host
MOST_CONNECTIONS = 20_000


@dataclass(frozen=True, slots=True)
class PacketTimes:
    """When each send ended, by its last byte, and when each gate opened, in seconds from the start; how many
    frames queues dropped, and how many segments were sent again.
    """

    ends_s: NDArray[np.float64]
    opened_s: NDArray[np.float64]
    n_dropped: int
    n_resent: int

    @property
    def time_s(self) -> float:
        """The time of the whole schedule."""
        return float(max(self.ends_s.max(initial=0.0), self.opened_s.max(initial=0.0)))


def check_set_up() -> None:
    """Raise FileNotFoundError if there is no driver."""
    if not NS3_DRIVER.exists():
        raise FileNotFoundError(f"--engine packets: ns-3 is not set up: run sudo {COMMAND} setup --ns3")


def packet_times(plan: Plan, on_progress: OnProgress | None = None) -> PacketTimes:
    """What happens when, on the plan's own paths.

    Raise Refused for what it cannot carry out or would take too long for, RuntimeError if it fails.
    """
    check(plan, "ns-3", "--engine packets")
    _check_size(plan)
    times, (n_dropped, n_resent) = carry_out(
        "ns-3", [NS3_DRIVER], plan, problem(plan), n_more=2, on_progress=on_progress
    )
    n_sends = len(plan.schedule.sends)
    return PacketTimes(times[:n_sends], times[n_sends:], int(n_dropped), int(n_resent))


def _check_size(plan: Plan) -> None:
    if len(plan.flows) // 2 > MOST_CONNECTIONS:
        raise Refused(
            f"--engine packets: the plan has {len(plan.flows) // 2:,} connections, and gradwire gives ns-3 "
            f"at most {MOST_CONNECTIONS:,}: plan for fewer ranks"
        )
    crossings = crossings_of(plan)
    if (wanted := crossings(1.0)) <= MOST_CROSSINGS:
        return
    raise Refused(
        f"--engine packets: packets would cross cables {wanted:,} times, and gradwire gives ns-3 at most "
        f"{MOST_CROSSINGS:,}: {_nearest_size(plan, crossings)}"
    )


def crossings_of(plan: Plan) -> Callable[[float], int]:
    """How often full packets cross cables, of a plan with so much of its bytes (1 for all)."""
    sends, numbers = plan.schedule.sends, flow_numbers(plan.flows)
    n_cables = np.zeros((plan.n_ranks, plan.n_ranks), np.int64)
    for src, dst in numbers:
        n_cables[src, dst] = len(plan.flows[numbers[src, dst]].path)
    of_sends = n_cables[sends.src, sends.dst]
    payload_nbytes = tcp_payload_nbytes(plan.fabric.mtu_nbytes)

    def crossings(share: float) -> int:
        packets = np.ceil(sends.nbytes * share / payload_nbytes)
        return int((packets * of_sends).sum())

    return crossings


def _nearest_size(plan: Plan, crossings: Callable[[float], int]) -> str:
    """What to do about a plan that has too many packets, in words."""
    asked_nbytes = sum(op.asked_nbytes for op in plan.schedule.ops)
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if crossings(middle) <= MOST_CROSSINGS else (low, middle)
    if int(asked_nbytes * low) < len(plan.schedule.ops):
        return "even one packet for each send would be too many: plan for fewer ranks"
    return f"plan for {show_nbytes(_rounded_down(asked_nbytes * low))} instead of {show_nbytes(asked_nbytes)}"


def _rounded_down(nbytes: float) -> int:
    """To two digits."""
    step = 10 ** max(0, len(str(int(nbytes))) - 2)
    return int(nbytes // step * step)


def problem(plan: Plan) -> list[Column]:
    """As ns3.cpp reads it; of the fabric only what the plan uses."""
    sizes, columns = waiting(plan)
    fabric, transport = plan.fabric, plan.transport
    flows_at: Counter[tuple[str, int]] = Counter(end for flow in plan.flows for end in flow.path)
    cables = [link for link in fabric.links if flows_at[link.a, link.a_port] or flows_at[link.b, link.b_port]]
    used = {node for link in cables for node in (link.a, link.b)}
    hosts = [host for host in fabric.hosts if host in used]
    nodes = {node: i for i, node in enumerate((*hosts, *(each for each in fabric.switches if each in used)))}
    ends = [end for link in cables for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))]
    end_numbers = {end: i for i, end in enumerate(ends)}
    pairs = flow_numbers(plan.flows)
    settings = _settings(transport, fabric.mtu_nbytes)
    return [
        integers([len(hosts), len(nodes), len(cables), len(settings), *sizes]),
        integers(settings),
        integers([_number(fabric.ip(host)) for host in hosts]),
        integers([nodes[end.node] for end in ends]),
        integers([link.rate_bps for link in cables]),
        integers([link.delay_ns for link in cables]),
        integers([queue_nbytes(fabric.cables[end], transport, flows_at[end]) for end in ends]),
        integers([flow.sport for flow in plan.flows]),
        integers([flow.dport for flow in plan.flows]),
        integers([pairs[flow.dst, flow.src] for flow in plan.flows]),
        integers([flow.src > flow.dst for flow in plan.flows]),
        *lists_of([[end_numbers[end] for end in flow.path] for flow in plan.flows]),
        *columns,
    ]


def _settings(transport: Transport, mtu_nbytes: int) -> tuple[int, ...]:
    """Of TCP, as ns3.cpp numbers them; the last is how many bytes a segment of the kernel's has."""
    payload_nbytes = tcp_payload_nbytes(mtu_nbytes)
    return (
        payload_nbytes,
        mtu_nbytes,
        transport.rcvbuf_nbytes,
        buffered_nbytes(transport.sndbuf_nbytes),
        INITIAL_WINDOW_SEGMENTS,
        DELAYED_ACK_MS,
        LEAST_TIMEOUT_MS,
        segment_nbytes(transport.gso_max_nbytes, mtu_nbytes),
    )


def _number(ip: str) -> int:
    return int.from_bytes(bytes(map(int, ip.split("."))))
