"""The result of `trust`: live jobs, their replays, and how far they differ.  File form: `result.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import TypeAdapter

from gradwire.planning.runfiles import BadRun
from gradwire.results.matrixfile import (
    RESULT,
    About,
    MatrixCell,
    check_cells,
    check_schema,
    checked_value,
    read_result,
)
from gradwire.results.row import REFUSED
from gradwire.traces.files import write_whole
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.units import show_s

SCHEMA: Literal["gradwire.trust/1"] = "gradwire.trust/1"
MUCH_WAITED = 0.05  # of a live job's time, for processors: from here on it is worth a note
OTHER_COMPUTING = 0.02  # of an iteration, by which a job takes longer to compute on one fabric: likewise
MOST_OTHER_COMPUTING = 0.05  # of an iteration: then the two are not the same job
ERROR_BAR = 0.10  # the widest: a row further off than this is wrong, whatever else is said of it
MOST_APART = 0.03  # of two trainings of a job on a fabric: with more they are judged one by one
EXCUSED_SPREAD = 0.05  # a live job whose iterations differ more than this excuses a refused row


@dataclass(frozen=True, slots=True)
class Training:
    """One of several trainings of a job: its folder below the matrix's, its iterations alone, and why its
    capture and its time cannot be relied on; files from before these were in them have none.  `computed_s`
    is how long its ranks computed in an iteration (traces.groundtruth), None where their logs do not say, or
    jobs ran beside each other.
    """

    folder: str
    time: IterationTime
    doubts: tuple[str, ...] = ()
    computed_s: float | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """The job trained on one fabric; `job` is 0, of those trained beside it from 1 on.

    `folder`, below the matrix's, has the capture that is replayed, or what a failed job left.
    `time` is by the ranks' own logs, of all trainings on this fabric, None if there is none: `failure` says
    why in one line.  `trainings` are those that nothing disturbed, or the first if all were (then `doubts`
    says so).  `waited` is the share of the time that a rank's threads waited for a processor, together, mean
    of all ranks and trainings; None without it in logs.  `computed_s` is that of the training whose capture
    is replayed.
    `doubts` say why neither the capture that is replayed nor the time can be relied on: the check against the
    logs failed, or the machine was disturbed while the job ran.
    """

    fabric: str
    folder: str
    time: IterationTime | None = None
    failure: str | None = None
    doubts: tuple[str, ...] = ()
    job: int = 0
    trainings: tuple[Training, ...] = ()
    waited: float | None = None
    computed_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrustRow:
    """A capture's replay on a fabric, beside the job trained there.

    Where hosts have several paths to each other, or trainings took times more than MOST_APART apart, it is
    the middle one of as many as there were trainings (tools.trust.matrix.middle_row).
    All times are of one iteration: `live` by the logs, `replay` by the agents' events over `repeats`,
    `predicted_s` the model's median iteration.  `error` is the replay's median over the live one, less 1;
    `predicted_error` likewise.  `verdict` is the run's own, or "refused".
    `repeat_s` has each counted repeat's median iteration.  `error_bar` is that of the run's prediction.
    `machine` are those of the `reasons` for which the machine is to blame, and such reasons of replays that
    do not count: another try may be valid, or is of more replays.
    `job` is as in `Live`; where jobs run beside each other no time of one alone is predicted.  `fidelity` is
    the score of traces.fidelity, on the fabric of the capture itself only.
    """

    captured_on: str
    replayed_on: str
    verdict: str
    live: IterationTime | None = None
    replay: IterationTime | None = None
    predicted_s: float | None = None
    error: float | None = None
    predicted_error: float | None = None
    fidelity: float | None = None
    error_bar: float = ERROR_BAR
    repeats: int = 0
    repeat_s: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None
    job: int = 0
    machine: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return self.verdict == "valid"

    @property
    def is_within(self) -> bool:
        return self.error is not None and abs(self.error) <= self.error_bar

    @property
    def is_excused(self) -> bool:
        """Refused where the live job itself has no steady time to compare with."""
        return self.verdict == REFUSED and self.live is not None and self.live.spread > EXCUSED_SPREAD

    @property
    def is_failure(self) -> bool:
        return not (self.is_valid and self.is_within) and not self.is_excused


def took_the_same_time(live: Live) -> bool:
    """Whether its trainings did: if not, one time is not all that the job can take on this fabric."""
    medians_s = [training.time.median for training in live.trainings]
    return not medians_s or max(medians_s) <= (1 + MOST_APART) * min(medians_s)


def computes_alike(there_s: float | None, here_s: float | None, time: IterationTime | None) -> bool:
    """Whether a job computes about as long where it was captured (`there_s` of an iteration) as on another
    fabric (`here_s`), where an iteration takes this `time`; so it is where nobody knows.
    """
    return not _compute_difference(there_s, here_s, time) > MOST_OTHER_COMPUTING


def _compute_difference(there_s: float | None, here_s: float | None, time: IterationTime | None) -> float:
    """As a share of an iteration."""
    if there_s is None or here_s is None or time is None:
        return 0.0
    return abs(there_s - here_s) / time.median


def judged_by_computing(row: TrustRow, there_s: float | None, here_s: float | None) -> TrustRow:
    """The row with a warning if the job itself took longer to compute on one of the fabrics, see
    `computes_alike`; not valid if much.

    A replay computes what its capture shows.
    """
    if there_s is None or here_s is None:
        return row
    difference = _compute_difference(there_s, here_s, row.live)
    what = (
        f"by its ranks' logs the job itself took {show_s(there_s)} of an iteration to compute where it was "
        f"captured, and {show_s(here_s)} here"
    )
    if difference > MOST_OTHER_COMPUTING:
        again = f"{what}: if something slowed the machine down, train again with another --out"
        return replace(row, verdict="not valid", reasons=(*row.reasons, again))
    if difference > OTHER_COMPUTING:
        return replace(row, warnings=(*row.warnings, f"{what}; a replay computes what its capture shows"))
    return row


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the rows that count, those not excused.  Errors are shares, of the valid rows alone."""

    rows: int
    valid: int
    within: int
    refused: int
    excused: int
    failures: int
    mean_error: float | None
    worst_error: float | None

    @classmethod
    def of(cls, rows: Sequence[TrustRow]) -> "Summary":
        counted = [row for row in rows if not row.is_excused]
        errors = [row.error for row in counted if row.is_valid and row.error is not None]
        return cls(
            rows=len(counted),
            valid=sum(row.is_valid for row in counted),
            within=sum(row.is_valid and row.is_within for row in counted),
            refused=sum(row.verdict == REFUSED for row in counted),
            excused=len(rows) - len(counted),
            failures=sum(row.is_failure for row in counted),
            mean_error=fmean(map(abs, errors)) if errors else None,
            worst_error=max(errors, key=abs) if errors else None,
        )


