"""Trains a job live on each fabric, captures it there, and replays each capture on each fabric.

The folder keeps everything, so that a matrix that was cut off goes on where it stopped:

    request.json         what was asked for; another request in the same folder is refused
    live/                the captures with the ranks' logs: tools.trust.live
    runs-K/              the replays' run folders, of the K-th attempt
    rows/NN-MM.json      capture NN on fabric MM, a row for each job, as soon as it is measured
    result.json          all rows so far
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter

from gradwire.emu.options import RunOptions
from gradwire.emu.records import CAPTURES
from gradwire.emu.run import run
from gradwire.emu.watch import RunFailed
from gradwire.planning.fabrics.figures import has_one_path
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.refused import Refused
from gradwire.planning.runfiles import read_json
from gradwire.results.laboratory import Laboratory
from gradwire.results.matrixfile import About
from gradwire.results.row import REFUSED
from gradwire.results.trustresult import (
    Live,
    Training,
    TrustMatrix,
    TrustRow,
    computes_alike,
    judged_by_computing,
    save,
    took_the_same_time,
)
from gradwire.tools.capturing import carry_out as capture_live
from gradwire.tools.options.livejob import LiveJob
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.trust.live import Capture, Trainer, attempt, below
from gradwire.tools.trust.replay import Replayed, compared, plan_for
from gradwire.traces.fidelity import SentMessage, captured_messages
from gradwire.traces.files import write_whole
from gradwire.traces.groundtruth import BadLog
from gradwire.traces.iterationtimes import FIRST_WARM, MIN_ITERATIONS
from gradwire.traces.packets.packets import BadCapture
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.units import show_count
from gradwire.traces.workload import Workload

Tell = Callable[[str], None]
_LABORATORY = partial(Laboratory, run=run)
# Raised when jobs are trained, read, replayed or judged differently: such rows are not one matrix.
_VERSION = 8


@dataclass(frozen=True, slots=True)
class TrustTrial:
    """The settings of a matrix.  `fabrics` are specs or files; replays take `routes` and run `repeats` times.

    For `trainings` see tools.trust.live.
    """

    job: LiveJob
    fabrics: tuple[str, ...]
    routes: str = "ecmp"
    repeats: int = 3
    snaplen: int = 128
    trainings: int = 1

    def __post_init__(self) -> None:
        if len(set(self.fabrics)) < len(self.fabrics):
            raise ValueError("a fabric is given twice: give each one --fabric only")
        for job in self.job.jobs:
            if job.is_built_in and job.iterations < MIN_ITERATIONS:
                raise ValueError(
                    f"{job.iterations} iterations are too few: the first {FIRST_WARM} are warm-up, "
                    f"so train for {MIN_ITERATIONS} or more"
                )

    def to_json(self) -> dict[str, Any]:
        """The settings and the version of what is done with them."""
        settings = {**asdict(self), "version": _VERSION}
        return json.loads(json.dumps(settings))  # type: ignore[no-any-return]  # tuples become lists


def carry_out(
    trial: TrustTrial,
    folder: Path,
    quiet: bool,
    capture: Capture = capture_live,
    laboratory: Callable[[Path, RunOptions, Tell], Laboratory] = _LABORATORY,
    described: About = About(),  # noqa: B008 - nobody changes it
) -> TrustMatrix:
    """Train, capture, replay; a job or a replay that fails becomes a row, and the others go on.  After each
    `result.json` has all rows so far.

    Raise ValueError for a folder that holds another matrix, KeyboardInterrupt after an interrupted job.
    """
    _claim(folder, trial)
    n_fabrics = len(trial.fabrics)
    request = trial.job.request(trial.fabrics[0])
    with _bar(n_fabrics + n_fabrics**2, quiet) as (tell, advance):
        forget = partial(_forget_rows, folder)
        trainer = Trainer(trial.job, folder, trial.trainings, trial.snaplen, capture, tell, forget)
        lives = []
        for number, spec in enumerate(trial.fabrics, start=1):
            lives.append(trainer.on(number, spec))
            advance()
        # Captured as the live job was: tcpdump takes its share of the processors from both.
        options = RunOptions(trial.repeats, captures=True)
        cells = _Cells(trial, folder, lives, laboratory(attempt(folder, "runs"), options, tell))
        numbers = range(len(request.jobs))
        matrix = TrustMatrix(
            request.title,
            request.n_ranks,
            trial.routes,
            trial.snaplen,
            live=tuple(each[number] for number in numbers for each in lives),
            rows=(),
            beside=tuple(one.name for one in request.beside),
            about=described,
            n_rows=len(numbers) * n_fabrics**2,
        )
        made = []
        for source, target in itertools.product(range(n_fabrics), repeat=2):
            made.append(cells.rows(source, target))
            matrix = replace(matrix, rows=tuple(each[number] for number in numbers for each in made))
            save(matrix, folder)
            advance()
    return matrix


def _claim(folder: Path, trial: TrustTrial) -> None:
    """Mark the folder as this matrix's, unless it is already.

    Raise ValueError if it holds other files, other settings, or rows of another version.
    """
    path = folder / "request.json"
    wanted = trial.to_json()
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} holds other files; choose another folder with --out")
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(wanted, indent=1) + "\n")
        return
    had = read_json(path, TypeAdapter(dict[str, Any]))
    if had.get("version") != wanted["version"]:
        raise ValueError(
            f"{folder} was begun by a version of gradwire that trains or replays jobs differently, so its "
            "rows cannot be compared with new ones; choose another folder with --out"
        )
    if different := [name for name in wanted if had.get(name) != wanted[name]]:
        raise ValueError(
            f"{folder} holds a matrix with other settings ({', '.join(different)}); choose another folder "
            "with --out"
        )


@contextmanager
def _bar(total: int, quiet: bool) -> Iterator[tuple[Tell, Callable[[], None]]]:
    with progress_bar(quiet=quiet) as progress:
        task = progress.add_task("starting", total=total)
        yield (lambda text: progress.update(task, description=text)), (lambda: progress.advance(task))


def _forget_rows(folder: Path, number: int) -> None:
    """Delete the rows that rest on this fabric's live job, as it is trained."""
    for pattern in (f"{number:02d}-*.json", f"*-{number:02d}.json"):
        for path in (folder / "rows").glob(pattern):
            path.unlink()


