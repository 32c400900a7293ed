"""Measured properties of a fabric on this machine: the cost of a send, latency, goodput of one flow.

The calibration is itself a plan, carried out by the same agents over the same switches.  First a *crowd* of
ranks does small allreduces all at once, with so few bytes that the machine's own time is most of it.  Then
each of them sends to the next, all at once, small messages and then large ones: a *shift*.  At last two ranks
at the largest distance send to and fro, small messages first, then larger, then very large.
Fitted, not assumed: the time of a message is alpha + nbytes * 8 / (rate * eta), with figures of their own for
the shift and for those two.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.algorithms.doubling import halving_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.pacing import by_step, two_buffers
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send, Sends

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
N_SHIFTS, N_LARGE_SHIFTS = 11, 3  # rounds of small, of medium and of large messages: of the last two as many
LARGE_SHIFT_S = 0.08  # a round of large ones takes about so long; medium ones have half the bytes
MAX_SHIFT_NBYTES = 1 << 20  # every rank holds those of all rounds


Floats = npt.NDArray[np.float64]


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
class Shift:
    """Of `n_ranks` ranks that all send at once: `alpha_s` is the time of a round of small messages, `eta` as
    of a calibration.
    """

    alpha_s: float
    eta: float
    n_ranks: int


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Of the flows of a shift that cross from one machine to another: `eta` as of a calibration, `delay_s` is
    how much longer a small message takes than one that does not cross; None if all of them cross.
    """

    eta: float
    delay_s: float | None


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
    return (SMALL_NBYTES,) * N_SMALL + (medium,) * N_MEDIUM + (large,) * N_LARGE


def schedule(rate_bps: int, gso_max_nbytes: int, far: int = 1, n_crowd: int = 0) -> Schedule:
    """The crowd's allreduces on ranks 0 to `n_crowd` - 1, their shifts, then rank 0 sends and `far` answers,
    each when the other's message is in.  Nothing of one part begins before the one before it is over, and a
    pause.
    """
    ops, sends, gates = crowd(n_crowd)
    if ops:
        add_shifts(n_crowd, min(int(rate_bps / 8 * LARGE_SHIFT_S), MAX_SHIFT_NBYTES), ops, sends, gates)
    n_before = len(ops)
    pair = (0, far)
    round_of_last = sends[len(sends) - n_crowd :]
    last = {rank: tuple(send.op for send in round_of_last if rank in (send.src, send.dst)) for rank in pair}
    for number, nbytes in enumerate(sizes(rate_bps, gso_max_nbytes)):
        ops.append(Op("message", nbytes, tag=number, root=pair[number % 2]))
        needs = (len(sends) - 1,) if number else ()
        src, dst = pair[number % 2], pair[1 - number % 2]
        sends.append(Send(n_before + number, src, dst, 0, nbytes, reduce=False, needs=needs))
        if n_crowd > 1:
            gates += (Gate(n_before + number, rank, last[rank], PAIR_PAUSE_NS) for rank in pair)
    return Schedule.of(max(n_crowd, far + 1), tuple(ops), tuple(sends), tuple(gates))


def add_shifts(n_ranks: int, large_nbytes: int, ops: list[Op], sends: list[Send], gates: list[Gate]) -> None:
    """Rounds in which rank r sends to r+1 what may leave when that of the round before has come in.

    They begin after all operations of the crowd, and a pause.  Receivers have two buffers, as in a ring.
    """
    crowd_ops = tuple(range(len(ops)))
    large = (large_nbytes // 2,) * N_LARGE_SHIFTS + (large_nbytes,) * N_LARGE_SHIFTS
    for number, nbytes in enumerate((SMALL_NBYTES,) * N_SHIFTS + large):
        begin = len(sends) - n_ranks
        for rank in range(n_ranks):
            op, following = len(ops), (rank + 1) % n_ranks
            needs = (begin + (rank - 1) % n_ranks,) if number else ()
            ready = (begin - n_ranks + rank,) if number > 1 else ()
            ops.append(Op("message", nbytes, tag=op, root=rank))
            sends.append(Send(op, rank, following, 0, nbytes, reduce=False, needs=needs, ready=ready))
            waiting = (rank, following) if number == 0 else (following,) if number == 1 else ()
            gates += (Gate(op, each, crowd_ops, CROWD_PAUSE_NS) for each in waiting)


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


def fit(plan: Plan, arrived_ns: list[int], start_ns: int) -> Calibration:
    """`arrived_ns[i]` is when send i was in; of the two ranks it left when send i-1 had arrived.

    Both directions use the same cables.  Of large messages the fastest counts: whatever else happens on the
    machine only makes them longer.
    """
    n_pair = N_SMALL + N_MEDIUM + N_LARGE
    first = len(plan.schedule.sends) - n_pair
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
        alpha_s=max(0.0, medium - n_medium * 8 / goodput_bps),
        latency_s=small,
        eta=goodput_bps / rate_bps,
        shift=fit_shift(plan, arrived_ns),
    )


