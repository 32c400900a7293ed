"""The results of a study's cells, one by one and summed up over its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import Row


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell with one seed: `cell` as it was planned, and its `row` if its packets were sent.

    `job` is the name of its job, empty if the study has only one.  `failed` is why packets that should have
    been sent were not, by no fault of the plan.
    """

    job: str
    seed: int
    cell: PlannedCell
    row: Row | None = None
    failed: str | None = None

    @property
    def name(self) -> str:
        """For a person, without the seed."""
        return f"{self.job}: {self.cell.name}" if self.job else self.cell.name

    @property
    def refused(self) -> str | None:
        """Why it has no figures, if it has none."""
        return self.cell.refused if self.failed is None else self.failed

    @property
    def result(self) -> Row | PlannedCell:
        """What expectations are about."""
        return self.row or replace(self.cell, refused=self.refused)

    @property
    def time_s(self) -> float | None:
        """The median of the repeats, or as predicted if nothing was to be sent; None without figures."""
        if self.refused is not None:
            return None
        if self.row is None:
            return self.cell.fluid_s
        return self.row.time_s.median if self.row.time_s else None

    @property
    def bound_s(self) -> float | None:
        return self.cell.bound_s

    @property
    def counts(self) -> bool:
        """Whether its time may be compared with others': it was planned, or its row is valid."""
        return self.time_s is not None and (self.row is None or self.row.valid)


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """Cells that differ in their seed alone."""

    results: tuple[CellResult, ...]

    @property
    def first(self) -> CellResult:
        """The first that was planned, as one that is refused does not say its size."""
        return next((each for each in self.results if each.cell.refused is None), self.results[0])

    @property
    def times_s(self) -> tuple[float, ...]:
        """Of those that have one."""
        return tuple(each.time_s for each in self.results if each.time_s is not None)

    @property
    def n_seeds(self) -> int:
        return len(self.results)

    @property
    def n_counted(self) -> int:
        """Of how many the time counts."""
        return sum(each.counts for each in self.results)

    @property
    def mean_s(self) -> float:
        return fmean(self.times_s)

    @property
    def bound_s(self) -> float | None:
        """The mean, as the part of a job that is sent may depend on the seed."""
        bounds_s = [each.bound_s for each in self.results if each.time_s is not None]
        known_s = [bound_s for bound_s in bounds_s if bound_s is not None]
        return fmean(known_s) if known_s else None

    @property
    def is_valid(self) -> bool:
        """Whether all times count."""
        return self.n_counted == len(self.times_s)


def summaries(results: Sequence[CellResult]) -> list[SeedSummary]:
    """One for each combination of choices; `results` has the same ones in the same order for each seed.

    They are found by their places, as a cell that is refused does not say its size.
    """
    of_seeds: dict[int, list[CellResult]] = {}
    for result in results:
        of_seeds.setdefault(result.seed, []).append(result)
    return [SeedSummary(same) for same in zip(*of_seeds.values(), strict=True)]