class _Cells:
    """Each capture on each fabric; captures that were read stay, as each is needed several times."""

    def __init__(
        self, trial: TrustTrial, folder: Path, lives: Sequence[tuple[Live, ...]], bench: Laboratory
    ) -> None:
        self._trial, self._folder, self._lives, self._bench = trial, folder, lives, bench
        self._workloads: dict[str, Workload] = {}
        self._messages: dict[str, Sequence[SentMessage]] = {}

    def rows(self, source: int, target: int) -> tuple[TrustRow, ...]:
        """The capture from fabric `source` replayed on fabric `target`, unless an undisturbed machine has."""
        lives, there = self._lives[source], self._lives[target]
        path = self._folder / "rows" / f"{source + 1:02d}-{target + 1:02d}.json"
        had = read_json(path, _ROWS) if path.exists() else ()
        if had and not any(row.machine for row in had):
            return had

        def refused(why: str) -> tuple[TrustRow, ...]:
            return tuple(
                TrustRow(one.fabric, other.fabric, REFUSED, live=other.time, reasons=(why,), job=one.job)
                for one, other in zip(lives, there, strict=True)
            )

        for each in (*lives, *there):
            if each.failure is not None:
                return refused(f"no live job on {each.fabric}: {each.failure} (see {each.folder})")
        try:
            rows = self._measured(source, target)
        except (BadTrace, BadCapture, BadLog, Refused, RunFailed, ValueError) as error:
            return refused(str(error))
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        return rows

    def _measured(self, source: int, target: int) -> tuple[TrustRow, ...]:
        """The rows of the jobs.  Where hosts have several paths, or trainings took different times, one
        replay for each training on the target, and of each job the middle row.  Trainings that did not
        compute as long as the captured one are left out, unless most did not.

        Raise BadTrace, BadCapture, BadLog, Refused, RunFailed, ValueError.
        """
        fabric, there = parse_fabric(self._trial.fabrics[target]), self._lives[target]
        if has_one_path(fabric) and all(map(took_the_same_time, there)):
            pooled = [
                Training(live.folder, live.time, live.doubts, _middle_s(live)) for live in there if live.time
            ]
            return self._replayed(source, target, pooled)
        lives = self._lives[source]
        trainings = list(zip(*(live.trainings for live in there), strict=True))
        alike = [each for each in trainings if all(map(_computed_alike, each, lives))]
        chosen = alike if 2 * len(alike) >= len(trainings) else trainings
        by_training = [self._replayed(source, target, each) for each in chosen]
        rows = tuple(middle_row(rows) for rows in zip(*by_training, strict=True))
        if len(chosen) == len(trainings):
            return rows
        left_out = (
            f"{len(chosen)} of {len(trainings)} trainings on this fabric count: the others took longer or "
            "shorter to compute than the captured one"
        )
        return tuple(replace(row, warnings=(*row.warnings, left_out)) for row in rows)

    def _replayed(self, source: int, target: int, trained: Sequence[Training]) -> tuple[TrustRow, ...]:
        """The row of each job from one replay, with the ports, the beginning and the times of the `trained`
        jobs.

        With another training's ports other flows would meet, which can double a time; ranks that begin at
        other times may fall into another rhythm.  Neither says anything about the replay.
        """
        lives = self._lives[source]
        workloads = [
            self._drawn_as(live.folder, each.folder) for live, each in zip(lives, trained, strict=True)
        ]
        fabric = parse_fabric(self._trial.fabrics[target])
        captured_on = parse_fabric(self._trial.fabrics[source])
        plan = plan_for(workloads, fabric, lives[0].folder, self._trial.routes, captured_on)
        row = self._bench.row(plan)
        first = itertools.accumulate((each.n_ranks for each in workloads), initial=0)
        judged = [
            Replayed(
                first_rank,
                self._folder / each.folder,
                each.time,
                self._captured(live.folder) if source == target else (),
                tuple(dict.fromkeys((*live.doubts, *each.doubts))),
            )
            for first_rank, live, each in zip(first, lives, trained, strict=False)
        ]
        assert row.folder
        rows = compared(row, plan, judged, lives[0].fabric)
        shutil.rmtree(Path(row.folder) / CAPTURES, ignore_errors=True)  # gigabytes that nothing reads
        folder = below(self._folder, Path(row.folder))
        return tuple(
            judged_by_computing(replace(row, folder=folder), live.computed_s, each.computed_s)
            for row, live, each in zip(rows, lives, trained, strict=True)
        )

    def _drawn_as(self, captured: str, trained: str) -> Workload:
        """The captured job, with what chance decided of the training.  Raise BadTrace, BadCapture."""
        draw = self._workload(trained)
        return self._workload(captured).model_copy(
            update={"connections": draw.connections, "late_ns": draw.late_ns}
        )

    def _workload(self, folder: str) -> Workload:
        """Raise BadTrace, BadCapture."""
        if folder not in self._workloads:
            job = find_job(open_trace([self._folder / folder]))
            self._workloads[folder] = workload_of(job)
            self._messages[folder] = captured_messages(job)
        return self._workloads[folder]

    def _captured(self, folder: str) -> Sequence[SentMessage]:
        """Raise BadTrace, BadCapture."""
        self._workload(folder)
        return self._messages[folder]


