"""What the machine did to a repeat that the fabric did not: then its time says nothing of the fabric.

A machine that is itself virtual stands still now and then, for a tenth of a second or more; TCP then sends
again what was not lost.  Such a repeat is measured once more, and counted as left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

MIN_CPU_IDLE = 0.15  # below this a shaped network lies
MAX_CPU_STOLEN = 0.05  # at 0.3 a flow alone reached 70% of its link, and ratios were up to 46% too high
MAX_LATE = 0.02  # of the repeat's own time, or MIN_LATE_S if that is more
MIN_LATE_S = 0.025

_FIGURE, _HOLE = re.compile(r"\d{1,9}"), "\0"


def disturbances(
    *,
    time_s: float,
    cpu_idle: float,
    cpu_stolen: float,
    start_skew_s: float,
    gap_lateness_s: float,
    stall_s: float,
    softnet_dropped: int,
) -> tuple[str, ...]:
    """Why a repeat cannot be believed; empty for one that can."""
    late_s = max(MIN_LATE_S, MAX_LATE * time_s)
    reasons = []
    if cpu_idle < MIN_CPU_IDLE:
        reasons.append(f"CPU idle only {cpu_idle:.0%}: use a lower rate or fewer hosts")
    if cpu_stolen > MAX_CPU_STOLEN:
        reasons.append(f"{cpu_stolen:.0%} of the CPUs went to other guests of this machine's host: try later")
    if start_skew_s > late_s:
        reasons.append(f"ranks started up to {start_skew_s * 1e3:.0f} ms late")
    if gap_lateness_s > late_s:
        reasons.append(f"computing ended up to {gap_lateness_s * 1e3:.0f} ms late")
    if stall_s > late_s:
        reasons.append(f"the machine stood still for {stall_s * 1e3:.0f} ms")
    if softnet_dropped:
        reasons.append(f"{softnet_dropped} packets lost in the kernel's receive queues")
    return tuple(reasons)


def of_each_kind(reasons: Iterable[str]) -> list[str]:
    """Reasons of several repeats; of those that differ in their one figure alone, one with the span."""
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for reason in reasons:
        kinds[_FIGURE.sub(_HOLE, reason)] += map(int, _FIGURE.findall(reason))
    return [kind.replace(_HOLE, _span(figures)) for kind, figures in kinds.items()]


def _span(figures: list[int]) -> str:
    least, most = min(figures, default=0), max(figures, default=0)
    return str(most) if least == most else f"{least} to {most}"
