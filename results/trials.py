"""Tries changes to a captured job in the fluid model, one at a time, for `results.advice`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from gradwire.traces.schedules.names import AS_CAPTURED
from gradwire.traces.workload import Workload

Kind = Literal["rank", "link", "algorithm", "fabric"]


@dataclass(frozen=True)
class Base:
    """The job as it was, in the model: `spec` is its fabric, `computing_only` if links are so fast that only
    computing takes time.

    The first `n_before` of `iterations` are in the model only so that the others follow something; if there
    are no others, they are what counts.  `words` name the captures in a command.
    """

    workload: Workload
    spec: str
    computing_only: bool
    iterations: tuple[int, ...]
    n_before: int
    words: Sequence[str]


@dataclass(frozen=True)
class Trial:
    """What is changed of the job: the fabric, the algorithm, how long ranks compute."""

    kind: Kind
    what: str
    spec: str
    algorithm: str = AS_CAPTURED
    slow: Mapping[int, Fraction] = field(default_factory=dict)


class Modelled(NamedTuple):
    """An iteration by the model, with ranks ready to send as early as the capture allows, and as late.

    `exposed_s` is what no computing hides of an early one: the median of all that were modelled.
    """

    early_s: float
    late_s: float
    exposed_s: float


def modelled(base: Base, trial: Trial) -> Modelled:
    """What each iteration after the first `n_before` adds.  Raise Refused if the trial makes no sense."""
    from gradwire.planning.experiment import Cell, Experiment, plan_of
    from gradwire.planning.fabrics.spec import parse_fabric
    from gradwire.planning.model.predict import compute_s
    from gradwire.planning.model.simulation import simulate
    from gradwire.planning.refused import Refused
    from gradwire.traces.schedules.latest import at_the_latest
    from gradwire.traces.schedules.straggling import straggling

    workload = straggling(base.workload, trial.slow) if trial.slow else base.workload
    cell = Cell(parse_fabric(trial.spec), trial.algorithm, "linear", "ecmp")

    def of(iterations: tuple[int, ...]) -> Modelled:
        plan = plan_of(cell, Experiment(workload, "", iterations=iterations))
        if plan.host_side and not plan.trees:
            raise Refused(plan.host_side[0])
        early_s = late_s = plan.prediction.fluid_s
        if (latest := at_the_latest(plan.schedule)) is not None:
            late_s = simulate(plan.fabric, plan.flows, latest, trees=plan.trees).time_s
        exposed_s = plan.prediction.exposed_s
        if exposed_s is None:
            exposed_s = max(0.0, early_s - compute_s(plan.schedule)) / len(iterations)
        return Modelled(early_s, late_s, exposed_s)

    count = len(base.iterations) - base.n_before
    whole = of(base.iterations)
    if not count:
        return whole
    before = of(base.iterations[: base.n_before])
    early_s, late_s = (whole.early_s - before.early_s) / count, (whole.late_s - before.late_s) / count
    return Modelled(early_s, late_s, whole.exposed_s)