def _computed_alike(training: Training, captured: Live) -> bool:
    return computes_alike(captured.computed_s, training.computed_s, training.time)


def _middle_s(live: Live) -> float | None:
    """How long a job computes in an iteration, of all trainings as its time is."""
    known = [each.computed_s for each in live.trainings if each.computed_s is not None]
    return median(known) if known else None


def middle_row(rows: Sequence[TrustRow]) -> TrustRow:
    """The row whose error is the median, of those that count; of an even number, the one of the two middle
    rows that is further from 0.

    Rows that the machine disturbed do not count if there are others.  The row then has their `machine`, so
    that the same command tries it again.  Of the rest only those count that most agree with: the valid ones,
    or, if they are not more than half, those that are not.  A warning says which do not, with their errors,
    for these may well be the largest.
    """
    undisturbed = [row for row in rows if not row.machine] or rows
    n_valid = sum(row.is_valid for row in undisturbed)
    most_are_valid = 2 * n_valid > len(undisturbed)
    counted = sorted((row for row in undisturbed if row.is_valid == most_are_valid), key=_error)
    n = len(counted)
    middle = max(counted[(n - 1) // 2 : n // 2 + 1], key=lambda row: abs(_error(row)))
    left_out = [row for row in rows if row not in counted]
    if not left_out:
        return middle
    machine = middle.machine
    if len(undisturbed) < len(rows):
        machine = tuple(dict.fromkeys(why for row in rows for why in row.machine))
    others = "; ".join(
        f"{_error(row):+.1%}: {row.reasons[0] if row.reasons else 'valid'}" for row in left_out
    )
    warning = f"of {show_count(len(rows), 'replay')} {n} count, but not {others}"
    return replace(middle, machine=machine, warnings=(*middle.warnings, warning))


def _error(row: TrustRow) -> float:
    assert row.error is not None  # `compared` gives every row one
    return row.error


_ROWS = TypeAdapter(tuple[TrustRow, ...])