def fit_shift(plan: Plan, arrived_ns: Sequence[int]) -> Shift | None:
    """What the shifts took; None without them.

    A small round counts from the last arrival of the one before to its own, so that waiting for the slowest
    rank is in it, as in a collective.  Goodput is that of the bytes which a large message has more than a
    medium one, over the time that it takes longer: the median of the flows, each with its part of the links
    that flows share.
    """
    arrived = _shift_arrivals(plan, arrived_ns)
    if arrived is None:
        return None
    alpha_s = float(np.median(np.diff(arrived[:N_SHIFTS].max(axis=1))))
    return Shift(alpha_s, float(np.median(_shift_etas(plan, arrived))), arrived.shape[1])


def fit_tunnels(plan: Plan, arrived_ns: Sequence[int], crossing: Collection[Egress]) -> Tunnels | None:
    """Of the shifts' flows that use a port of `crossing`; None if there are none.

    As the ranks are a ring, as many flows lead from each of two machines to the other as back: how far their
    clocks are apart, which makes the one longer and the other shorter, is not in the mean.

    `eta` is that of flows which share their links with no other one, if there are any: a message of one that
    shares also waits for the message before it, as the ranks that send to it are faster, and seems to take
    three times as long.
    """
    arrived = _shift_arrivals(plan, arrived_ns)
    if arrived is None:
        return None
    crosses = np.array([not set(crossing).isdisjoint(path) for path in _shift_paths(plan, arrived.shape[1])])
    crosses = np.roll(crosses, 1)  # by the rank that receives
    if not crosses.any():
        return None
    small_s = np.median(arrived[1:N_SHIFTS] - np.roll(arrived[: N_SHIFTS - 1], 1, axis=1), axis=0)
    delay_s = None if crosses.all() else float(small_s[crosses].mean() - small_s[~crosses].mean())
    alone = crosses & np.roll(_alone(plan, arrived.shape[1]), 1)
    return Tunnels(float(_shift_etas(plan, arrived)[alone if alone.any() else crosses].mean()), delay_s)


def _shift_arrivals(plan: Plan, arrived_ns: Sequence[int]) -> Floats | None:
    """When the message of each round (row) was in at each rank (column), in seconds; None without shifts."""
    n_rounds = N_SHIFTS + 2 * N_LARGE_SHIFTS
    n_pair = N_SMALL + N_MEDIUM + N_LARGE
    end = len(plan.schedule.sends) - n_pair
    n_ranks = (sum(op.kind == "message" for op in plan.schedule.ops) - n_pair) // n_rounds
    if not n_ranks:
        return None
    rounds = np.reshape(arrived_ns[end - n_rounds * n_ranks : end], (n_rounds, n_ranks))
    return np.roll(rounds, 1, axis=1) / 1e9  # message r of a round is in at rank r + 1


def _shift_etas(plan: Plan, arrived: Floats) -> Floats:
    """The goodput of each flow of large messages over its part of the slowest link, by the rank that
    receives.
    """
    took_s = arrived[N_SHIFTS:] - np.roll(arrived[N_SHIFTS - 1 : -1], 1, axis=1)
    medium_s, large_s = (np.median(some, axis=0) for some in np.split(took_s, 2))
    n_ranks = arrived.shape[1]
    end = len(plan.schedule.sends) - (N_SMALL + N_MEDIUM + N_LARGE)
    nbytes = np.roll(plan.schedule.sends.nbytes[end - n_ranks : end], 1)
    goodput_bps = (nbytes - nbytes // 2) * 8 / np.maximum(large_s - medium_s, 1e-9)
    etas: Floats = goodput_bps / np.roll(_shares_bps(plan, n_ranks), 1)
    return etas


def _shares_bps(plan: Plan, n_ranks: int) -> list[float]:
    """Of the flow from each rank to the next its part of the slowest link, if all of them send."""
    paths = _shift_paths(plan, n_ranks)
    n_flows = Counter(egress for path in paths for egress in path)
    return [min(plan.fabric.rates[egress] / n_flows[egress] for egress in path) for path in paths]


def _alone(plan: Plan, n_ranks: int) -> npt.NDArray[np.bool_]:
    """Whether no other flow of a shift uses a link of the flow from each rank to the next."""
    paths = _shift_paths(plan, n_ranks)
    n_flows = Counter(egress for path in paths for egress in path)
    return np.array([all(n_flows[egress] == 1 for egress in path) for path in paths])


def _shift_paths(plan: Plan, n_ranks: int) -> list[tuple[Egress, ...]]:
    """Of the flow from each rank to the next."""
    path_of = {(flow.src, flow.dst): flow.path for flow in plan.flows}
    return [path_of[rank, (rank + 1) % n_ranks] for rank in range(n_ranks)]


def middle_tunnels(found: Sequence[Tunnels]) -> Tunnels | None:
    """Of several repeats: each figure's median."""
    if not found:
        return None
    delays_s = [each.delay_s for each in found if each.delay_s is not None]
    return Tunnels(median(each.eta for each in found), median(delays_s) if delays_s else None)


def middle_shift(shifts: Sequence[Shift]) -> Shift | None:
    """Of several repeats: each figure's median."""
    if not shifts:
        return None
    return Shift(
        median(each.alpha_s for each in shifts), median(each.eta for each in shifts), shifts[0].n_ranks
    )
