"""May a run be believed?  Only what the machine did counts here: what the fabric did is the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from emu.calibration import Calibration
from emu.disturbance import of_each_kind
from emu.network.transport import payload_efficiency
from emu.records import Repeat

LOW_CPU_IDLE = 0.30
TOO_FAST = 0.95  # of the bound
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
    capture: tuple[str, ...] = (),
    model: tuple[str, ...] = (),
) -> Verdict:
    """`wanted` undisturbed repeats make a run valid; a wrong element in any of them does not.

    A shaper lets its burst and one segment pass at once after a pause, so what is hardly longer than that
    comes out faster than `bound_s`, the least time: it is no measurement of the fabric.
    `capture` and `model` say why the input or the model of the job cannot be believed; a run is valid only
    without any reason.
    """
    reasons, warnings = [], []
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
    machine = tuple(reasons)
    every = (*machine, *capture, *model)
    return Verdict(not every, every, tuple(warnings), machine, capture, model)
