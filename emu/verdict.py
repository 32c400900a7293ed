"""May a run be believed?  Could the machine do it, could the capture be read, does the model account for it?

What the fabric did is the result, and no reason for doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from emu.calibration import Calibration
from emu.disturbance import of_each_kind
from emu.network.transport import payload_efficiency
from emu.records import Repeat

LOW_CPU_IDLE = 0.30
TOO_FAST = 0.95  # of the bound
# Longest less shortest repeat, of the median.  In 87 valid rows of 0.2 s or more, on several fabrics and a
# noisy machine, it was at most 0.048; in shorter ones the machine's own milliseconds differ.
MAX_SPREAD = 0.10
MAX_SPREAD_OF_SHORT = 0.25
SHORT_S = 0.2
MAX_MACHINE_SHARE = 0.20  # of the predicted time: known to within a half, it moves that by a tenth
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


@dataclass(frozen=True, slots=True)
class Expected:
    """The predicted time and its error bar, if it has one; `machine_share` of it is no link's time but that
    of this machine's processors.
    """

    predicted_s: float
    low_s: float | None = None
    high_s: float | None = None
    machine_share: float | None = None

    @property
    def error(self) -> float | None:
        """How far the bar goes from the predicted time, as a share of that, on its longer side."""
        if self.low_s is None or self.high_s is None:
            return None
        return max(self.high_s - self.predicted_s, self.predicted_s - self.low_s) / self.predicted_s

    def holds(self, time_s: float) -> bool:
        """Whether a time is inside the bar; anything is where there is none."""
        return self.low_s is None or self.high_s is None or self.low_s <= time_s <= self.high_s


def with_model(verdict: Verdict, time_s: float, expected: Expected) -> Verdict:
    """The model's part: a run is not valid if the machine's own time rules it, or if its time is outside the
    error bar.  Either the machine disturbed it then, or something happened that the model does not explain.
    """
    share = expected.machine_share
    if share is not None and share > MAX_MACHINE_SHARE:
        reason = f"{share:.0%} of its time is the machine's own per step: use larger sizes"
    elif not expected.holds(time_s):
        ratio = time_s / expected.predicted_s
        reason = f"it took {ratio:.2f} × its predicted time, which is known to ±{expected.error:.0%}"
    else:
        return verdict
    return replace(verdict, valid=False, reasons=(*verdict.reasons, reason), model=(*verdict.model, reason))


def counted(repeats: Sequence[Repeat]) -> list[Repeat]:
    """The repeats that make the result: those that the machine did not disturb, or else all of them."""
    return [repeat for repeat in repeats if not repeat.disturbed] or list(repeats)


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
    comes out faster than `bound_s`, the least time: it is no measurement of the fabric.
    `machine` and `capture` are further reasons not to believe the run and its input; a run is valid only
    without any reason.  Without `steady` repeats may differ, as where links fail.
    """
    reasons, warnings = list(machine), []
    wrong = sum(repeat.wrong for repeat in repeats)
    if wrong:
        reasons.append(f"{wrong} wrong elements")
    disturbed = [repeat for repeat in repeats if repeat.disturbed]
    why = of_each_kind(reason for repeat in disturbed for reason in repeat.disturbed)
    if len(repeats) - len(disturbed) < wanted:
        reasons += why
    elif disturbed:
        warnings.append(f"{len(disturbed)} of {len(repeats)} repeats left out: {'; '.join(why)}")
    idle = min(repeat.cpu_idle for repeat in counted(repeats))
    if idle < LOW_CPU_IDLE:
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
    times_s = [repeat.time_s for repeat in counted(repeats)]
    spread = (max(times_s) - min(times_s)) / median(times_s)
    if steady and spread > (MAX_SPREAD_OF_SHORT if median(times_s) < SHORT_S else MAX_SPREAD):
        reasons.append(f"its repeats differ by {spread:.0%}: something else used the links or the machine")
    every = (*reasons, *capture)
    return Verdict(not every, every, tuple(warnings), tuple(reasons), capture)
