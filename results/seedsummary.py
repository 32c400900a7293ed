"""Cells of a study that differ in their seed alone, summed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gradwire.results.plannedcells import PlannedCell

Seeded = Sequence[tuple[int, PlannedCell]]


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """Cells that differ in their seed alone: the times of those that were planned, `n_seeds` in all."""

    first: PlannedCell
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


def summaries(seeded: Seeded) -> list[SeedSummary]:
    """One for each combination of choices; `seeded` has the same ones in the same order for each seed.

    They are found by their places, as a cell that is refused does not say its size.
    """
    of_seeds: dict[int, list[PlannedCell]] = {}
    for seed, cell in seeded:
        of_seeds.setdefault(seed, []).append(cell)
    return [
        SeedSummary(
            next((cell for cell in same if cell.refused is None), same[0]),
            tuple(cell.fluid_s for cell in same if cell.fluid_s is not None),
            tuple(cell.bound_s for cell in same if cell.bound_s is not None),
            len(same),
        )
        for same in zip(*of_seeds.values(), strict=True)
    ]
