"""A study: a lab with mode: plan and several seeds.  Its cells, each with the key that it is kept by."""

import hashlib
import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gradwire.emu.project import PROJECT
from gradwire.planning.experiment import Cell, Experiment
from gradwire.tools.labfile import Lab
from gradwire.tools.labwork import PLAN, LabWork, lab_work

MAX_SEEDS = 1000
MAX_CELLS = 100_000
_SEEDS = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")
_CODE = ("planning", "results", "tools", "traces")  # whatever decides a plan and its figures
_COMPILED = (".c", ".h", ".py")


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One cell of a study with one seed; `key` is a hash of everything that its figures depend on."""

    seed: int
    cell: Cell
    experiment: Experiment
    key: str

    @property
    def name(self) -> str:
        cell = self.cell
        return f"{cell.fabric.spec} {cell.algorithm} {cell.placement} {cell.routes}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Study:
    """The `works` of a lab, one for each seed, and all their cells in the same order."""

    lab: Lab
    works: tuple[LabWork, ...]
    cells: tuple[StudyCell, ...]


def study_of(lab: Lab) -> Study:
    """Raise BadLab for a lab that is not a study, or cannot be planned."""
    with lab.blamed("mode"):
        if lab.mode != PLAN:
            raise ValueError("sweep only plans: write mode: plan; gradwire run sends packets")
    with lab.blamed("seeds"):
        seeds = parse_seeds(lab.seeds)
    if lab.seeds and "seed" in lab.given:
        with lab.blamed("seed"):
            raise ValueError("seed has no effect beside seeds; leave it out")
    if lab.draw:
        with lab.blamed("draw"):
            raise ValueError("sweep always writes a page and a table; leave draw out")
    works = []
    for seed in seeds or (int(lab.given.get("seed", 0)),):
        works.append(lab_work(replace(lab, given={**lab.given, "seed": seed})))
        if works[0].work.plan:
            with lab.blamed("job"):
                raise ValueError("the job is a plan, which has one cell; give a capture or a workload")
        if len(works[0].work.cells) * len(seeds) > MAX_CELLS:
            with lab.blamed("seeds"):
                raise ValueError(f"more than {MAX_CELLS:,} cells; take fewer seeds or fewer choices")
    return Study(lab, tuple(works), tuple(_cells(works)))


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


def _cells(works: Sequence[LabWork]) -> Iterator[StudyCell]:
    digests: dict[int, bytes] = {}
    code = code_digest()
    for work in works:
        for cell, experiment in work.work.cells:
            for each in (cell.fabric, experiment):
                digests.setdefault(id(each), hashlib.sha256(repr(each).encode()).digest())
            names = repr((cell.algorithm, cell.placement, cell.routes)).encode()
            parts = (code, digests[id(cell.fabric)], digests[id(experiment)], names)
            key = hashlib.sha256(b"".join(parts)).hexdigest()
            yield StudyCell(experiment.seed, cell, experiment, key)


@cache
def code_digest() -> bytes:
    """A hash of the code that plans, and of the versions of Python and of all packages beside it.

    The code of a policy or an algorithm from another package counts by that package's version.
    """
    digest = hashlib.sha256(sys.version.encode())
    for folder in _CODE:
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in _COMPILED:
                digest.update(f"{path.relative_to(PROJECT)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    places = list({sysconfig.get_path(name) for name in ("purelib", "platlib")})
    packages = {(each.name, each.version) for each in importlib.metadata.distributions(path=places)}
    digest.update(repr(sorted(packages)).encode())
    return digest.digest()
