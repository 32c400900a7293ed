"""Shifts of a calibration: rounds in which every rank sends to the next, small messages and then large ones.

How they are made, and what their times say of a message when all ranks send, and of flows between machines.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.schedule import Gate, Op
from gradwire.traces.schedules.sends import Send

SMALL_NBYTES = 64
PAUSE_NS = 5_000_000  # after what comes before, for its last messages
N_SHIFTS, N_LARGE_SHIFTS = 11, 3  # rounds of small, of medium and of large messages: of the last two as many
LARGE_SHIFT_S = 0.08  # a round of large ones takes about so long; medium ones have half the bytes
MAX_SHIFT_NBYTES = 1 << 20  # every rank holds those of all rounds

Floats = npt.NDArray[np.float64]


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


def add_shifts(n_ranks: int, rate_bps: int, ops: list[Op], sends: list[Send], gates: list[Gate]) -> None:
    """Rounds in which rank r sends to r+1 what may leave when that of the round before has come in.

    They begin after all operations that there are, and a pause.  Receivers have two buffers, as in a ring.
    `rate_bps` is that of the slowest link.
    """
    before = tuple(range(len(ops)))
    large_nbytes = min(int(rate_bps / 8 * LARGE_SHIFT_S), MAX_SHIFT_NBYTES)
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
            gates += (Gate(op, each, before, PAUSE_NS) for each in waiting)


def fit_shift(plan: Plan, arrived_ns: Sequence[int], n_after: int) -> Shift | None:
    """What the shifts took; None without them.  `n_after` sends of the plan come after them.

    A small round counts from the last arrival of the one before to its own, so that waiting for the slowest
    rank is in it, as in a collective.  Goodput is that of the bytes which a large message has more than a
    medium one, over the time that it takes longer: the median of the flows, each with its part of the links
    that flows share.
    """
    arrived = _arrivals(plan, arrived_ns, n_after)
    if arrived is None:
        return None
    alpha_s = float(np.median(np.diff(arrived[:N_SHIFTS].max(axis=1))))
    return Shift(alpha_s, float(np.median(_etas(plan, arrived, n_after))), arrived.shape[1])


def fit_tunnels(
    plan: Plan, arrived_ns: Sequence[int], n_after: int, crossing: Collection[Egress]
) -> Tunnels | None:
    """Of the shifts' flows that use a port of `crossing`; None if there are none.

    As the ranks are a ring, as many flows lead from each of two machines to the other as back: how far their
    clocks are apart, which makes the one longer and the other shorter, is not in the mean.

    `eta` is that of flows which share their links with no other one, if there are any: a message of one that
    shares also waits for the message before it, as the ranks that send to it are faster, and seems to take
    three times as long.
    """
    arrived = _arrivals(plan, arrived_ns, n_after)
    if arrived is None:
        return None
    paths, _ = _paths(plan, arrived.shape[1])
    crosses = np.roll([not set(crossing).isdisjoint(path) for path in paths], 1)  # by the rank that receives
    if not crosses.any():
        return None
    small_s = np.median(arrived[1:N_SHIFTS] - np.roll(arrived[: N_SHIFTS - 1], 1, axis=1), axis=0)
    delay_s = None if crosses.all() else float(small_s[crosses].mean() - small_s[~crosses].mean())
    alone = crosses & np.roll(_alone(plan, arrived.shape[1]), 1)
    return Tunnels(float(_etas(plan, arrived, n_after)[alone if alone.any() else crosses].mean()), delay_s)


def _arrivals(plan: Plan, arrived_ns: Sequence[int], n_after: int) -> Floats | None:
    """When the message of each round (row) was in at each rank (column), in seconds; None without shifts."""
    n_rounds = N_SHIFTS + 2 * N_LARGE_SHIFTS
    end = len(plan.schedule.sends) - n_after
    n_ranks = (sum(op.kind == "message" for op in plan.schedule.ops) - n_after) // n_rounds
    if not n_ranks:
        return None
    rounds = np.reshape(arrived_ns[end - n_rounds * n_ranks : end], (n_rounds, n_ranks))
    return np.roll(rounds, 1, axis=1) / 1e9  # message r of a round is in at rank r + 1


def _etas(plan: Plan, arrived: Floats, n_after: int) -> Floats:
    """The goodput of each flow of large messages over its part of the slowest link, by the rank that
    receives.
    """
    took_s = arrived[N_SHIFTS:] - np.roll(arrived[N_SHIFTS - 1 : -1], 1, axis=1)
    medium_s, large_s = (np.median(some, axis=0) for some in np.split(took_s, 2))
    n_ranks = arrived.shape[1]
    end = len(plan.schedule.sends) - n_after
    nbytes = np.roll(plan.schedule.sends.nbytes[end - n_ranks : end], 1)
    goodput_bps = (nbytes - nbytes // 2) * 8 / np.maximum(large_s - medium_s, 1e-9)
    etas: Floats = goodput_bps / np.roll(_shares_bps(plan, n_ranks), 1)
    return etas


def _shares_bps(plan: Plan, n_ranks: int) -> list[float]:
    """Of the flow from each rank to the next its part of the slowest link, if all of them send."""
    paths, n_flows = _paths(plan, n_ranks)
    return [min(plan.fabric.rates[egress] / n_flows[egress] for egress in path) for path in paths]


def _alone(plan: Plan, n_ranks: int) -> npt.NDArray[np.bool_]:
    """Whether no other flow of a shift uses a link of the flow from each rank to the next."""
    paths, n_flows = _paths(plan, n_ranks)
    return np.array([all(n_flows[egress] == 1 for egress in path) for path in paths])


def _paths(plan: Plan, n_ranks: int) -> tuple[list[tuple[Egress, ...]], Counter[Egress]]:
    """Of the flow from each rank to the next, and how many of these flows use each link."""
    path_of = {(flow.src, flow.dst): flow.path for flow in plan.flows}
    paths = [path_of[rank, (rank + 1) % n_ranks] for rank in range(n_ranks)]
    return paths, Counter(egress for path in paths for egress in path)


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
