"""What to do next about a captured job: changes to it, ranked by the time that each saves per iteration.

Each change is put into the fluid model by itself.  The model gives the time of the same few iterations with
and without it; the difference is the saving.  Asynchronous servers are modelled from the first iteration on:
in which order workers come is decided as they begin, and if all began at once in the middle of a training,
they would come in one that it never took.  What the model leaves out of an iteration (what hosts take for
each message, queues) is taken to stay as it is, so a saving is never scaled up by it; where the model takes
longer than was measured, it is scaled down.

A saving has an error bar.  It is as different as the capture leaves it open when ranks were ready to send,
and further by the model's own error: of the saving, where the same sends cross the same links; of all
communication that no computing hides after the change, where an algorithm or a fabric takes the place of
another, for the model may be wrong about the one and right about the other.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from gradwire import COMMAND
from gradwire.results.candidates import LEAST_SAVED, LateRank, late_rank, network_changes, rank_change
from gradwire.results.trials import Base, Kind, Modelled, Trial, modelled
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.shares import Shares
from gradwire.traces.framing.plain import Plain
from gradwire.traces.schedules.names import AS_CAPTURED
from gradwire.traces.units import show_s
from gradwire.traces.workload import Message, Workload, has_lock

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric

LEAST_EXPLAINED, MOST_EXPLAINED = 0.5, 1.15  # of the measured iteration by the model, for it to be believed
MOST_ITERATIONS = 3  # of which the first is only there for the others to follow it
# Of a job with a lock.  Its workers find their order in the first four to six.
MOST_LOCKED, ALIKE = 12, 0.05  # of the median: such iterations are like the later ones
NETWORK = "What faster links, other algorithms or other fabrics would save is not known"
BEGAN_LATE = (
    f"{NETWORK}: the capture has no set-up, so it may have begun after the workers had found the order in "
    "which they come to the servers"
)
COMPANY = f"{NETWORK}: other jobs used the fabric at the same time, and the model has this job alone"
MOST_SENDS = 20_000  # of these iterations: the model takes 60 µs for each, and 8 changes are tried
QUICK_SENDS = 3_000
REPLAYED_BPS = 200_000_000  # of the hosts' links: what is faster, a machine of two processors cannot replay
FASTEST = "100G"  # links whose time is none beside any computing
Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Proposal:
    """An iteration would take `time_ns`, which is `saved_ns` less than it took, `saved_share` of it; with its
    error bar `saved_low_ns` to `saved_high_ns` less.

    `command` is ready for a shell: it replays the change, or plans it where links are too fast to replay.
    """

    kind: Kind
    what: str
    time_ns: int
    saved_ns: int
    saved_share: float
    saved_low_ns: int
    saved_high_ns: int
    command: str


@dataclass(frozen=True)
class Advice:
    """`changes` by what they save, the largest first; `summary` is what they rest on, or why there are none.

    The model gives `model_ns` for an iteration that took `time_ns`, from `iterations` on `fabric` (a spec);
    None, empty and "" if no model was needed.  `not_said` says, in a sentence each, what is not known.
    """

    time_ns: int
    model_ns: int | None
    iterations: tuple[int, ...]
    fabric: str
    summary: str
    changes: tuple[Proposal, ...]
    not_said: tuple[str, ...]


def advise(
    analysis: Analysis,
    workload: Callable[[], Workload],
    fabric: "Fabric | None",
    words: Sequence[str],
    step: Step = lambda done, total: None,  # noqa: ARG005
    *,
    had_company: bool = False,
) -> Advice | None:
    """None where no iterations are known.

    `workload` makes what the captures hold, if it is needed.  `fabric` is the one that they were made on, and
    `words` name them in a command.  `step` is called with how many changes were tried, of how many, if that
    takes more than two seconds.  With `had_company` other jobs used the fabric too, which the model lacks.
    """
    shares = analysis.shares
    if shares is None or not shares.time_ns:
        return None
    if refused := tuple(_refusals(analysis)):
        return Advice(round(shares.time_ns), None, (), "", "No change was tried.", (), refused)
    late = late_rank(analysis)
    spec, fabric_from, why_not = ("", "", (COMPANY,)) if had_company else _model_fabric(analysis, fabric)
    if late.why_not:
        why_not = (f"A late rank is not among the changes: {late.why_not}", *why_not)
    if late.why_not and (not spec or shares.exposed + shares.wait < LEAST_SAVED):
        return _without_model(shares, why_not)
    job = workload()
    iterations, n_before = _chosen(analysis), 1
    if has_lock(job.items) and min(job.iterations) >= 0:
        spec, why_not = "", (*why_not, BEGAN_LATE)
    elif has_lock(job.items):
        iterations, n_before = _from_the_beginning(analysis, job)
    if late.why_not and not spec:
        return _without_model(shares, why_not)
    base = Base(job, spec or _star(len(analysis.addresses), FASTEST), not spec, iterations, n_before, words)
    return _advice(base, analysis, late, fabric_from, why_not, step)


def _refusals(analysis: Analysis) -> Iterator[str]:
    if analysis.framing == Plain.name:
        yield "Messages are guessed from bursts, so nothing can be put into a model"
    if analysis.seen_from:
        yield "To try changes takes the captures of all hosts: what the others did is not in these"
    for reason in analysis.shares_refused:
        yield f"{reason[0].upper()}{reason[1:]}, so no model of the job can be trusted"


def _model_fabric(analysis: Analysis, fabric: "Fabric | None") -> tuple[str, str, tuple[str, ...]]:
    """The fabric of the model, where it is from, and what cannot be said; no spec if nothing is known."""
    bound = analysis.job_bound
    if fabric is not None and fabric.family == "file":
        why_not = f"{NETWORK}: the capture's fabric was a YAML file. Compare others with {COMMAND} plan"
        return "", "", (why_not,)
    if fabric is not None:
        why_not = f"What faster links would save is not known: {bound.evidence}"
        return fabric.spec, "the capture's own fabric", () if bound.bound == "link" else (why_not,)
    if bound.bound != "link" or bound.rate_bps is None:
        return "", "", (f"{NETWORK}: the capture does not name its fabric, and {bound.evidence}",)
    fabric_from = (
        "assumed: the capture does not name its fabric, so a star of links at the rate that bounded it"
    )
    return _star(len(analysis.addresses), f"{float(f'{bound.rate_bps:.2g}'):.0f}"), fabric_from, ()


def _star(n_hosts: int, rate: str) -> str:
    return f"star:hosts={n_hosts},rate={rate}"


def _chosen(analysis: Analysis) -> tuple[int, ...]:
    """Neighbouring iterations after the warm-up of which all but the first are nearest the median."""
    shares = analysis.shares
    assert shares
    times = {
        one.iteration: one.time_ns
        for one in analysis.iterations
        if not one.warm_up and one.iteration not in shares.long
    }
    numbers = sorted(times)
    windows: list[tuple[int, ...]] = []
    for count in range(min(MOST_ITERATIONS, len(numbers)), 0, -1):  # as many neighbours as there are
        some = [tuple(numbers[first : first + count]) for first in range(len(numbers) - count + 1)]
        windows = windows or [one for one in some if all(b == a + 1 for a, b in pairwise(one))]
    return min(windows, key=lambda some: abs(fmean(times[n] for n in some[1:] or some) - shares.time_ns))


def _from_the_beginning(analysis: Analysis, job: Workload) -> tuple[tuple[int, ...], int]:
    """The first iterations, without a gap and not too many to be modelled, and how many of them are not like
    the later ones: the first at least.
    """
    shares = analysis.shares
    assert shares
    of = {one.iteration: one for one in analysis.iterations}
    first = min(of)
    n_there = next(n for n in range(len(of) + 1) if first + n not in of or (n and first + n in shares.long))
    n_sends = sum(isinstance(item, Message) for item in job.items) / max(1, len(job.iterations) - 1)
    count = min(n_there, MOST_LOCKED, max(MOST_ITERATIONS, int(MOST_SENDS / max(1, n_sends))))
    numbers = range(first, first + count)
    alike = (
        n
        for n, number in enumerate(numbers)
        if not of[number].warm_up and abs(of[number].time_ns / shares.time_ns - 1) <= ALIKE
    )
    return tuple(numbers), min(max(1, next(alike, 1)), max(1, count - 1))


def _without_model(shares: Shares, not_said: tuple[str, ...]) -> Advice:
    """What needs no model."""
    nothing = "No saving can be worked out"
    if shares.exposed + shares.wait < LEAST_SAVED:
        nothing, not_said = "Nothing on the network would help", ()
    summary = f"{nothing}: {shares.compute:.0%} of the ranks' time is compute."
    return Advice(round(shares.time_ns), None, (), "", summary, (), not_said)


def _advice(
    base: Base, analysis: Analysis, late: LateRank, fabric_from: str, not_said: tuple[str, ...], step: Step
) -> Advice:
    shares = analysis.shares
    assert shares
    from gradwire.planning.experiment import Experiment, schedule_of
    from gradwire.planning.refused import Refused

    time_ns = round(shares.time_ns)
    n_sends = len(schedule_of(Experiment(base.workload, "", iterations=base.iterations), AS_CAPTURED).sends)
    if n_sends > MOST_SENDS:
        reason = f"{n_sends:,} sends are too many to try changes on while you wait: use {COMMAND} plan"
        return Advice(time_ns, None, base.iterations, "", "No change was tried.", (), (reason,))
    try:
        before = modelled(base, Trial("fabric", "", base.spec))
        reason = "" if before.early_s > 0 else "by the model they take no time"
    except Refused as error:
        reason = str(error)
    if reason:
        reason = f"The iterations cannot be modelled on {base.spec}: {reason}"
        return Advice(time_ns, None, base.iterations, "", "No change was tried.", (), (*not_said, reason))
    doubts, trials = _doubts(base, analysis, before), list[Trial]()
    if not base.computing_only and _explains(before, time_ns):
        trials += network_changes(base, analysis)
    if not late.why_not:
        trials.append(rank_change(base, late))
    changes: list[Proposal] = []
    for number, trial in enumerate(trials, start=1):
        if (one := _change(base, trial, before, time_ns)) is not None and one.saved_low_ns > 0:
            changes.append(one)
        elif one is not None:
            between = f"{show_s(one.saved_low_ns / 1e9)} to {show_s(one.saved_high_ns / 1e9)}"
            doubts.append(
                f"Whether this helps is not known: {one.what}. By the model it saves {between} an iteration"
            )
        if n_sends > QUICK_SENDS:
            step(number, len(trials))
    changes.sort(key=lambda one: -one.saved_ns)
    return Advice(
        time_ns=time_ns,
        model_ns=round(before.early_s * 1e9),
        iterations=base.iterations,
        fabric=base.spec,
        summary=_summary(base, shares, before.early_s, fabric_from, changes),
        changes=tuple(changes),
        not_said=(*not_said, *doubts),
    )


def _explains(before: Modelled, time_ns: int) -> bool:
    """Whether the model of the job as it was is near enough to what was measured to be believed."""
    return LEAST_EXPLAINED <= before.early_s * 1e9 / time_ns <= MOST_EXPLAINED


def _doubts(base: Base, analysis: Analysis, before: Modelled) -> list[str]:
    """What the model of the job as it was cannot tell."""
    shares = analysis.shares
    assert shares
    early, late = show_s(before.early_s), show_s(before.late_s)
    doubts = []
    if not base.computing_only and not _explains(before, round(shares.time_ns)):
        took = f"{early} for an iteration that took {show_s(shares.time_ns / 1e9)}"
        doubts.append(f"{NETWORK}: the model gives {took}, which is too far off to trust")
    if abs(before.late_s - before.early_s) > LEAST_SAVED * before.early_s:
        takes = f"by the model an iteration takes {early} if as early as possible, {late} if as late"
        doubts.append(f"The capture does not show when ranks were ready to send: {takes}")
    if analysis.shape is not None and analysis.shape.kind == "allreduce" and not base.computing_only:
        doubts.append(
            "What other bucket sizes would save is not known: a capture shows when a bucket was sent, not "
            "when each gradient was ready"
        )
    return doubts


def _summary(
    base: Base, shares: Shares, before_s: float, fabric_from: str, changes: Sequence[Proposal]
) -> str:
    measured = show_s(shares.time_ns / 1e9)
    some = (
        f"iterations {base.iterations[0]} to {base.iterations[-1]}"
        if len(base.iterations) > 1
        else (f"iteration {base.iterations[0]}")
    )
    if base.computing_only:
        model = f"of {some}, at most: as if communication took no time"
    else:
        model = (
            f"of {some} on {base.spec} ({fabric_from}): {show_s(before_s)} where {measured} were measured; "
            "the rest is taken to stay as it is"
        )
    if changes:
        return f"Each change by itself, by the fluid model {model}."
    return (
        f"No change that was tried saves {LEAST_SAVED:.0%} of an iteration, of which {shares.compute:.0%} is "
        f"compute; by the fluid model {model}."
    )


def _change(base: Base, trial: Trial, before: Modelled, time_ns: int) -> Proposal | None:
    """None for one that saves next to nothing, or makes no sense on this fabric."""
    from gradwire.planning.model.expected import MODEL_ERROR
    from gradwire.planning.refused import Refused

    try:
        after = modelled(base, trial)
    except Refused:
        return None
    # A model that takes longer than the iteration did saves in proportion; a shorter one is not scaled up.
    ns_per_model_s = 1e9 * min(1.0, time_ns / 1e9 / before.early_s)
    saved_s = before.early_s - after.early_s
    saved_ns = round(saved_s * ns_per_model_s)
    if saved_ns < LEAST_SAVED * time_ns:
        return None
    both_s = sorted((saved_s, before.late_s - after.late_s))
    is_another = trial.kind in {"algorithm", "fabric"}
    errors_s = [MODEL_ERROR * (after.exposed_s if is_another else abs(each_s)) for each_s in both_s]
    return Proposal(
        kind=trial.kind,
        what=trial.what,
        time_ns=time_ns - saved_ns,
        saved_ns=saved_ns,
        saved_share=saved_ns / time_ns,
        saved_low_ns=round((both_s[0] - errors_s[0]) * ns_per_model_s),
        saved_high_ns=min(time_ns, round((both_s[1] + errors_s[1]) * ns_per_model_s)),
        command=_command(base, trial),
    )


def _command(base: Base, trial: Trial) -> str:
    """Replay shows the change beside what there was, where there is an option to do so."""
    from gradwire.planning.fabrics.spec import parse_fabric

    replays = max(parse_fabric(trial.spec).host_rates_bps) <= REPLAYED_BPS
    words = [*(("sudo",) if replays else ()), COMMAND, "replay" if replays else "plan", *base.words]
    first, last = base.iterations[0], base.iterations[-1]
    words += ["--iteration", f"{first}..{last}" if last > first else f"{first}"]
    specs = [base.spec, trial.spec] if replays else [trial.spec]
    algorithms = [AS_CAPTURED, trial.algorithm] if replays else [trial.algorithm]
    if trial.algorithm == AS_CAPTURED:
        algorithms = []  # the default
    for option, values in (("--fabric", specs), ("--algorithm", algorithms)):
        words += [word for value in dict.fromkeys(values) for word in (option, value)]
    for rank, factor in trial.slow.items():
        words += ["--slow", f"{rank}={float(factor):g}"]
    return shlex.join(words)
