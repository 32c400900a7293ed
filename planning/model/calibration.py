"""Measured properties of a fabric on this machine: the cost of a send, latency, goodput of one flow.

The calibration is itself a plan, carried out by the same agents over the same switches.  First a *crowd* of
ranks does small allreduces all at once, with so few bytes that the machine's own time is most of it.  Then
two ranks at the largest distance send to and fro, small messages first, then larger, then very large.
Fitted, not assumed: the time of a message between those two is alpha + nbytes * 8 / (rate * eta).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gradwire.planning.plan import Plan
from gradwire.traces.schedules.algorithms.doubling import halving_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send

SMALL_NBYTES = 64
SEGMENT_MESSAGES = 12  # a medium message is so many segments: its alpha has the store-and-forward in it
LARGE_S = 0.4  # a large message takes about so long
MAX_LARGE_NBYTES = 64 << 20
N_SMALL, N_MEDIUM, N_LARGE = 11, 7, 3
MAX_CROWD = 16  # ranks: with more the machine is as full, and an allreduce takes longer
CROWD_CHUNKS = (64, 4096)  # bytes that a rank sends in a step
CROWD_SAMPLES = 2  # allreduces of each kind
CROWD_PAUSE_NS = 5_000_000  # between two of them, for the last messages of the one before
PAIR_PAUSE_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """A fitted figure: its middle, and the range of the fits, in the unit of the field that has it."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class HostTimes:
    """What hosts cost, for the model (planning.model.hosts.HostCosts): how long a processor of the
    machine is busy with each message, and with a rank's start.  `n_cpus` processors shared the work.
    """

    message_s: Range
    start_s: Range
    wire_s: float
    n_cpus: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """`alpha_s` per send with data, `latency_s` of a tiny one, `eta` = goodput / nominal rate.

    `hosts` is None in runs from before they were measured.
    """

    alpha_s: float
    latency_s: float
    eta: float
    hosts: HostTimes | None = None

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
    return (SMALL_NBYTES,) * N_SMALL + (medium,) * N_MEDIUM + (large,) * N_LARGE


def schedule(rate_bps: int, gso_max_nbytes: int, far: int = 1, n_crowd: int = 0) -> Schedule:
    """The crowd's allreduces on ranks 0 to `n_crowd` - 1, then rank 0 sends and `far` answers, each when the
    other's message is in.  Nothing of one part begins before the one before it is over, and a pause.
    """
    ops, sends, gates = crowd(n_crowd)
    n_crowd_ops = len(ops)
    pair = (0, far)
    for number, nbytes in enumerate(sizes(rate_bps, gso_max_nbytes)):
        ops.append(Op("message", nbytes, tag=number, root=pair[number % 2]))
        needs = (len(sends) - 1,) if number else ()
        src, dst = pair[number % 2], pair[1 - number % 2]
        sends.append(Send(n_crowd_ops + number, src, dst, 0, nbytes, reduce=False, needs=needs))
        if n_crowd_ops:
            gates += (Gate(n_crowd_ops + number, rank, (n_crowd_ops - 1,), PAIR_PAUSE_NS) for rank in pair)
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
            gates += (Gate(op, rank, (op - 1,), CROWD_PAUSE_NS) for rank in range(n_ranks))
    return ops, sends, gates


def crowd_kinds(n_ranks: int) -> tuple[tuple[Send, ...], ...]:
    """A ring, and halving-doubling among as many ranks as that serves, with chunks of each size.

    In a ring a receiver is ready long before; in halving-doubling each send waits for its receiver's notice.
    """
    if n_ranks < 2:
        return ()
    power = 1 << (n_ranks.bit_length() - 1)
    return tuple(
        tuple(make(n, n * nbytes))
        for nbytes in CROWD_CHUNKS
        for make, n in ((ring, n_ranks), (halving_doubling, power))
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


def fit(plan: Plan, arrived_ns: list[int], start_ns: int) -> Calibration:
    """`arrived_ns[i]` is when send i was in; it left when send i-1 had arrived.

    Both directions use the same cables.  Of large messages the fastest counts: whatever else happens on the
    machine only makes them longer.
    """
    first = next(
        i for i, send in enumerate(plan.schedule.sends) if plan.schedule.ops[send.op].kind == "message"
    )
    begins = [arrived_ns[first - 1] if first else start_ns, *arrived_ns[first:]]
    times = [(b - a) / 1e9 for a, b in zip(begins, arrived_ns[first:], strict=False)]
    counts = [send.nbytes for send in plan.schedule.sends[first:]]
    small = median(times[1:N_SMALL])
    medium = median(times[N_SMALL : N_SMALL + N_MEDIUM])
    large = min(times[N_SMALL + N_MEDIUM :])
    n_medium, n_large = counts[N_SMALL], counts[-1]
    goodput_bps = (n_large - n_medium) * 8 / (large - medium)
    pair = {(send.src, send.dst) for send in plan.schedule.sends[first:]}
    used = [flow for flow in plan.flows if (flow.src, flow.dst) in pair]
    rate_bps = min(plan.fabric.rates[end] for flow in used for end in flow.path)
    return Calibration(
        alpha_s=max(0.0, medium - n_medium * 8 / goodput_bps), latency_s=small, eta=goodput_bps / rate_bps
    )
