"""How long a run of a plan should take on a calibrated fabric, its error bar, and the machine's share.

The bar around a predicted time has three parts.  Host times are known as a range, so the model is asked with
the least and the largest of them, and with all communication MODEL_ERROR faster and slower, which is what the
model itself leaves out (losses, windows that depend on what happened before, processors that wake late).
Computing takes as long as it is said to.  Beyond MAX_ERROR of the predicted time these two never go.

    low = max(min(faster, predicted - own), predicted - limit)    high = min(max(slower, predicted + own),
                                                                             predicted + limit)

Of a job with many messages, `predicted` is the median over RELEASES_S, and its bar holds all of these within
`limit`: how long the kernel takes to let a connection go on is no calibration's to measure, and where ranks
wait for each other's notices it decides who waits, which makes an iteration a tenth longer or shorter.

Where servers take one worker at a time, the one that comes first, a job has several rhythms, and how late
timers are decides into which it falls.  So of such a job DRAWS_OF_ORDER are drawn besides: `predicted` is the
median of them all, and the bar holds each with MODEL_ERROR of it, but nothing beyond `limit`.

`own` is MODEL_ERROR of the predicted time; of what is exposed of an iteration it is TIMER_ERROR of the
iteration at least, since how long ranks compute differs by about that.  `limit` is MAX_ERROR of the whole
time, or, for exposed time as well, of the iteration.

The third part is what a capture leaves open: when ranks were ready to send (traces.schedules.latest).  A plan
says the earliest.  If the model is `shift` away from `predicted` with the latest, the bar goes at least as
far to that side as the two errors together, which have nothing to do with each other:

    hypot(own, shift)

Where that is more than `limit`, it is not a prediction: `Expected.doubt` says so, and the bar is as wide.

The machine's part of the predicted time is what hosts that cost nothing would save.  They keep step in a ring
as no hosts do that there are: over a shared cable that alone saves 14 %.  So it is not more than what hosts
take over links that cost nothing, where all of them wait for processors at once, and not more than what a
straight line saves through hosts that take a quarter, a half, three quarters and all of their times.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import hypot, inf
from statistics import linear_regression, median

from gradwire.planning.model.calibration import Calibration, HostTimes, Range
from gradwire.planning.model.errorbar import Bar, Expected
from gradwire.planning.model.hosts import RELEASE_S, HostCosts, costs_with
from gradwire.planning.model.predict import PredictedTimes, times_of
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.planning.transport import Transport, longest_round_trip_s, payload_efficiency
from gradwire.traces.schedules.latest import at_the_latest
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.units import show_s

# Of 335 replays of benchmarks.trust (2026-11-30) all took 0.94 to 1.04 times the model's time; of 85 more of
# asynchronous servers, whose bars are wider, 75 took 0.93 to 1.07 times that.
MODEL_ERROR = 0.07
MAX_ERROR = 0.10
TIMER_ERROR = 0.01
MOST_ROUND_TRIP_S = 0.002  # about a segment's time (planning.transport.SEGMENT_S)
LEAST_DOUBTED_SHARE = 0.05  # of the predicted time: a smaller part of the machine rules nothing out
LEAST_SHIFT = 0.01  # of the predicted time: what is less needs no words
# With no latency at all things end and begin at one instant, and rounding decides who waits for whom.
LEAST_WIRE_S = 1e-6
# The medians of 143 calibrations of several fabrics on two processors; at the least, hosts that cost nothing.
ASSUMED = HostTimes(Range(0.0, 0.1e-3, 0.15e-3), Range(0.0, 1.0e-3, 1.2e-3), wire_s=0.03e-3, n_cpus=2)
# A collective is over before its ranks have met in all ways; the iterations of a job are many draws.
DRAWS, MOST_DRAWN_OPS, MOST_DRAWN_SENDS = 5, 3, 1_000
RELEASES_S = (RELEASE_S, 10e-6, 30e-6)
DRAWS_OF_ORDER, MOST_ORDERED_SENDS = 7, 2_000  # a draw takes some 150 µs for each send
PARTS = (0.25, 0.5, 0.75, 1.0)  # of hosts' times
FREE = 1000.0  # times as fast are links that cost nothing
MOST_ASSUMED_SENDS = 20_000  # the model takes 60 µs for each, of many segments more, and is asked four times


def expected(plan: Plan, calibrated: Calibration, *, measured: bool = True, n_draws: int = DRAWS) -> Expected:
    """The bar is left out where the model does not know all that happens (`_knows_all`), and for what
    switches add up, whose hosts work otherwise.  Host times that were not `measured` may widen it beyond
    MAX_ERROR, and no part of the time is that of a machine.
    """
    times = calibrated.hosts if not plan.trees else None
    costs = host_costs(times, plan.transport) if times is not None else None
    open_until = at_the_latest(plan.schedule)
    is_short = _is_short(plan.schedule)
    seeds = range(1, n_draws + 1) if n_draws > 1 and costs and is_short else range(1)
    releases_s = RELEASES_S if n_draws > 1 and not is_short else (RELEASE_S,)

    @cache
    def times_with(hosts: HostCosts | None, slower: float, *, is_late: bool) -> PredictedTimes:
        """Over links that are so much slower; if `is_late` with all ranks ready as late as can be."""
        schedule = open_until if is_late and open_until else plan.schedule
        simulated = simulate(
            plan.fabric,
            plan.flows,
            schedule,
            trees=plan.trees,
            alpha_s=calibrated.per_send_s,
            eta=calibrated.eta / slower,
            hosts=hosts,
        )
        return times_of(schedule, simulated)

    def model(hosts: HostCosts | None, slower: float = 1.0, *, is_late: bool = False) -> PredictedTimes:
        """The median over the seeds, with all communication so much slower."""
        of_seeds = [hosts and replace(_slower(hosts, slower), seed=seed) for seed in seeds]
        return _each(median, [times_with(each, slower, is_late=is_late) for each in of_seeds])

    def released(*, is_late: bool = False) -> list[PredictedTimes]:
        return [model(costs and replace(costs, release_s=each_s), is_late=is_late) for each_s in releases_s]

    def ordered(*, is_late: bool = False) -> list[PredictedTimes]:
        """By draws of who comes first, if that decides."""
        if n_draws < 2 or not costs or not _is_by_order(plan.schedule):
            return []
        of_seeds = [replace(costs, seed=seed) for seed in range(1, DRAWS_OF_ORDER + 1)]
        return [times_with(each, 1.0, is_late=is_late) for each in of_seeds]

    drawn = ordered()
    of_releases = [*released(), *drawn]
    middle = _each(median, of_releases)
    latest = _each(median, [*released(is_late=True), *ordered(is_late=True)]) if open_until else middle
    if times is None or not middle.time_s or not _knows_all(plan):
        return _with_open(_bars(middle), middle, latest)
    least = host_costs(times, plan.transport, times.message_s.low, times.start_s.low)
    largest = host_costs(times, plan.transport, times.message_s.high, times.start_s.high)
    found = _bars(
        middle,
        _each(min, [model(least, slower=1 - MODEL_ERROR), *of_releases, *_scaled(1 - MODEL_ERROR, drawn)]),
        _each(max, [model(largest, slower=1 + MODEL_ERROR), *of_releases, *_scaled(1 + MODEL_ERROR, drawn)]),
        latest,
        MAX_ERROR if measured else inf,
    )
    if not measured:
        return _with_open(found, middle, latest)

    def with_part(part: float, release_s: float, slower: float = 1.0) -> float:
        """The time with hosts that take only this part of theirs, by the first draw."""
        hosts = replace(_part_of(times, plan, part), seed=seeds[0], release_s=release_s)
        return times_with(hosts, slower, is_late=False).time_s

    share = _machine_share(with_part, releases_s)
    return _with_open(replace(found, machine_share=share), middle, latest)


def _part_of(times: HostTimes, plan: Plan, part: float) -> HostCosts:
    """Hosts that take only this part of their times, but what the cables delay."""
    message_s, start_s = times.message_s.middle * part, times.start_s.middle * part
    wire_s = max(LEAST_WIRE_S, longest_round_trip_s(plan.fabric) / 2)
    costs = host_costs(times, plan.transport, message_s, start_s)
    return replace(costs, wire_s=times.wire_s * part + wire_s * (1 - part), wake_s=times.wake_s * part)


def _machine_share(time_s: Callable[..., float], releases_s: Sequence[float]) -> float:
    """The machine's part of the predicted time.  `time_s` is the time with a part of hosts' times, with a
    release, and over links that are so much slower.
    """
    first_s = releases_s[0]
    whole_s = time_s(1.0, first_s)
    share = 1 - time_s(0.0, first_s) / whole_s
    if share <= LEAST_DOUBTED_SHARE:
        return max(0.0, share)
    alone_s = time_s(1.0, first_s, 1 / FREE) - time_s(0.0, first_s, 1 / FREE)
    share = min(share, alone_s / whole_s)
    if share <= LEAST_DOUBTED_SHARE:
        return max(0.0, share)
    times_s = [median(time_s(part, release_s) for release_s in releases_s) for part in PARTS]
    return max(0.0, min(share, linear_regression(PARTS, times_s).slope / whole_s))


def _is_short(schedule: Schedule) -> bool:
    """Whether chance decides how long it takes, and many draws cost little."""
    n_operations = sum(op.kind != "compute" for op in schedule.ops)
    return n_operations <= MOST_DRAWN_OPS and len(schedule.sends) <= MOST_DRAWN_SENDS


def _is_by_order(schedule: Schedule) -> bool:
    """Whether who comes first decides how long it takes, and some draws cost little."""
    return bool(schedule.locks) and len(schedule.sends) <= MOST_ORDERED_SENDS


def _scaled(factor: float, drawn: Sequence[PredictedTimes]) -> list[PredictedTimes]:
    return [
        PredictedTimes(
            each.time_s * factor,
            each.iteration_s and each.iteration_s * factor,
            each.exposed_s and each.exposed_s * factor,
        )
        for each in drawn
    ]


def _each(of: Callable[[Iterable[float]], float], drawn: Sequence[PredictedTimes]) -> PredictedTimes:
    """`of` all draws of each time by itself."""
    found = [
        None if None in times else of([time for time in times if time is not None])
        for times in zip(*drawn, strict=True)
    ]
    assert found[0] is not None
    return PredictedTimes(found[0], *found[1:])


def foreseen(plan: Plan) -> Expected | None:
    """As `expected`, of a plan that no machine is known for: with host times that are ASSUMED and frames that
    fill their links.  None for one of more than MOST_ASSUMED_SENDS, which would take too long.

    Nothing is drawn: the bar holds a whole range of hosts, and a plan need not wait for five times the work.
    """
    if len(plan.schedule.sends) > MOST_ASSUMED_SENDS:
        return None
    wire_s = max(ASSUMED.wire_s, longest_round_trip_s(plan.fabric) / 2)
    times = replace(ASSUMED, wire_s=wire_s)
    assumed = Calibration(0.0, 0.0, payload_efficiency(plan.fabric.mtu_nbytes), times)
    return expected(plan, assumed, measured=False, n_draws=1)


def _knows_all(plan: Plan) -> bool:
    """Whether the model knows what happens: no failures, losses and adaptive routes, no cable whose delay
    makes slow start matter, and no queue that what is under way may overflow.
    """
    if plan.failures or plan.losses or plan.routes == ADAPTIVE:
        return False
    if longest_round_trip_s(plan.fabric) > MOST_ROUND_TRIP_S:
        return False
    n_flows = Counter(egress for flow in plan.flows for egress in flow.path)
    queues = {egress: plan.fabric.cables[egress].queue_nbytes for egress in n_flows}
    windows = {egress: n_flows[egress] * plan.transport.rcvbuf_nbytes for egress in n_flows}
    return all(queue is None or queue >= windows[egress] for egress, queue in queues.items())


def _slower(hosts: HostCosts, slower: float) -> HostCosts:
    return replace(
        hosts,
        wire_s=hosts.wire_s * slower,
        start_s=hosts.start_s * slower,
        message_s=hosts.message_s * slower,
        wake_s=hosts.wake_s * slower,
    )


def _bars(
    middle: PredictedTimes,
    faster: PredictedTimes | None = None,
    slower: PredictedTimes | None = None,
    latest: PredictedTimes | None = None,
    limit: float = MAX_ERROR,
) -> Expected:
    """The bars of all three times; none without `faster`, `slower` and `latest`."""

    def bar(which: int) -> Bar | None:
        predicted_s = middle[which]
        if predicted_s is None:
            return None
        others_s = [each[which] for each in (faster, slower, latest) if each is not None]
        known_s = [other_s for other_s in others_s if other_s is not None]
        if len(known_s) < 3:
            return Bar(predicted_s)
        return _bar(predicted_s, known_s, _own_s(middle, which), limit * _whole_s(middle, which))

    time = bar(0)
    assert time
    return Expected(time.predicted_s, time.low_s, time.high_s, iteration=bar(1), exposed=bar(2))


def _whole_s(times: PredictedTimes, which: int) -> float:
    """What an error is a share of: exposed time is part of an iteration."""
    return times.time_s if which == 0 else times.iteration_s or 0.0


def _own_s(times: PredictedTimes, which: int) -> float:
    own_s = MODEL_ERROR * (times[which] or 0.0)
    return max(own_s, TIMER_ERROR * (times.iteration_s or 0.0)) if which == 2 else own_s


def _bar(predicted_s: float, others_s: Sequence[float], own_s: float, limit_s: float) -> Bar:
    faster_s, slower_s, latest_s = others_s
    low_side_s = min(max(predicted_s - faster_s, own_s), limit_s)
    high_side_s = min(max(slower_s - predicted_s, own_s), limit_s)
    shift_s = latest_s - predicted_s
    if shift_s > 0:
        high_side_s = max(high_side_s, hypot(own_s, shift_s))
    elif shift_s < 0:
        low_side_s = max(low_side_s, hypot(own_s, shift_s))
    return Bar(predicted_s, max(0.0, predicted_s - low_side_s), predicted_s + high_side_s)


def _with_open(found: Expected, middle: PredictedTimes, latest: PredictedTimes) -> Expected:
    """With words about when ranks were ready, where that matters: of iterations, or of the whole."""
    which = 0 if middle.iteration_s is None or latest.iteration_s is None else 1
    early_s, late_s = middle[which] or 0.0, latest[which] or 0.0
    what = "an iteration takes" if which else "the run takes"
    words = "the capture does not show when ranks were ready to send"
    times = f"{what} {show_s(early_s)} if as early as can be, as it is here, and {show_s(late_s)} if as late"
    shift_s = abs(late_s - early_s)
    if shift_s <= LEAST_SHIFT * early_s:
        times = f"{what} {show_s(early_s)} either way"
    if hypot(MODEL_ERROR * early_s, shift_s) > MAX_ERROR * early_s:
        return replace(
            found, doubt=f"{words}: by the model {times}, which is not a prediction to ±{MAX_ERROR:.0%}"
        )
    exposed_s = (middle.exposed_s or 0.0), (latest.exposed_s or 0.0)
    if which and abs(exposed_s[1] - exposed_s[0]) > LEAST_SHIFT * early_s:
        shown = f"no computing hides {show_s(exposed_s[0])} of it or {show_s(exposed_s[1])}"
        return replace(found, note=f"{words}: by the model {times}; {shown}; the error bars hold both")
    if shift_s > LEAST_SHIFT * early_s:
        return replace(found, note=f"{words}: by the model {times}; the error bar holds both")
    return found


def host_costs(
    times: HostTimes, transport: Transport, message_s: float | None = None, start_s: float | None = None
) -> HostCosts:
    """As in the middle of the ranges, unless others are given."""
    return costs_with(
        transport,
        wire_s=times.wire_s,
        start_s=times.start_s.middle if start_s is None else start_s,
        message_s=times.message_s.middle if message_s is None else message_s,
        n_cpus=times.n_cpus,
        wake_s=times.wake_s,
    )
