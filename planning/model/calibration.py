"""Measured properties of a fabric on this machine: the cost of a send, latency, goodput of one flow.

The calibration is itself a plan, carried out by the same agents over the same switches.  First a *crowd* of
ranks does small allreduces all at once, with so few bytes that the machine's own time is most of it.  Then
each of them sends to the next, all at once, small messages and then large ones: a *shift*.  At last two ranks
at the largest distance send to and fro, small messages first, each after a *rest* and then without, then
larger, then very large.  A processor that has rested is late: its machine has to be woken.
Fitted, not assumed: the time of a message is alpha + nbytes * 8 / (rate * eta), with figures of their own for
the shift and for those two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gradwire.planning.model.shifts import (
    PAUSE_NS,
    SMALL_NBYTES,
    Shift,
    Tunnels,
    add_shifts,
    fit_shift,
)
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.algorithms.doubling import halving_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.pacing import by_step, two_buffers
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send, Sends

SEGMENT_MESSAGES = 12  # a medium message is this many segments: its alpha has the store-and-forward in it
LARGE_S = 0.3  # a large message takes about so long
MAX_LARGE_NBYTES = 64 << 20
N_RESTED, N_SMALL, N_MEDIUM, N_LARGE = 9, 11, 7, 2
N_PAIR = N_RESTED + N_SMALL + N_MEDIUM + N_LARGE  # messages of the two ranks, the last of all
MAX_CROWD = 16  # ranks: with more the machine is as full, and an allreduce takes longer
CROWD_CHUNKS = (64, 4096)  # bytes that a rank sends in a step
CROWD_SAMPLES = 2  # allreduces of each kind
PAIR_PAUSE_NS = 50_000_000
REST_NS = 3_000_000  # as between the messages of a job that its links bound


@dataclass(frozen=True, slots=True)
class Range:
    """A fitted figure: its middle, and the range of the fits, in the unit of the field that has it."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class HostTimes:
    """What hosts cost, for the model (planning.model.hosts.HostCosts): how long a processor of the
    machine is busy with each message, and with a rank's start.  `n_cpus` processors shared the work, and one
    that has rested begins `wake_s` late; 0 in runs from before that was measured.
    """

    message_s: Range
    start_s: Range
    wire_s: float
    n_cpus: int
    wake_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """`alpha_s` per send with data, `latency_s` of a tiny one, `eta` = goodput / nominal rate.

    `hosts` and `shift` are None in runs from before they were measured, `tunnels` on one machine.
    """

    alpha_s: float
    latency_s: float
    eta: float
    hosts: HostTimes | None = None
    shift: Shift | None = None
    tunnels: Tunnels | None = None

    @property
    def per_send_s(self) -> float:
        """What is added to each send where no host times are known: no message is faster than a tiny one."""
        return max(self.alpha_s, self.latency_s)


