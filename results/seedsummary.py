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
    """One for each combination of choices, in the order of the study."""
    groups: dict[tuple[object, ...], list[PlannedCell]] = {}
    for _, cell in seeded:
        choices = (cell.fabric, cell.algorithm, cell.placement, cell.routes, cell.ranks)
        groups.setdefault((*choices, cell.bytes), []).append(cell)
    return [
        SeedSummary(
            same[0],
            tuple(cell.fluid_s for cell in same if cell.fluid_s is not None),
            tuple(cell.bound_s for cell in same if cell.bound_s is not None),
            len(same),
        )
        for same in groups.values()
    ]
