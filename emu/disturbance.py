"""Detects repeats that the machine disturbed: their times say nothing about the fabric.

A virtual machine stalls now and then, for a tenth of a second or more; TCP then sends
again what was not lost.  Such a repeat is measured once more, and counted as left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from gradwire.emu.otherprograms import Use
from gradwire.traces.units import show_first

MIN_CPU_IDLE = 0.15  # below this a shaped network lies
MIN_OTHERS = 0.10  # of all processors; if other programs used less, it is the run that is too much
MOST_NAMED = 3  # programs
MAX_CPU_STOLEN = 0.05  # at 0.3 a flow alone reached 70% of its link, and ratios were up to 46% too high
MAX_CPU_BESIDE = 0.05  # by other programs while a job trains live: at 0.3 to 0.6 it took 6 to 10 % longer
MAX_LATE = 0.02  # of the repeat's own time, or MIN_LATE_S if that is more
MIN_LATE_S = 0.025
# Of a processor's time.  Quiet repeats lost up to 2.2 % of it.  Beside bursts of 15 to 20 ms of real-time
# load it was 24 to 38 %, and times were 2.5 to 12 % too long: at most 0.4 of what was lost, so 2.4 % here.
MAX_CPU_LOST = 0.06
MAX_SINGLED_OUT = 0.05  # of the time: a rank's wait beyond that of the others; in quiet repeats up to 3 %
MIN_LOST_S = 0.001  # an interrupt or two, in a repeat of a few milliseconds
HOLE = "{}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a repeat cannot be believed: words, with HOLE for each figure, and who did it, with percentages."""

    words: str
    figures: tuple[int, ...] = ()
    programs: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return _merged([self])


def lateness(
    time_s: float, start_skew_s: float, gap_lateness_s: float, clock_s: float = 0.0
) -> tuple[Reason, ...]:
    """Why a repeat cannot be believed, by what its ranks did too late, and by how far apart the clocks of
    their machines may be.
    """
    late_s = max(MIN_LATE_S, MAX_LATE * time_s)
    reasons = []
    if start_skew_s > late_s:
        reasons.append(Reason("ranks started up to {} ms late", (_ms(start_skew_s),)))
    if gap_lateness_s > late_s:
        reasons.append(Reason("computing ended up to {} ms late", (_ms(gap_lateness_s),)))
    if clock_s > late_s:
        reasons.append(Reason("the machines' clocks are known to {} ms only", (_ms(clock_s),)))
    return tuple(reasons)


def disturbances(
    *,
    time_s: float,
    cpu_idle: float,
    cpu_stolen: float,
    stall_s: float,
    softnet_dropped: int,
    others: Sequence[Use] = (),
) -> tuple[Reason, ...]:
    """Why a repeat cannot be believed, by what its machine did; empty for one that can.  `others` are
    programs beside the run.
    """
    reasons = []
    if cpu_idle < MIN_CPU_IDLE:
        reasons.append(_busy(cpu_idle, others))
    if cpu_stolen > MAX_CPU_STOLEN:
        went = "{}% of the CPUs went to other guests of this machine's host: try later"
        reasons.append(Reason(went, (_percent(cpu_stolen),)))
    if stall_s > max(MIN_LATE_S, MAX_LATE * time_s):
        reasons.append(Reason("the machine stalled for {} ms", (_ms(stall_s),)))
    if softnet_dropped:
        reasons.append(Reason("packets lost in the kernel's receive queues: {}", (softnet_dropped,)))
    return tuple(reasons)


def beside_words(cpu_beside: float, programs: Mapping[str, float]) -> str:
    """What programs beside a live job had of the processors, and which had most of it."""
    named = [f"{program} {share:.0%}" for program, share in programs.items()]
    some = f" ({show_first(named, MOST_NAMED)})" if named else ""
    return f"other programs used {cpu_beside:.0%} of the CPUs{some}"


def _busy(cpu_idle: float, others: Sequence[Use]) -> Reason:
    """Who used the processors: the run itself, or what else there is."""
    idle = "CPU idle only {}%"
    share = sum(use.share for use in others)
    if share < MIN_OTHERS:
        return Reason(f"{idle}: use a lower rate or fewer hosts", (_percent(cpu_idle),))
    words = f"{idle}, as other programs used {HOLE}%: stop them, or try later"
    return Reason(words, (_percent(cpu_idle), _percent(share)), _percentages(others))


def _beside(reason: Reason, others: Sequence[Use]) -> Reason:
    """A reason with figures, with what other programs used meanwhile, if that is anything."""
    if not (others and reason.figures):
        return reason
    share = _percent(sum(use.share for use in others))
    words = f"{reason.words}, while other programs used {HOLE}%"
    return Reason(words, (*reason.figures, share), _percentages(others))