@dataclass(frozen=True, slots=True)
class TrustMatrix:
    """What one `trust` found, of `n_rows` in all; `beside` names the jobs that were trained and replayed
    beside it.  Files from before that number was in them are complete.
    """

    job: str
    ranks: int
    routes: str
    snaplen: int
    live: tuple[Live, ...]
    rows: tuple[TrustRow, ...]
    beside: tuple[str, ...] = ()
    about: About = field(default_factory=About)
    n_rows: int | None = None
    schema: Literal["gradwire.trust/1"] = SCHEMA

    @property
    def is_complete(self) -> bool:
        return self.n_rows in (None, len(self.rows))

    @property
    def jobs(self) -> tuple[str, ...]:
        """All of them in words, by `job`."""
        return (f"{self.job}, {self.ranks} ranks", *self.beside)

    @property
    def summary(self) -> Summary:
        return Summary.of(self.rows)

    def _name(self, job: int) -> str:
        """Jobs that are alike have names of their own, too."""
        return f"beside-{job}: {self.jobs[job]}" if job else self.jobs[0]

    @property
    def cells(self) -> tuple[MatrixCell, ...]:
        """What is compared of the rows."""
        return tuple(
            MatrixCell(
                f"{row.captured_on} → {row.replayed_on}, {self._name(row.job)}", row.verdict, row.repeat_s
            )
            for row in self.rows
        )

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        cells = [asdict(cell) for cell in self.cells]
        return {"schema": value.pop("schema"), **value, "summary": asdict(self.summary), "cells": cells}


_MATRIX = TypeAdapter(TrustMatrix)


def save(matrix: TrustMatrix, folder: Path) -> None:
    """Write `result.json` into the matrix's folder.  Raise OSError."""
    write_whole(folder / RESULT, json.dumps(matrix.to_json(), indent=1) + "\n")


def trust_of(path: Path, value: dict[str, Any]) -> TrustMatrix:
    """The matrix that `value`, the content of the file `path`, is.  Raise BadRun."""
    check_schema(path, value, SCHEMA)
    matrix = checked_value(path, _MATRIX, value)
    n_jobs = len(matrix.jobs)
    named = {*(live.job for live in matrix.live), *(row.job for row in matrix.rows)}
    if not named <= set(range(n_jobs)):
        raise BadRun(path, f"it names a job that is not one of its {n_jobs}")
    check_cells(path, matrix.cells)
    fabrics = {live.fabric for live in matrix.live}
    for row in matrix.rows:
        if not {row.captured_on, row.replayed_on} <= fabrics:
            raise BadRun(path, f"{row.captured_on} → {row.replayed_on}: `live` has no job on one of them")
    if not fabrics:
        raise BadRun(path, "it has no live job")
    return matrix


def load(folder: Path) -> TrustMatrix:
    """The matrix in a folder.  Raise BadRun, or OSError."""
    return trust_of(folder / RESULT, read_result(folder))
