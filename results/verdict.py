"""Can a run be believed?  Was the machine fast enough, was the capture readable, does the model explain it?

What the fabric did is the result, and no reason for doubt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gradwire.emu.disturbance import MIN_CPU_IDLE, of_each_kind
from gradwire.emu.records import Repeat
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.errorbar import Expected
from gradwire.planning.transport import payload_efficiency
from gradwire.traces.units import show_s

LOW_CPU_IDLE = 0.30
TOO_FAST = 0.95  # of the bound
# Longest less shortest repeat, of the median.  In 87 valid rows of 0.2 s or more, on several fabrics and a
# noisy machine, it was at most 0.048; in shorter ones the machine's own milliseconds differ.
MAX_SPREAD = 0.10
MAX_SPREAD_OF_SHORT = 0.25
SHORT_S = 0.2
# Of the predicted time: as much as the error bar of a run may be.  In tables of `bench` (docs/benchmarks.md)
# rows whose machine took 0.10 to 0.20 of it took 0.88 to 1.24 times their prediction, others 0.91 to 1.09.
MAX_MACHINE_SHARE = 0.10
GOODPUT_BAND = (0.95, 1.03)  # one flow alone, relative to nominal rate times payload efficiency


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` say why it is not valid: those of `machine`, `capture` and `model`, in this order.

    `warnings` do not take its validity away.
    """

    valid: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    capture: tuple[str, ...] = ()
    model: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "valid" if self.valid else "not valid: " + "; ".join(self.reasons)


def with_model(
    verdict: Verdict,
    time_s: float,
    expected: Expected,
    iteration_s: float | None = None,
    exposed_s: float | None = None,
) -> Verdict:
    """The verdict with the model's part: a run is not valid if the machine's own time rules it, if its
    capture leaves too much open, or if its time, an iteration or what is exposed of one is outside its error
    bar.  Either the machine disturbed it then, or something happened that the model does not explain.  Times
    are medians over the counted repeats, None where there are no iterations.
    """
    share = expected.machine_share
    reasons = [expected.doubt] if expected.doubt else []
    if share is not None and share > MAX_MACHINE_SHARE:
        reasons.append(f"{share:.0%} of its time is the machine's own per step: use larger sizes")
    else:
        reasons += _outside(time_s, expected, iteration_s, exposed_s)
    if expected.note:
        verdict = replace(verdict, warnings=(*verdict.warnings, expected.note))
    if not reasons:
        return verdict
    return replace(
        verdict, valid=False, reasons=(*verdict.reasons, *reasons), model=(*verdict.model, *reasons)
    )


def _outside(
    time_s: float, expected: Expected, iteration_s: float | None, exposed_s: float | None
) -> Iterator[str]:
    """Which times are outside their bars."""
    for what, took_s, bar in (("it", time_s, expected), ("an iteration", iteration_s, expected.iteration)):
        if took_s is not None and bar is not None and not bar.holds(took_s):
            ratio = took_s / bar.predicted_s
            yield f"{what} took {ratio:.2f} × its predicted time, which is known to ±{bar.error:.0%}"
    bar = expected.exposed
    if exposed_s is None or bar is None or bar.low_s is None or bar.high_s is None or bar.holds(exposed_s):
        return
    predicted = f"{show_s(bar.low_s)} to {show_s(bar.high_s)}"
    yield f"no computing hides {show_s(exposed_s)} of an iteration, where {predicted} were predicted"


def counted(repeats: Sequence[Repeat]) -> list[Repeat]:
    """The repeats that make the result: those that the machine did not disturb, or else all but warm-ups."""
    asked_for = [repeat for repeat in repeats if not repeat.is_warmup]
    return [repeat for repeat in asked_for if repeat.counts] or asked_for


def judge(
    repeats: Sequence[Repeat],
    wanted: int,
    calibration: Calibration | None,
    bound_s: float,
    mtu_nbytes: int,
    *,
    steady: bool = True,
    machine: tuple[str, ...] = (),
    capture: tuple[str, ...] = (),
) -> Verdict:
    """`wanted` undisturbed repeats make a run valid; a wrong element in any of them does not.

    A shaper lets its burst and one segment pass at once after a pause, so what is hardly longer than that
    comes out faster than `bound_s`, the least time: it is not a measurement of the fabric.
    `machine` and `capture` are further reasons not to believe the run and its input; a run is valid only
    without any reason.  Without `steady` repeats may differ, as where links fail.
    """
    reasons, warnings = list(machine), []
    wrong = sum(repeat.wrong for repeat in repeats)
    if wrong:
        reasons.append(f"{wrong} wrong elements")
    repeats = [repeat for repeat in repeats if not repeat.is_warmup]
    disturbed = [repeat for repeat in repeats if repeat.disturbed]
    why = of_each_kind(reason for repeat in disturbed for reason in repeat.disturbed)
    if len(repeats) - len(disturbed) < wanted:
        reasons += why
    elif disturbed:
        warnings.append(f"{len(disturbed)} of {len(repeats)} repeats left out: {'; '.join(why)}")
    idle = min(repeat.cpu_idle for repeat in counted(repeats))
    was_busy = any(repeat.cpu_idle < MIN_CPU_IDLE for repeat in disturbed)  # it says so already
    if MIN_CPU_IDLE <= idle < LOW_CPU_IDLE and not was_busy:
        warnings.append(f"CPU idle {idle:.0%}")
    share = median(repeat.time_s for repeat in counted(repeats)) / bound_s if bound_s else 1.0
    if share < TOO_FAST:
        reasons.append(f"{share:.0%} of the least time: too little data for this rate, use larger sizes")
    elif share < 1:
        warnings.append(f"{share:.1%} of the least time: the shaper's burst counts, use larger sizes")
    if calibration is not None:
        share = calibration.eta / payload_efficiency(mtu_nbytes)
        if not GOODPUT_BAND[0] <= share <= GOODPUT_BAND[1]:
            reasons.append(f"one flow alone reached {share:.0%} of its link")
        if calibration.tunnels is not None:
            share = calibration.tunnels.eta / payload_efficiency(mtu_nbytes)
            if share < GOODPUT_BAND[0]:
                reasons.append(
                    f"flows between machines reached {share:.1%} of their links: use lower rates, or a "
                    "faster network between the machines"
                )
    times_s = [repeat.time_s for repeat in counted(repeats)]
    spread = (max(times_s) - min(times_s)) / median(times_s)
    if steady and spread > (MAX_SPREAD_OF_SHORT if median(times_s) < SHORT_S else MAX_SPREAD):
        reasons.append(f"its repeats differ by {spread:.0%}: something else used the links or the machine")
    every = (*reasons, *capture)
    return Verdict(not every, every, tuple(warnings), tuple(reasons), capture)
