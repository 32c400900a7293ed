"""What a lab file asks for: its cells with what each sends, and whether its expectations can be computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gradwire.emu.project import PROJECT
from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.results.outcomes import Subject, check
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import REFUSED, Row
from gradwire.tools.commands.bench import bench
from gradwire.tools.commands.replay import replay
from gradwire.tools.jobwork import Work, work_of
from gradwire.tools.labs.file import Lab, chosen
from gradwire.tools.labs.optionkeys import key_of
from gradwire.tools.labs.schema import Bench, Part
from gradwire.tools.labs.writing import expected, lab_of
from gradwire.tools.options.bench import SIZES, BenchChoices
from gradwire.tools.options.choices import FIXED_BY_PLAN, MatrixChoices, NetworkChoices, RunChoices, fixed
from gradwire.tools.options.fields import defaults_of
from gradwire.tools.options.make import KINDS, SizeChoices
from gradwire.traces.schedules.dtypes import FLOAT32, element_nbytes
from gradwire.traces.schedules.names import DEFAULTS
from gradwire.traces.units import one_of
from gradwire.traces.workload import Collective, Workload

SAMPLES = PROJECT / "traces" / "samples"
PLAN = "plan"


@dataclass(frozen=True)
class LabWork:
    """A lab, what is done with its job, with which cells, and the choices for it by their classes."""

    lab: Lab
    mode: str
    work: Work
    fabrics: Sequence[tuple[str, Fabric]]
    choices: Mapping[type, Any]

    @property
    def run(self) -> RunChoices | None:
        """How packets are sent; None if none are."""
        return self.choices.get(RunChoices)

    @property
    def title(self) -> str:
        return f"Lab {self.lab.name}"

    @property
    def document(self) -> dict[str, Any]:
        """The keys of a lab file that does the same, wherever it is."""
        lab = self.lab
        return {
            "name": lab.name,
            **lab_of(lab.job_keys, self.mode, self.work, list(self.choices.values())),
            **({"expect": expected(lab.expect)} if lab.expect else {}),
            **({"draw": list(lab.draw)} if lab.draw else {}),
        }

    def subjects(self, of: Sequence[Plan | Row | PlannedCell | None]) -> list[Subject]:
        """The cells as expectations see them, with what is known of each, in the order of the cells."""
        if self.work.plan:
            plan = self.work.plan
            cell = Cell(plan.fabric, plan.algorithm, plan.placement_name, plan.routes)
            return [self._subject(cell, None, known) for known in of]
        return [
            self._subject(cell, experiment, known)
            for (cell, experiment), known in zip(self.work.cells, of, strict=True)
        ]

    def _subject(
        self, cell: Cell, experiment: Experiment | None, known: Plan | Row | PlannedCell | None
    ) -> Subject:
        texts = [text for text, fabric in self.fabrics if fabric == cell.fabric]
        refused = (isinstance(known, Row) and known.verdict == REFUSED) or (
            isinstance(known, PlannedCell) and known.refused is not None
        )
        return Subject(
            fabrics=(cell.fabric.spec, *texts),
            algorithm=cell.algorithm,
            placement=cell.placement,
            routes=cell.routes,
            nbytes=_size(self.lab, experiment) if experiment else None,
            job=self.lab.job_name,
            refused=refused,
            fabric=cell.fabric,
            plan=known if isinstance(known, Plan) else None,
            result=None if isinstance(known, Plan) else known,
        )

    def check(self, of: Sequence[Plan | Row | PlannedCell | None]) -> None:
        """Raise BadLab for an expectation that cannot be computed of these cells."""
        check_expectations(self.lab, self.subjects(of), is_run=self.run is not None)

    def with_seed(self, seed: int) -> "LabWork":
        """The same with another seed.  Raise as `lab_work` does."""
        lab = replace(self.lab, given={**self.lab.given, "seed": seed})
        if "jitter" in lab.given:  # which draws how long ranks compute
            return lab_work(lab)
        cells = [(cell, replace(experiment, seed=seed)) for cell, experiment in self.work.cells]
        return replace(self, lab=lab, work=replace(self.work, cells=cells))

    def todo(self) -> list[Plan | Row]:
        """The plans of what is sent, none with mode: plan.  Raise BadLab for what cannot be planned, and for
        an expectation that cannot be computed of it.
        """
        if self.run is None:
            return []
        with self.lab.blamed(or_quoted=True):
            todo = self.work.todo()
        self.check(todo)
        return todo


def check_expectations(lab: Lab, subjects: Sequence[Subject], *, is_run: bool) -> None:
    """Raise BadLab for an expectation that cannot be computed of these cells."""
    for number, expectation in enumerate(lab.expect):
        with lab.blamed("expect", number):
            check(expectation, subjects, is_run=is_run)


def _size(lab: Lab, experiment: Experiment) -> int | None:
    """The size that a bench asked for, which with a data type is in its numbers."""
    item = experiment.workload.items[0]
    if not isinstance(lab.job, Bench) or not isinstance(item, Collective):
        return None
    dtype = experiment.wire if "datatype" in lab.job.given else FLOAT32
    return item.nbytes * element_nbytes(dtype) // element_nbytes(FLOAT32)


def lab_work(lab: Lab) -> LabWork:
    """What is done with the lab's job.  Raise BadLab for what cannot be planned or run as the file says."""
    is_bench = isinstance(lab.job, Bench)
    mode = _mode(lab)
    defaults = defaults_of(bench if is_bench else replay)
    if mode == PLAN:
        defaults.pop(RunChoices)
    _refuse_foreign(lab, defaults, f"mode: {mode}")
    choices = {kind: lab.choices(default) for kind, default in defaults.items() if kind is not BenchChoices}
    fabrics = lab.fabrics or [(text, parse_fabric(text)) for text in choices[MatrixChoices].fabric]
    with lab.blamed("job", or_quoted=True):
        make = _bench_work if is_bench else _job_work
        made = LabWork(lab, mode, make(lab, choices, [fabric for _, fabric in fabrics]), fabrics, choices)
        if made.run:
            made.run.options  # noqa: B018 - which refuses what they cannot be
    if not lab.jobs:  # else they may be about cells of other jobs
        made.check([None] * len(made.work.cells or [None]))
    return made


