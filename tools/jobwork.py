"""What `replay` and labs carry out: cells and what each of them sends, or a plan from a file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.planning.experiment import Cell, Experiment, Original
from gradwire.planning.jobs import is_captures, read_captured, read_job
from gradwire.planning.plan import Plan
from gradwire.results.laboratory import planned
from gradwire.results.row import Row
from gradwire.tools.options.choices import NetworkChoices, TrafficChoices


@dataclass(frozen=True)
class Work:
    """`cells` with what each sends, or the `plan` that a file holds.

    `original` is the job as it was captured, if that is what is sent.
    """

    cells: Sequence[tuple[Cell, Experiment]] = ()
    plan: Plan | None = None
    original: Original | None = None

    def todo(self) -> list[Plan | Row]:
        """The plans; of a cell that makes no sense its row.  Raise Refused if that is the only one."""
        return [self.plan] if self.plan else planned(self.cells)


def work_of(
    paths: Sequence[Path], cells: Sequence[Cell], network: NetworkChoices, traffic: TrafficChoices
) -> Work:
    """The job that the paths hold, in each cell.  Raise as `read_job` and `TrafficChoices.job` do."""
    original = None
    if is_captures(paths):
        given, original = read_captured(paths, traffic.rank_map)
    else:
        read = read_job(paths, traffic.rank_map)
        if isinstance(read, Plan):
            return Work(plan=read)
        given = read
    if traffic.changes_job:
        original = None
    job = traffic.experiment(given, paths, network)
    job = replace(job, captured_on=original.fabric if original else None)
    return Work([(cell, job) for cell in cells], original=original)
