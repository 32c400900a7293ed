"""May a run be believed?  Only what the machine did counts here: what the fabric did is the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from emu.calibration import Calibration
from emu.records import Repeat
from emu.transport import PAYLOAD_EFFICIENCY

MIN_CPU_IDLE = 0.15  # below this a shaped network lies
LOW_CPU_IDLE = 0.30
MAX_SKEW = 0.02  # of the run's own time, or MIN_SKEW_S if that is more
MIN_SKEW_S = 0.005
GOODPUT_BAND = (0.95, 1.03)  # one flow alone, relative to nominal rate times payload efficiency


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` say why it is not valid; `warnings` do not take its validity away."""

    valid: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "valid" if self.valid else "not valid: " + "; ".join(self.reasons)


def judge(repeats: Sequence[Repeat], calibration: Calibration | None) -> Verdict:
    reasons, warnings = [], []
    wrong = sum(repeat.wrong for repeat in repeats)
    if wrong:
        reasons.append(f"{wrong} wrong elements")
    idle = min(repeat.cpu_idle for repeat in repeats)
    if idle < MIN_CPU_IDLE:
        reasons.append(f"CPU idle only {idle:.0%}: use a lower rate or fewer hosts")
    elif idle < LOW_CPU_IDLE:
        warnings.append(f"CPU idle {idle:.0%}")
    skew_s = max(max(repeat.start_skew_s, repeat.gap_lateness_s) for repeat in repeats)
    if skew_s > max(MIN_SKEW_S, MAX_SKEW * median(repeat.time_s for repeat in repeats)):
        reasons.append(f"ranks started or woke up to {skew_s * 1e3:.0f} ms late")
    softnet = sum(repeat.softnet_dropped for repeat in repeats)
    if softnet:
        reasons.append(f"{softnet} packets lost in the kernel's receive queues")
    if calibration is not None:
        share = calibration.eta / PAYLOAD_EFFICIENCY
        if not GOODPUT_BAND[0] <= share <= GOODPUT_BAND[1]:
            reasons.append(f"one flow alone reached {share:.0%} of its link")
    return Verdict(not reasons, tuple(reasons), tuple(warnings))
