"""A study: a lab, perhaps with seeds and several jobs.  Its cells, each with the key it is kept by."""

import hashlib
import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from gradwire.emu.options import RunOptions
from gradwire.emu.project import PROJECT
from gradwire.planning.experiment import Cell, Experiment, Original
from gradwire.results.outcomes import Subject
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import Row
from gradwire.results.rowchoices import cell_name
from gradwire.results.studyplots import Choice, Plot, chosen_series
from gradwire.tools.labs.file import Lab
from gradwire.tools.labs.work import LabWork, check_expectations, lab_work

MAX_CELLS = 100_000
_CODE = ("planning", "results", "tools", "traces")  # whatever decides a plan and its figures
_SENDING = ("controller", "emu")  # and a run
_COMPILED = (".c", ".h", ".py")
MAX_SEEDS = 1000
_SEEDS = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One cell of a study with one job, by its name, and one seed; `key` is a hash of everything that its
    figures depend on.  `run` says how its packets are sent, None if it is only planned; then `original` is
    the job as it was captured, if that is what is sent.
    """

    job: str
    seed: int
    cell: Cell
    experiment: Experiment
    key: str
    run: RunOptions | None = None
    original: Original | None = None

    @property
    def name(self) -> str:
        cell = self.cell
        name = cell_name(cell.fabric.spec, cell.algorithm, cell.placement, cell.routes)
        return f"{f'{self.job}: ' if self.job else ''}{name}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Study:
    """The works of a lab for each seed, one for each job, and all their cells in the same order."""

    lab: Lab
    works: Mapping[int, tuple[LabWork, ...]]
    cells: tuple[StudyCell, ...]

    @property
    def title(self) -> str:
        return f"Study {self.lab.name}"

    def choices(self, sizes: Sequence[int] = ()) -> list[Choice]:
        """What the cells of the first seed are to plots, with their sizes as far as these are known."""
        seed = next(iter(self.works))
        mine = [each for each in self.cells if each.seed == seed]
        subjects = self.subjects(seed, [None] * len(mine))
        known = sizes or [subject.nbytes or 0 for subject in subjects]
        return [
            Choice(subject, each.experiment.n_ranks, size)
            for subject, each, size in zip(subjects, mine, known, strict=True)
        ]

    def plots(self) -> list[tuple[Plot, tuple[str, ...]]]:
        """What is to be drawn, with the choices that name a series.  Raise BadLab for what cannot be."""
        choices, found = self.choices(), []
        for number, plot in enumerate(self.lab.plots):
            with self.lab.blamed("plot", number):
                found.append((plot, chosen_series(plot, choices, is_run=self.sends)))
        return found

    @property
    def sends(self) -> bool:
        """Whether packets are sent."""
        return any(cell.run for cell in self.cells)

    def subjects(self, seed: int, of: Sequence[Row | PlannedCell | None]) -> list[Subject]:
        """The cells of one seed as expectations see them, with what is known of each."""
        rest = iter(of)
        return [
            subject
            for work in self.works[seed]
            for subject in work.subjects([next(rest) for _ in work.work.cells])
        ]

    def check(self, seed: int, of: Sequence[Row | PlannedCell | None]) -> list[Subject]:
        """The same.  Raise BadLab for an expectation that cannot be computed of these cells."""
        subjects = self.subjects(seed, of)
        check_expectations(self.lab, subjects, is_run=self.sends)
        return subjects


def study_of(lab: Lab) -> Study:
    """Raise BadLab for a lab that is not a study, or cannot be planned or run."""
    with lab.blamed("seeds"):
        seeds = parse_seeds(lab.seeds)
    if lab.seeds and "seed" in lab.given:
        with lab.blamed("seed"):
            raise ValueError("seed has no effect beside seeds; leave it out")
    if lab.draw:
        with lab.blamed("draw"):
            raise ValueError("sweep always writes a page and a table; leave draw out")
    seeds = seeds or (int(lab.given.get("seed", 0)),)
    first = [_work(each, seeds[0]) for each in _labs(lab)]
    n_cells = len(seeds) * sum(len(work.work.cells) for work in first)
    if n_cells > MAX_CELLS:
        with lab.blamed("seeds"):
            raise ValueError(f"{n_cells:,} cells are more than {MAX_CELLS:,}; take fewer seeds or choices")
    works = {seed: tuple(work.with_seed(seed) for work in first) for seed in seeds}
    study = Study(lab, works, tuple(_cells(works)))
    study.check(seeds[0], [None] * (n_cells // len(seeds)))
    study.plots()
    return study


def _labs(lab: Lab) -> Iterator[Lab]:
    """One for each job."""
    if not lab.jobs:
        yield lab
    for name, job in lab.jobs.items():
        yield replace(lab, job=job, job_name=name)


def _work(lab: Lab, seed: int) -> LabWork:
    made = lab_work(replace(lab, given={**lab.given, "seed": seed}))
    if made.work.plan:
        with lab.blamed("job"):
            raise ValueError("the job is a plan, which has one cell; give a capture or a workload")
    return made


def _cells(works: Mapping[int, Sequence[LabWork]]) -> Iterator[StudyCell]:
    digests: dict[int, bytes] = {}
    for seed, work in ((seed, work) for seed, some in works.items() for work in some):
        run = work.run.options if work.run else None
        original = work.work.original if run else None
        how = repr(run).encode()
        code = code_digest(sends=run is not None)
        for cell, experiment in work.work.cells:
            names = repr((cell.algorithm, cell.placement, cell.routes)).encode()
            values = [getattr(experiment, each.name) for each in fields(experiment)]
            parts = (code, *(_digest(value, digests) for value in (cell.fabric, *values)), names, how)
            key = hashlib.sha256(b"".join(parts)).hexdigest()
            yield StudyCell(work.lab.job_name, seed, cell, experiment, key, run, original)


def _digest(value: Any, digests: dict[int, bytes]) -> bytes:
    """A hash of what a value says; of those in `digests`, by their ids, it is known.  Cells share their
    fabrics and their workloads, which are large.
    """
    if id(value) not in digests:
        digests[id(value)] = hashlib.sha256(repr(value).encode()).digest()
    return digests[id(value)]


@cache
def code_digest(*, sends: bool) -> bytes:
    """A hash of the code that plans, or also `sends` packets, and of the versions of Python and all packages.

    The code of a policy or an algorithm from another package counts by that package's version.
    """
    digest = hashlib.sha256(sys.version.encode())
    for folder in (*_CODE, *(_SENDING if sends else ())):
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in _COMPILED:
                digest.update(f"{path.relative_to(PROJECT)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    places = list({sysconfig.get_path(name) for name in ("purelib", "platlib")})
    packages = {(each.name, each.version) for each in importlib.metadata.distributions(path=places)}
    digest.update(repr(sorted(packages)).encode())
    return digest.digest()


def parse_seeds(texts: Sequence[str]) -> tuple[int, ...]:
    """The seeds that texts such as `3` and `0..9` name, in order, each once.  Raise ValueError."""
    seeds: dict[int, None] = {}
    for text in texts:
        match = _SEEDS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a seed: write it like 3 or 0..9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{text!r} is empty: write the lower number first")
        if last - first >= MAX_SEEDS or len(seeds) + last - first >= MAX_SEEDS:
            raise ValueError(f"{text!r}: a study has at most {MAX_SEEDS:,} seeds")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)