def _mode(lab: Lab) -> str:
    """What is done with the job; raise BadLab if that does not go together."""
    own = "bench" if isinstance(lab.job, Bench) else "replay"
    with lab.blamed("mode"):
        if lab.mode not in (None, PLAN, own):
            raise ValueError(
                "the job is a bench: write mode: bench or mode: plan"
                if own == "bench"
                else "mode: bench needs a job like {bench: allreduce, end: 8MiB}"
            )
    return lab.mode or own


def _refuse_foreign(lab: Lab, defaults: Mapping[type, Any], mode: str) -> None:
    """Raise BadLab for a key that would be ignored."""
    known = {each.name for one in defaults for each in fields(one)}
    for one in (*FIXED_BY_PLAN, RunChoices):
        for each in fields(one):
            if each.name in lab.given and each.name not in known:
                with lab.blamed(key_of(each)):
                    raise ValueError(f"{key_of(each)} has no effect with {mode}; leave it out")


def _bench_work(lab: Lab, choices: dict[type, Any], fabrics: Sequence[Fabric]) -> Work:
    assert isinstance(lab.job, Part)
    given = lab.job.given
    kind = given.pop("bench")
    for name in SIZES if "sizes" in given else ():
        if name in given:
            with lab.blamed("job", name):
                raise ValueError(f"{name}: the sizes are in a table; leave it out")
    matrix = choices[MatrixChoices]
    if not matrix.algorithm:
        choices[MatrixChoices] = matrix = replace(matrix, algorithm=[DEFAULTS[kind]])
    sized = chosen(BenchChoices(), given, lab.path.parent)
    return Work(sized.work(kind, matrix.cells_on(fabrics), choices[NetworkChoices]))


def _job_work(lab: Lab, choices: dict[type, Any], fabrics: Sequence[Fabric]) -> Work:
    matrix, network, traffic = (choices[one] for one in FIXED_BY_PLAN)
    cells = matrix.cells_on(fabrics)
    if isinstance(lab.job, Part) and "make" in lab.job.given:
        job = traffic.experiment(_made(lab), [Path(f"make {lab.job.given['make']}")], network)
        return Work([(cell, job) for cell in cells])
    paths = lab.job if isinstance(lab.job, tuple) else [_sample(lab.job.given["sample"])]
    work = work_of(paths, cells, network, traffic)
    if work.plan:
        _refuse_planned(lab, paths[0])
    return work


def _made(lab: Lab) -> Workload:
    """The workload of a job that nobody captured."""
    assert isinstance(lab.job, Part)
    given = lab.job.given
    choices = chosen(KINDS[given.pop("make")], given, lab.path.parent)
    return choices.workload(chosen(SizeChoices(), given, lab.path.parent))


def _sample(name: str) -> Path:
    """Raise ValueError for a sample that gradwire does not ship."""
    names = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
    return SAMPLES / one_of("sample", name, names)


def _refuse_planned(lab: Lab, plan: Path) -> None:
    """Raise BadLab for a key that a plan file has decided already."""
    keys = [key_of(each) for one in FIXED_BY_PLAN for each in fields(one) if each.name in lab.given]
    for key in [*(["fabric"] if lab.fabrics else []), *keys]:
        with lab.blamed(key):
            raise fixed(key, plan)
