"""What to do next about a captured job: changes to it, ranked by the time that each saves per iteration.

Each change is put into the fluid model by itself.  The model gives the time of the same few iterations with
and without it; the difference is the saving.  What the model leaves out of an iteration (what hosts take for
each message, queues) is taken to stay as it is, so a saving is never scaled up by it.

A saving has an error bar.  It is as different as the capture leaves it open when ranks were ready to send,
and further by the model's own error: of the saving, where the same sends cross the same links; of all
communication that no computing hides after the change, where an algorithm or a fabric takes the place of
another, for the model may be wrong about the one and right about the other.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, isqrt
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from gradwire import COMMAND
from gradwire.results.trials import AS_CAPTURED, Base, Kind, Modelled, Trial, modelled
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.shares import Shares
from gradwire.traces.analysis.spacing import SAME
from gradwire.traces.framing.plain import Plain
from gradwire.traces.units import show_bps, show_count, show_s
from gradwire.traces.workload import Workload

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric

LEAST_SAVED = 0.01  # of an iteration
LEAST_EXPLAINED, MOST_EXPLAINED = 0.5, 1.15  # of the measured iteration by the model, for it to be believed
LEAST_ITERATIONS = 3  # for a rank to be late in most of them
LEAST_FACTOR = Fraction(1, 10)
MOST_ITERATIONS = 3  # of which the first is only there for the others to follow it
MOST_SENDS = 20_000  # of these iterations: the model takes 60 µs for each, and 8 changes are tried
QUICK_SENDS = 3_000
REPLAYED_BPS = 200_000_000  # of the hosts' links: what is faster, a machine of two processors cannot replay
FASTEST = "100G"  # links whose time is none beside any computing
ALGORITHMS = {
    "ring": "allreduces by a ring",
    "halving-doubling": "allreduces by halving-doubling",
    "ina": "gradients added up by the switches",
}
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


class _Late(NamedTuple):
    """The rank whose computing takes `factor` of its time when it is as fast as the others; or why none."""

    rank: int = -1
    factor: Fraction = Fraction(1)
    why_not: str = ""


COMPANY = "Links, algorithms, fabrics: other jobs used the fabric at the same time, which no model of one has"


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
    found = analysis.shares
    if found is None or not found.time_ns:
        return None
    if refused := tuple(_refusals(analysis)):
        return Advice(round(found.time_ns), None, (), "", "What to do next is not said.", (), refused)
    late = _late(analysis)
    spec, whence, why_not = ("", "", (COMPANY,)) if had_company else _where(analysis, fabric)
    if late.why_not:
        why_not = (f"A late rank: {late.why_not}", *why_not)
    if late.why_not and (not spec or found.exposed + found.wait < LEAST_SAVED):
        return _nothing(found, why_not)
    iterations = _chosen(analysis)
    base = Base(workload(), spec or _star(len(analysis.addresses), FASTEST), not spec, iterations, words)
    return _advice(base, analysis, late, whence, why_not, step)


def _refusals(analysis: Analysis) -> Iterator[str]:
    if analysis.framing == Plain.name:
        yield "Messages are guessed from bursts, so nothing can be put into a model"
    if analysis.seen_from:
        yield "It takes the captures of all hosts: what the others did is not in these"
    for reason in analysis.shares_refused:
        yield f"{reason[0].upper()}{reason[1:]}, so no model of the job can be trusted"


def _where(analysis: Analysis, fabric: "Fabric | None") -> tuple[str, str, tuple[str, ...]]:
    """The fabric of the model, where it is from, and what cannot be said; no spec if nothing is known."""
    bound = analysis.job_bound
    if fabric is not None and fabric.family == "file":
        return "", "", ("Links, algorithms, fabrics: the capture's fabric is from a file; give it to plan",)
    if fabric is not None:
        no_link = () if bound.bound == "link" else (f"Faster links: {bound.evidence}",)
        return fabric.spec, "the capture's own fabric", no_link
    if bound.bound != "link" or bound.rate_bps is None:
        return (
            "",
            "",
            (f"Links, algorithms, fabrics: the capture does not name its fabric, and {bound.evidence}",),
        )
    whence = "assumed: the capture does not name its fabric, so a star of links at the rate that bounded it"
    return _star(len(analysis.addresses), f"{float(f'{bound.rate_bps:.2g}'):.0f}"), whence, ()


def _star(n_hosts: int, rate: str) -> str:
    return f"star:hosts={n_hosts},rate={rate}"


def _late(analysis: Analysis) -> _Late:
    """The rank that computes longest in most iterations, if the others are faster by LEAST_SAVED."""
    found, shape = analysis.shares, analysis.shape
    assert found
    servers = set(shape.servers) - set(shape.workers) if shape is not None else set()
    times: defaultdict[int, dict[int, int]] = defaultdict(dict)  # by iteration and rank
    for one in analysis.exposures:
        if one.iteration >= found.n_warm_up and one.rank not in servers:
            times[one.iteration][one.rank] = one.compute_ns
    if len(times) < LEAST_ITERATIONS:
        few = show_count(found.n_iterations, "iteration is", "iterations are")
        return _Late(why_not=f"{few} too few to say what it costs")
    longest = Counter(max(some, key=lambda rank: some[rank]) for some in times.values())
    rank, count = longest.most_common(1)[0]
    own = [some[rank] for some in times.values() if rank in some]
    others = [ns for some in times.values() for other, ns in some.items() if other != rank]
    if not others or 2 * count <= len(times):
        return _Late(why_not="no rank computes longest in most iterations")
    late_ns = fmean(own) - median(others)
    if late_ns < LEAST_SAVED * found.time_ns:
        return _Late(why_not=f"none computes longer than the others by {LEAST_SAVED:.0%} of an iteration")
    factor = Fraction(round(1000 * median(others) / fmean(own)), 1000)
    if factor < LEAST_FACTOR:
        return _Late(why_not=f"rank {rank} computes ten times as long as the others: it does other work")
    return _Late(rank, factor)


def _chosen(analysis: Analysis) -> tuple[int, ...]:
    """Neighbouring iterations after the warm-up of which all but the first are nearest the median."""
    found = analysis.shares
    assert found
    times = {one.iteration: one.time_ns for one in analysis.iterations if not one.warm_up}
    numbers = sorted(times)
    count = min(MOST_ITERATIONS, len(numbers))
    windows = [tuple(numbers[first : first + count]) for first in range(len(numbers) - count + 1)]
    whole = [some for some in windows if all(b == a + 1 for a, b in pairwise(some))] or [
        (number,) for number in numbers
    ]
    return min(whole, key=lambda some: abs(fmean(times[n] for n in some[1:] or some) - found.time_ns))


def _nothing(found: Shares, not_said: tuple[str, ...]) -> Advice:
    """What needs no model."""
    nothing = "No saving can be worked out"
    if found.exposed + found.wait < LEAST_SAVED:
        nothing, not_said = "Nothing on the network would help", ()
    summary = f"{nothing}: {found.compute:.0%} of the ranks' time is compute."
    return Advice(round(found.time_ns), None, (), "", summary, (), not_said)


def _advice(
    base: Base, analysis: Analysis, late: _Late, whence: str, not_said: tuple[str, ...], step: Step
) -> Advice:
    found = analysis.shares
    assert found
    from gradwire.planning.experiment import Experiment, schedule_of

    time_ns = round(found.time_ns)
    n_sends = len(schedule_of(Experiment(base.workload, "", iterations=base.iterations), AS_CAPTURED).sends)
    if n_sends > MOST_SENDS:
        reason = f"{n_sends:,} sends are too many to try changes on while you wait: use gradwire plan"
        return Advice(time_ns, None, base.iterations, "", "What to do next is not said.", (), (reason,))
    before = modelled(base, Trial("fabric", "", base.spec)) or Modelled(0.0, 0.0, 0.0)
    before_s = before.early_s
    explained = before_s * 1e9 / time_ns
    said, trials = not_said, []
    if not base.alone and not LEAST_EXPLAINED <= explained <= MOST_EXPLAINED:
        took = f"{show_s(before_s)} for an iteration that took {show_s(time_ns / 1e9)}"
        said += (f"Links, algorithms, fabrics: the model gives {took}: its savings could not be trusted",)
    elif not base.alone:
        trials += [*_links(base, analysis), *_algorithms(base, analysis), *_fabrics(base)]
    if not late.why_not:
        trials.append(_rank(base, late))
    if abs(before.late_s - before_s) > LEAST_SAVED * before_s:
        times = f"{show_s(before_s)} if as early as can be and {show_s(before.late_s)} if as late"
        said += (f"When ranks were ready to send: by the model an iteration takes {times}",)
    changes: list[Proposal] = []
    for number, trial in enumerate(trials, start=1):
        if (one := _change(base, trial, before, time_ns)) is not None and one.saved_low_ns > 0:
            changes.append(one)
        elif one is not None:
            low, high = show_s(one.saved_low_ns / 1e9), show_s(one.saved_high_ns / 1e9)
            said += (f"Whether this saves anything: {one.what}; by the model {low} to {high} an iteration",)
        if n_sends > QUICK_SENDS:
            step(number, len(trials))
    changes.sort(key=lambda one: -one.saved_ns)
    if analysis.shape is not None and analysis.shape.kind == "allreduce" and not base.alone:
        said += (
            "Other bucket sizes: a capture shows when a bucket was sent, not when each gradient was ready",
        )
    return Advice(
        time_ns=time_ns,
        model_ns=round(before_s * 1e9),
        iterations=base.iterations,
        fabric=base.spec,
        summary=_summary(base, found, before_s, whence, changes),
        changes=tuple(changes),
        not_said=said,
    )


def _summary(base: Base, found: Shares, before_s: float, whence: str, changes: Sequence[Proposal]) -> str:
    measured = show_s(found.time_ns / 1e9)
    some = (
        f"iterations {base.iterations[0]} to {base.iterations[-1]}"
        if len(base.iterations) > 1
        else (f"iteration {base.iterations[0]}")
    )
    if base.alone:
        model = f"of {some}, at most: as if communication took no time"
    else:
        model = (
            f"of {some} on {base.spec} ({whence}): {show_s(before_s)} where {measured} were measured; "
            "the rest is taken to stay as it is"
        )
    if changes:
        return f"Each change by itself, by the fluid model {model}."
    return (
        f"No change that was tried saves {LEAST_SAVED:.0%} of an iteration, of which {found.compute:.0%} is "
        f"compute; by the fluid model {model}."
    )


def _links(base: Base, analysis: Analysis) -> Iterator[Trial]:
    """Those that bounded the job twice as fast."""
    from gradwire.planning.fabrics.spec import parse_fabric, with_rates

    rate_bps = analysis.job_bound.rate_bps
    if analysis.job_bound.bound != "link" or rate_bps is None:
        return
    fabric = parse_fabric(base.spec)
    hosts, inner = fabric.host_rates_bps, fabric.inner_rates_bps
    near = {rate for rate in (*hosts, *inner) if abs(rate / rate_bps - 1) <= SAME}
    at_hosts, between = near & set(hosts), near & set(inner)
    if len(hosts) != 1 or len(inner) > 1 or not near:
        return
    host_bps, inner_bps = hosts[0], inner[0] if inner else None
    if at_hosts and (between or not inner):
        which = "every link"
    else:
        which = "the links between switches" if between else "the hosts' links"
    faster_bps = 2 * host_bps if at_hosts else host_bps
    faster_inner_bps = 2 * inner_bps if between and inner_bps else inner_bps
    bounding_bps = min(between or at_hosts)
    what = f"{which} twice as fast: {show_bps(2 * bounding_bps)}"
    yield Trial("link", what, with_rates(fabric, faster_bps, faster_inner_bps).spec)


def _algorithms(base: Base, analysis: Analysis) -> Iterator[Trial]:
    reduces = analysis.shape is not None and analysis.shape.kind == "allreduce"
    for name, what in ALGORITHMS.items():
        if reduces or name == "ina":
            yield Trial("algorithm", what, base.spec, name)


def _fabrics(base: Base) -> Iterator[Trial]:
    """Other families for as many ranks, their hosts' links like those of the capture's fabric."""
    from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES
    from gradwire.planning.fabrics.spec import parse_fabric

    fabric = parse_fabric(base.spec)
    n_ranks, rates = base.workload.n_ranks, fabric.host_rates_bps
    if len(rates) != 1:
        return
    mtu = f",mtu={fabric.mtu_nbytes}" if fabric.mtu_nbytes != DEFAULT_MTU_NBYTES else ""
    radix = next(k for k in range(2, 2 * isqrt(2 * n_ranks) + 4, 2) if k * k // 2 >= n_ranks)
    per_half = max(1, ceil(n_ranks / 4))
    for what, sizes in (
        ("a star", f"star:hosts={n_ranks}"),
        ("a fat-tree", f"fat-tree:k={radix},levels=2"),
        ("a BiGraph", f"bigraph:n={2 * per_half},m=2"),
    ):
        spec = parse_fabric(f"{sizes},rate={rates[0]}{mtu}").spec
        if spec.partition(":")[0] != fabric.family:
            yield Trial("fabric", f"{what} of links of {show_bps(rates[0])}", spec)


def _rank(base: Base, late: _Late) -> Trial:
    what = f"rank {late.rank} computes like the others (×{float(late.factor):.3g})"
    return Trial("rank", what, base.spec, slow={late.rank: late.factor})


def _change(base: Base, trial: Trial, before: Modelled, time_ns: int) -> Proposal | None:
    """None for one that saves next to nothing, or makes no sense on this fabric."""
    from gradwire.planning.model.expected import MODEL_ERROR

    after = modelled(base, trial)
    # In ns, of a model that takes longer than the iteration did.
    least = 1e9 * min(1.0, time_ns / 1e9 / before.early_s)
    saved_s = 0.0 if after is None else before.early_s - after.early_s
    saved_ns = round(saved_s * least)
    if after is None or saved_ns < LEAST_SAVED * time_ns:
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
        saved_low_ns=round((both_s[0] - errors_s[0]) * least),
        saved_high_ns=min(time_ns, round((both_s[1] + errors_s[1]) * least)),
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
