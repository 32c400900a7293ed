"""What the cells of a study come to, and the same summed up over its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gradwire.results.plannedcells import PlannedCell


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell with one seed, as it was planned.

    `job` is the name of its job, empty if the study has only one.
    """

    job: str
    seed: int
    cell: PlannedCell

    @property
    def name(self) -> str:
        """For a person, without the seed."""
        return f"{self.job}: {self.cell.name}" if self.job else self.cell.name

    @property
    def time_s(self) -> float | None:
        """As predicted; None of a cell that is refused."""
        return self.cell.fluid_s

    @property
    def bound_s(self) -> float | None:
        return self.cell.bound_s


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """Cells that differ in their seed alone: the times of those that have one, `n_seeds` in all."""

    first: CellResult
    times_s: tuple[float, ...]
    bounds_s: tuple[float, ...]
    n_seeds: int

    @property
    def mean_s(self) -> float:
        return fmean(self.times_s)

    @property
    def bound_s(self) -> float | None:
        """The mean, as the part of a job that is sent may depend on the seed."""
        return fmean(self.bounds_s) if self.bounds_s else None


def summaries(results: Sequence[CellResult]) -> list[SeedSummary]:
    """One for each combination of choices; `results` has the same ones in the same order for each seed.

    They are found by their places, as a cell that is refused does not say its size.
    """
    of_seeds: dict[int, list[CellResult]] = {}
    for result in results:
        of_seeds.setdefault(result.seed, []).append(result)
    return [
        SeedSummary(
            next((each for each in same if each.cell.refused is None), same[0]),
            tuple(each.time_s for each in same if each.time_s is not None),
            tuple(each.bound_s for each in same if each.bound_s is not None),
            len(same),
        )
        for same in zip(*of_seeds.values(), strict=True)
    ]