def _percentages(others: Sequence[Use]) -> tuple[tuple[str, int], ...]:
    return tuple((use.program, _percent(use.share)) for use in others)


def taken_away(
    time_s: float,
    cpu_lost_s: Sequence[float],
    run_delay_s: Mapping[int, float],
    cpu_s: Mapping[int, float],
    stopped_s: Mapping[int, float],
    others: Sequence[Use] = (),
) -> tuple[Reason, ...]:
    """Why a repeat cannot be believed: something else took its processors or stopped its ranks.

    What is lost is by processor, and empty where it could not be measured; the others are by rank: how long
    it waited for a processor, how long it ran, and how long it was stopped.  `others` are programs beside
    the run, which may have done it.
    """
    stopped = [
        Reason("rank {} was stopped for about {} ms", (rank, _ms(each_s)))
        for rank, each_s in stopped_s.items()
        if each_s > 0
    ]
    taken = [*_lost(cpu_lost_s, time_s), *_singled_out(run_delay_s, cpu_s, time_s)]
    return (*(_beside(reason, others) for reason in taken), *stopped)


def _lost(cpu_lost_s: Sequence[float], time_s: float) -> list[Reason]:
    """What real-time programs and other guests took of the worst processor."""
    if not cpu_lost_s:
        return [Reason("real-time priority was refused, so what other programs took of the CPUs is unknown")]
    worst = max(range(len(cpu_lost_s)), key=cpu_lost_s.__getitem__)
    if cpu_lost_s[worst] <= max(MIN_LOST_S, MAX_CPU_LOST * time_s):
        return []
    lost = "processor {} lost {}% of the time to real-time programs or other guests"
    return [Reason(lost, (worst, _percent(cpu_lost_s[worst] / time_s)))]


def _singled_out(run_delay_s: Mapping[int, float], cpu_s: Mapping[int, float], time_s: float) -> list[Reason]:
    """The rank that waited for a processor longer than the others; what all wait is the run's own load.

    Who has more to do waits more often: a parameter server of eight workers ran 4.4 to 4.8 times as long as
    they did, and waited 4 to 6 times as long.  So what a rank may wait is what the median rank does for each
    second that it runs, and at least as long as that one in all.
    """
    if not run_delay_s:
        return []
    ranks = {rank: (delay_s, cpu_s[rank]) for rank, delay_s in run_delay_s.items()}
    usual_s = median(run_delay_s.values())
    per_cpu = median(delay_s / ran_s if ran_s else 0.0 for delay_s, ran_s in ranks.values())
    more_s = {rank: delay_s - max(usual_s, per_cpu * ran_s) for rank, (delay_s, ran_s) in ranks.items()}
    worst = max(more_s, key=more_s.__getitem__)
    if more_s[worst] <= max(MIN_LOST_S, MAX_SINGLED_OUT * time_s):
        return []
    waited = "rank {} waited {} ms longer for a processor than the others"
    return [Reason(waited, (worst, _ms(more_s[worst])))]


def on_machine(name: str, reason: Reason) -> Reason:
    """The reason, with the machine that it is about."""
    return replace(reason, words=f"machine {name}: {reason.words}")


def of_each_kind(reasons: Iterable[Reason]) -> list[str]:
    """Reasons of several repeats; of those that differ in their figures alone, one with the span of each."""
    kinds: defaultdict[str, list[Reason]] = defaultdict(list)
    for reason in reasons:
        kinds[reason.words].append(reason)
    return [_merged(same) for same in kinds.values()]


def _merged(same: Sequence[Reason]) -> str:
    """Reasons of the same words as one, with the programs that did most."""
    text = _filled(same[0].words, map(_span, zip(*(reason.figures for reason in same), strict=False)))
    shares: defaultdict[str, list[int]] = defaultdict(list)
    for reason in same:
        for program, share in reason.programs:
            shares[program].append(share)
    most = sorted(shares, key=lambda program: -max(shares[program]))
    named = [f"{program} {_span(shares[program])}%" for program in most]
    return f"{text} ({show_first(named, MOST_NAMED)})" if named else text


def _filled(words: str, figures: Iterable[object]) -> str:
    """Without str.format: words from a file such as `{:999999999}` would take the memory."""
    return "".join(
        f"{part}{figure}" for part, figure in zip_longest(words.split(HOLE), figures, fillvalue="")
    )


def _span(figures: Sequence[int]) -> str:
    least, most = min(figures), max(figures)
    return str(most) if least == most else f"{least} to {most}"


def _percent(share: float) -> int:
    return round(share * 100)


def _ms(time_s: float) -> int:
    return round(time_s * 1e3)
