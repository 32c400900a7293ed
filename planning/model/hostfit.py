"""Fits the costs of hosts, so that the model takes as long as many ranks at once took in a measurement."""

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median, quantiles

from gradwire.planning.model.calibration import HostTimes, Range, after_first_step_s, crowd_kinds, first_step
from gradwire.planning.model.hosts import HostCosts, costs_with
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send

MAX_S = 0.02  # of a processor for one message, or for a rank's start
LINKS_SHARE = 0.5  # of a measured time, above which it is the links that were measured
_ROUNDS = 21  # of a search, at most: where nothing but halving helps the step is 10 ns then
_NEAR = 0.01


def fit_hosts(
    plan: Plan,
    times_s: Sequence[Sequence[float]],
    starts_s: Sequence[float],
    latency_s: float,
    eta: float,
    n_cpus: int,
    wake_s: float = 0.0,
) -> HostTimes | None:
    """Host times from the crowd's allreduces: `times_s[kind]` are samples as `crowd_times_s` gives them,
    `starts_s` those of from the common start to the end of the first one's first step.

    `latency_s` is that of a message of a few bytes between two ranks alone, which one of them handles, and
    `wake_s` how much longer one takes whose receiver has rested: in a crowd nobody has.  For
    each kind the time of a message is worked out for the median of the samples and for their quartiles.
    The middle is the median of the kinds' medians; low and high are the least quartile and the largest.
    Kinds of which links alone, by the model, take more than LINKS_SHARE say nothing of hosts and are left
    out, unless all are such.  None without a crowd.
    """
    if not times_s or not times_s[0]:
        return None
    n_ranks = (
        max(send.src for send in plan.schedule.sends if plan.schedule.ops[send.op].kind != "message") + 1
    )

    def costs(message_s: float, start_s: float) -> HostCosts:
        wire_s = max(0.0, latency_s - message_s)
        return costs_with(plan.transport, wire_s=wire_s, start_s=start_s, message_s=message_s, n_cpus=n_cpus)

    kinds: list[tuple[Callable[[float], float], tuple[float, float, float]]] = []
    for sends, samples in zip(crowd_kinds(n_ranks), times_s, strict=True):
        arrivals = _arrivals(plan, sends, eta)

        @cache  # three searches begin at the same two ends, and of one sample they are the same
        def model_s(message_s: float, arrivals: _Arrivals = arrivals) -> float:
            return after_first_step_s(arrivals(costs(message_s, 0.0)))

        kinds.append((model_s, _quartiles(samples)))
    by_hosts = [kind for kind in kinds if kind[0](0.0) <= LINKS_SHARE * kind[1][1]]
    solved = [[_solved(of, quartile_s) for quartile_s in each] for of, each in by_hosts or kinds]
    lows, middles, highs = zip(*solved, strict=True)
    middle = median(middles)
    message = Range(min(lows), middle, max(highs))
    first = _arrivals(plan, crowd_kinds(n_ranks)[0], eta)

    @cache
    def started_s(start_s: float) -> float:
        return first_step(first(costs(middle, start_s)))

    start = Range(*(_solved(started_s, sample) for sample in _quartiles(starts_s)))
    return HostTimes(message, start, max(0.0, latency_s - middle), n_cpus, wake_s)


_Arrivals = Callable[[HostCosts], list[tuple[int, float]]]


def _arrivals(plan: Plan, sends: Sequence[Send], eta: float) -> _Arrivals:
    """When the sends of one allreduce of the crowd arrive, each with its step, if hosts cost so much."""
    nbytes = max(send.offset + send.nbytes for send in sends)
    schedule = Schedule.of(plan.n_ranks, (Op("allreduce", nbytes),), tuple(sends))
    pairs = {frozenset((send.src, send.dst)) for send in sends}  # notices go the other way
    flows = [flow for flow in plan.flows if frozenset((flow.src, flow.dst)) in pairs]

    def arrivals(hosts: HostCosts) -> list[tuple[int, float]]:
        ends_s = simulate(plan.fabric, flows, schedule, eta=eta, hosts=hosts).ends_s.tolist()
        return [(send.step, end_s) for send, end_s in zip(sends, ends_s, strict=True)]

    return arrivals


def _quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return low, middle, high


def _solved(of: Callable[[float], float], wanted_s: float) -> float:
    """The argument, between 0 and MAX_S, for which a function that grows with it gives `wanted_s`.

    By false position (the Illinois variant), to about a hundredth of `wanted_s`.  The nearer end if the
    function gives less, or more, everywhere.
    """
    low, high = 0.0, MAX_S
    below, above = of(low) - wanted_s, of(high) - wanted_s
    if below >= 0:
        return low
    if above <= 0:
        return high
    side = 0
    for _ in range(_ROUNDS):
        guess = (low * above - high * below) / (above - below)
        missed = of(guess) - wanted_s
        if abs(missed) <= _NEAR * wanted_s:
            break
        if missed < 0:
            low, below = guess, missed
            above = above / 2 if side < 0 else above
            side = -1
        else:
            high, above = guess, missed
            below = below / 2 if side > 0 else below
            side = 1
    return guess
