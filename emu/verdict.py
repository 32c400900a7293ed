"""May a run be believed?  Only what the machine did counts here: what the fabric did is the result."""

from collections.abc import Sequence
from dataclasses import dataclass

from emu.calibration import Calibration
from emu.records import Repeat
from emu.transport import PAYLOAD_EFFICIENCY

LOW_CPU_IDLE = 0.30
GOODPUT_BAND = (0.95, 1.03)  # one flow alone, relative to nominal rate times payload efficiency


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` say why it is not valid; `warnings` do not take its validity away."""

    valid: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "valid" if self.valid else "not valid: " + "; ".join(self.reasons)


def counted(repeats: Sequence[Repeat]) -> list[Repeat]:
    """The repeats that make the result: those that the machine did not disturb, or else all of them."""
    return [repeat for repeat in repeats if not repeat.disturbed] or list(repeats)


def judge(repeats: Sequence[Repeat], wanted: int, calibration: Calibration | None) -> Verdict:
    """`wanted` undisturbed repeats make a run valid; a wrong element in any of them does not."""
    reasons, warnings = [], []
    wrong = sum(repeat.wrong for repeat in repeats)
    if wrong:
        reasons.append(f"{wrong} wrong elements")
    disturbed = [repeat for repeat in repeats if repeat.disturbed]
    why = dict.fromkeys(reason for repeat in disturbed for reason in repeat.disturbed)
    if len(repeats) - len(disturbed) < wanted:
        reasons += why
    elif disturbed:
        warnings.append(f"{len(disturbed)} of {len(repeats)} repeats left out: {'; '.join(why)}")
    idle = min(repeat.cpu_idle for repeat in counted(repeats))
    if idle < LOW_CPU_IDLE:
        warnings.append(f"CPU idle {idle:.0%}")
    if calibration is not None:
        share = calibration.eta / PAYLOAD_EFFICIENCY
        if not GOODPUT_BAND[0] <= share <= GOODPUT_BAND[1]:
            reasons.append(f"one flow alone reached {share:.0%} of its link")
    return Verdict(not reasons, tuple(reasons), tuple(warnings))
