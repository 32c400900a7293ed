"""What this machine makes of a fabric when nothing competes: latency per send, goodput of one flow.

The calibration is itself a plan, carried out by the same agents over the same switches: two ranks at the
largest distance send to and fro, small messages first, then larger, then very large.  Fitted, not assumed:
the time of a message is alpha + nbytes * 8 / (rate * eta).
"""

from dataclasses import dataclass
from statistics import median

from emu.plan import Plan
from traces.schedules.schedule import Op, Schedule, Send

SMALL_NBYTES = 64
SEGMENT_MESSAGES = 12  # a medium message is so many segments: its alpha has the store-and-forward in it
LARGE_S = 0.5  # a large message takes about so long
MAX_LARGE_NBYTES = 64 << 20
N_SMALL, N_MEDIUM, N_LARGE = 11, 7, 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """`alpha_s` per send with data, `latency_s` of a tiny one, `eta` = goodput / nominal rate."""

    alpha_s: float
    latency_s: float
    eta: float

    @property
    def per_send_s(self) -> float:
        """What the fluid model adds to each send: no message is faster than a tiny one."""
        return max(self.alpha_s, self.latency_s)


def sizes(plan_rate_bps: int, gso_max_nbytes: int) -> tuple[int, ...]:
    large = min(int(plan_rate_bps / 8 * LARGE_S), MAX_LARGE_NBYTES)
    medium = min(SEGMENT_MESSAGES * gso_max_nbytes, large // 4)
    return (SMALL_NBYTES,) * N_SMALL + (medium,) * N_MEDIUM + (large,) * N_LARGE


def schedule(rate_bps: int, gso_max_nbytes: int) -> Schedule:
    """Rank 0 sends, rank 1 answers, each when the other's message is in."""
    counts = sizes(rate_bps, gso_max_nbytes)
    ops = tuple(Op("message", nbytes, tag=number, root=number % 2) for number, nbytes in enumerate(counts))
    sends = tuple(
        Send(
            number, number % 2, 1 - number % 2, 0, nbytes, reduce=False, needs=(number - 1,) if number else ()
        )
        for number, nbytes in enumerate(counts)
    )
    return Schedule(2, ops, sends)


def fit(plan: Plan, arrived_ns: list[int], start_ns: int) -> Calibration:
    """`arrived_ns[i]` is when send i was in; it left when send i-1 had arrived.

    Both directions use the same cables.
    """
    times = [(b - a) / 1e9 for a, b in zip([start_ns, *arrived_ns], arrived_ns, strict=False)]
    counts = [send.nbytes for send in plan.schedule.sends]
    small = median(times[1:N_SMALL])
    medium = median(times[N_SMALL : N_SMALL + N_MEDIUM])
    large = median(times[N_SMALL + N_MEDIUM :])
    n_medium, n_large = counts[N_SMALL], counts[-1]
    goodput_bps = (n_large - n_medium) * 8 / (large - medium)
    rate_bps = min(plan.fabric.rates[end] for flow in plan.flows for end in flow.path)
    return Calibration(
        alpha_s=max(0.0, medium - n_medium * 8 / goodput_bps), latency_s=small, eta=goodput_bps / rate_bps
    )