def sizes(plan_rate_bps: int, gso_max_nbytes: int) -> tuple[int, ...]:
    """The bytes of the messages between the two ranks, in their order: small, medium and large ones.

    `plan_rate_bps` is the rate of the slowest link between them, `gso_max_nbytes` the longest segment.
    """
    large = min(int(plan_rate_bps / 8 * LARGE_S), MAX_LARGE_NBYTES)
    medium = min(SEGMENT_MESSAGES * gso_max_nbytes, large // 4)
    return (SMALL_NBYTES,) * (N_RESTED + N_SMALL) + (medium,) * N_MEDIUM + (large,) * N_LARGE


def schedule(rate_bps: int, gso_max_nbytes: int, far: int = 1, n_crowd: int = 0) -> Schedule:
    """The crowd's allreduces on ranks 0 to `n_crowd` - 1, their shifts, then rank 0 sends and `far` answers,
    each when the other's message is in, the first N_RESTED REST_NS later.  Nothing of one part begins before
    the one before it is over, and a pause.
    """
    ops, sends, gates = crowd(n_crowd)
    if ops:
        add_shifts(n_crowd, rate_bps, ops, sends, gates)
    n_before = len(ops)
    pair = (0, far)
    round_of_last = sends[len(sends) - n_crowd :]
    last = {rank: tuple(send.op for send in round_of_last if rank in (send.src, send.dst)) for rank in pair}
    for number, nbytes in enumerate(sizes(rate_bps, gso_max_nbytes)):
        ops.append(Op("message", nbytes, tag=number, root=pair[number % 2]))
        needs = (len(sends) - 1,) if number else ()
        src, dst = pair[number % 2], pair[1 - number % 2]
        sends.append(Send(n_before + number, src, dst, 0, nbytes, reduce=False, needs=needs))
        if 0 < number < N_RESTED:
            gates.append(Gate(n_before + number, src, (n_before + number - 1,), REST_NS))
        if n_crowd > 1:
            begins = pair if number == 0 or number >= N_RESTED else (dst,)
            gates += (Gate(n_before + number, rank, last[rank], PAIR_PAUSE_NS) for rank in begins)
    return Schedule.of(max(n_crowd, far + 1), tuple(ops), tuple(sends), tuple(gates))


def crowd(n_ranks: int) -> tuple[list[Op], list[Send], list[Gate]]:
    """All allreduces of the crowd, by turns of each kind and size; nothing for less than two ranks."""
    ops: list[Op] = []
    sends: list[Send] = []
    gates: list[Gate] = []
    for allreduce in [*crowd_kinds(n_ranks)] * CROWD_SAMPLES:
        op = len(ops)
        ops.append(Op("allreduce", max(send.offset + send.nbytes for send in allreduce), tag=op + 1))
        first = len(sends)
        sends += (
            Send(
                op,
                send.src,
                send.dst,
                send.offset,
                send.nbytes,
                send.reduce,
                needs=tuple(first + other for other in send.needs),
                ready=tuple(first + other for other in send.ready),
                step=send.step,
            )
            for send in allreduce
        )
        if op:
            gates += (Gate(op, rank, (op - 1,), PAUSE_NS) for rank in range(n_ranks))
    return ops, sends, gates


def crowd_kinds(n_ranks: int) -> tuple[tuple[Send, ...], ...]:
    """A ring, and halving-doubling among as many ranks as that serves, with chunks of each size.

    In a ring a receiver is ready long before; in halving-doubling each send waits for its receiver's notice.
    """
    if n_ranks < 2:
        return ()
    power = 1 << (n_ranks.bit_length() - 1)
    return tuple(
        tuple(made)
        for nbytes in CROWD_CHUNKS
        for made in (
            two_buffers(ring(n_ranks, n_ranks * nbytes)),
            by_step(Sends.of(halving_doubling(power, power * nbytes))),
        )
    )


def crowd_times_s(plan: Plan, arrived_ns: Sequence[int]) -> list[list[float]]:
    """Of each kind and each of its samples: from when every rank has its first send in to the last of all."""
    n_kinds = len(CROWD_CHUNKS) * 2
    times: list[list[float]] = [[] for _ in range(n_kinds)]
    for op, operation in enumerate(plan.schedule.ops):
        if operation.kind == "allreduce":
            arrivals = [
                (send.step, at)
                for send, at in zip(plan.schedule.sends, arrived_ns, strict=True)
                if send.op == op
            ]
            times[op % n_kinds].append(after_first_step_s(arrivals) / 1e9)
    return times


def after_first_step_s(arrivals: Sequence[tuple[int, float]]) -> float:
    """From the last arrival of step 0 to the last of all, in their unit; `arrivals` are (step, when)."""
    return max(at for _, at in arrivals) - first_step(arrivals)


def first_step(arrivals: Sequence[tuple[int, float]]) -> float:
    """When all of step 0 has arrived."""
    return max(at for step, at in arrivals if step == 0)


def rested_s(plan: Plan, queued_ns: Sequence[int], arrived_ns: Sequence[int]) -> float:
    """The latency of a small message where processors have rested, from when its source sends it: the mean of
    both directions, in which clocks of two machines that are apart are not.
    """
    first = len(plan.schedule.sends) - N_PAIR
    took_ns = [arrived_ns[number] - queued_ns[number] for number in range(first, first + N_RESTED)]
    return (median(took_ns[0::2]) + median(took_ns[1::2])) / 2 / 1e9


def fit(plan: Plan, arrived_ns: Sequence[int]) -> Calibration:
    """`arrived_ns[i]` is when send i was in; of the two ranks it left when send i-1 had arrived.

    Both directions use the same cables.  Of large messages the fastest counts: whatever else happens on the
    machine only makes them longer.  Of medium ones it is the faster direction's median: where the crowd's
    queues ended slow start early in the other one, its small congestion window slows these messages but not
    the large ones, and their difference would be a goodput above the link's rate.
    """
    first = len(plan.schedule.sends) - N_PAIR + N_RESTED
    begins = [arrived_ns[first - 1], *arrived_ns[first:]]
    times = [(b - a) / 1e9 for a, b in zip(begins, arrived_ns[first:], strict=False)]
    counts = [send.nbytes for send in plan.schedule.sends[first:]]
    small = median(times[1:N_SMALL])
    medium = min(median(times[first_one : N_SMALL + N_MEDIUM : 2]) for first_one in (N_SMALL, N_SMALL + 1))
    large = min(times[N_SMALL + N_MEDIUM :])
    n_medium, n_large = counts[N_SMALL], counts[-1]
    goodput_bps = (n_large - n_medium) * 8 / (large - medium)
    pair = {(send.src, send.dst) for send in plan.schedule.sends[first:]}
    used = [flow for flow in plan.flows if (flow.src, flow.dst) in pair]
    rate_bps = min(plan.fabric.rates[end] for flow in used for end in flow.path)
    return Calibration(
        alpha_s=max(0.0, medium - n_medium * 8 / goodput_bps),
        latency_s=small,
        eta=goodput_bps / rate_bps,
        shift=fit_shift(plan, arrived_ns, N_PAIR),
    )
