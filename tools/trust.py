"""A job trained live on each fabric, captured there, and each capture replayed on each fabric.

The folder keeps everything, so that a matrix that was cut off goes on where it stopped:

    request.json         what was asked for; another request in the same folder is refused
    live/NN-FABRIC       the capture with the ranks' logs; NN-FABRIC.failed-K is what a failed job left,
                         NN-FABRIC.disturbed-K what was trained while other guests took the CPUs,
                         NN-FABRIC.again-K the same job trained once more, for its time alone;
                         jobs beside the first have folders of their own in it
    runs-K/              the replays' run folders, of the K-th attempt
    rows/NN-MM.json      capture NN on fabric MM, a row for each job, as soon as it is measured
    result.json          all of it, once it is whole
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from emu.capturing.request import Request
from emu.capturing.run import INTERRUPTED
from emu.disturbance import MAX_CPU_STOLEN
from emu.fabrics.fabric import Fabric
from emu.fabrics.figures import shortest_paths
from emu.fabrics.spec import parse_fabric
from emu.options import RunOptions
from emu.refused import Refused
from emu.result import REFUSED
from emu.runfiles import INCOMPLETE, read_json
from emu.watch import RunFailed
from tools.capturing import Captured, Keeping
from tools.capturing import carry_out as capture_live
from tools.joboptions import LiveJob
from tools.laboratory import Laboratory, file_name
from tools.trustreplay import Replayed, compared, plan_for
from tools.trustresult import Live, Matrix, TrustRow
from traces.fidelity import captured_messages
from traces.files import write_whole
from traces.groundtruth import BadLog, read_logs
from traces.iterationtimes import (
    FIRST_WARM,
    MIN_ITERATIONS,
    IterationTime,
    Starts,
    iteration_times_s,
    logged_starts,
    together,
)
from traces.opening import open_trace
from traces.packets.packets import BadCapture
from traces.recognition.ranks import BadTrace
from traces.recognition.recognise import Job, connections, find_job, workload_of

Tell = Callable[[str], None]
Capture = Callable[..., Captured]
LIVE_ATTEMPTS = 3  # where the machine's own host took its CPUs while the job ran
MAX_TRAININGS = 99
MAX_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Trial:
    """What is asked for.  `fabrics` are specs or files; replays take `routes` and run `repeats` times.

    A job is trained `trainings` times where hosts have one path to each other.  Elsewhere once: each training
    opens connections with other ports, by which ECMP chooses paths, and a replay has those of the first.
    """

    job: LiveJob
    fabrics: tuple[str, ...]
    routes: str = "ecmp"
    repeats: int = 3
    snaplen: int = 128
    trainings: int = 1

    def __post_init__(self) -> None:
        if len(set(self.fabrics)) < len(self.fabrics):
            raise ValueError("a fabric is named twice: each needs one --fabric only")
        for job in self.job.jobs:
            if job.is_built_in and job.iterations < MIN_ITERATIONS:
                raise ValueError(
                    f"{job.iterations} iterations are too few: the first {FIRST_WARM} are warm-up, "
                    f"so train for {MIN_ITERATIONS} or more"
                )

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]  # tuples become lists


def carry_out(
    trial: Trial, folder: Path, quiet: bool, capture: Capture = capture_live, laboratory: Any = Laboratory
) -> Matrix:
    """Train, capture, replay; a job or a replay that fails becomes a row, and the others go on.

    Raise ValueError for a folder that holds another matrix, KeyboardInterrupt after an interrupted job.
    """
    _claim(folder, trial)
    n_fabrics = len(trial.fabrics)
    request = trial.job.request(trial.fabrics[0])
    with _bar(n_fabrics + n_fabrics**2, quiet) as (tell, advance):
        lives = []
        for number, spec in enumerate(trial.fabrics, start=1):
            lives.append(_live(trial, number, spec, folder, capture, tell))
            advance()
        cells = _Cells(
            trial, folder, lives, laboratory(_attempt(folder, "runs"), RunOptions(trial.repeats), tell)
        )
        made = []
        for source, target in itertools.product(range(n_fabrics), repeat=2):
            made.append(cells.rows(source, target))
            advance()
    numbers = range(len(request.jobs))
    return Matrix(
        request.job,
        request.n_ranks,
        trial.routes,
        trial.snaplen,
        live=tuple(each[number] for number in numbers for each in lives),
        rows=tuple(each[number] for number in numbers for each in made),
        beside=tuple(one.name for one in request.beside),
    )


def _claim(folder: Path, trial: Trial) -> None:
    """The folder is this matrix's from now on, or has been before."""
    path = folder / "request.json"
    wanted = trial.to_json()
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} holds something else; choose another folder with --out")
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(wanted, indent=1) + "\n")
        return
    had = read_json(path, TypeAdapter(dict[str, Any]))
    if different := [name for name in wanted if had.get(name) != wanted[name]]:
        raise ValueError(
            f"{folder} holds a matrix of another request ({', '.join(different)}); choose another folder"
        )


@contextmanager
def _bar(total: int, quiet: bool) -> Iterator[tuple[Tell, Callable[[], None]]]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task("starting", total=total)
        yield (lambda text: progress.update(task, description=text)), (lambda: progress.advance(task))


def _attempt(folder: Path, name: str) -> Path:
    """`NAME-K`, the first that is not there yet."""
    for number in range(1, MAX_ATTEMPTS):
        path = folder / f"{name}-{number}"
        if not path.exists():
            return path
    raise ValueError(f"{folder}: {MAX_ATTEMPTS} attempts are enough; choose another folder")


def _live(
    trial: Trial, number: int, spec: str, folder: Path, capture: Capture, tell: Tell
) -> tuple[Live, ...]:
    """Train on a fabric as often as is asked for."""
    fabric, request = parse_fabric(spec), trial.job.request(spec)
    place = folder / "live" / f"{number:02d}-{file_name(fabric.spec)}"
    n_trainings = trial.trainings if shortest_paths(fabric)[0] in {(), (1,)} else 1
    places = [place, *(place.with_name(f"{place.name}.again-{k}") for k in range(1, n_trainings))]
    for k, each in enumerate(places, start=1):
        tell(f"training live on {spec}" + (f", {k} of {n_trainings}" if n_trainings > 1 else ""))
        if failed := _trained(trial, number, fabric, request, each, capture):
            left, why = failed
            return tuple(
                Live(fabric.spec, _below(folder, part), failure=why, job=job)
                for job, (_, part) in enumerate(request.parts(left))
            )
    return tuple(_logged(request, places, fabric, folder))


def _trained(
    trial: Trial, number: int, fabric: Fabric, request: Request, place: Path, capture: Capture
) -> tuple[Path, str] | None:
    """Train unless that has been done, and again where the machine was disturbed; what earlier attempts left
    is kept.  If the job failed, what it left and why.
    """
    for _ in range(LIVE_ATTEMPTS):
        if place.exists():
            if not _disturbed(place):
                break
            place.rename(_attempt(place.parent, f"{place.name}.disturbed"))
            _forget_rows(place.parent.parent, number)
        work = place.with_name(place.name + INCOMPLETE)
        if work.exists():
            work.rename(_attempt(place.parent, f"{place.name}.failed"))
        try:
            keeping = Keeping(place.absolute(), trial.snaplen, keeps_payload=False)
            captured = capture(request, fabric, keeping, sys.argv[1:], quiet=True)
        except RunFailed as error:
            return work, str(error)
        if captured.cut_short == INTERRUPTED:
            raise KeyboardInterrupt
        if captured.cut_short is not None:
            return captured.folder, captured.cut_short
    return None


def _forget_rows(folder: Path, number: int) -> None:
    """Of the live job on this fabric, which is trained again: as a capture, and as what to compare with."""
    for pattern in (f"{number:02d}-*.json", f"*-{number:02d}.json"):
        for path in (folder / "rows").glob(pattern):
            path.unlink()


def _below(folder: Path, path: Path) -> str:
    return str(path.absolute().relative_to(folder.absolute()))


def _logged(request: Request, places: Sequence[Path], fabric: Fabric, folder: Path) -> Iterator[Live]:
    """What the logs of finished trainings say, of each job while all of them train.  The first is the capture
    that is replayed; of the others those count that nothing disturbed.
    """
    counted = [place for place in places if place == places[0] or not _disturbed(place)]
    trainings = [[part for _, part in request.parts(place)] for place in counted]
    parts = trainings[0]
    by_training: list[list[tuple[float, ...]]] = []
    try:
        for of_jobs in trainings:
            starts: list[Starts] = [logged_starts(read_logs(part)) for part in of_jobs]
            by_training.append([iteration_times_s(each, FIRST_WARM) for each in together(starts)])
    except (BadLog, OSError, ValueError) as error:
        for job, part in enumerate(parts):
            yield Live(fabric.spec, _below(folder, part), failure=str(error), job=job)
        return
    for job, part in enumerate(parts):
        name, times_s = _below(folder, part), [of_jobs[job] for of_jobs in by_training]
        if all(times_s):
            yield Live(
                fabric.spec,
                name,
                IterationTime.of(list(itertools.chain(*times_s))),
                doubts=(*_misread(part), *_disturbed(part)),
                job=job,
                each_s=tuple(median(each) for each in times_s),
            )
            continue
        why = (
            f"fewer than {FIRST_WARM + 2} iterations (events iter0)"
            if starts[job]
            else "no events iter0 in a log.rN.json"
        )
        why += ", or none while the other job trained" if len(parts) > 1 else ""
        yield Live(fabric.spec, name, failure=f"the logs give no iteration time: {why}", job=job)


def _misread(place: Path) -> Iterator[str]:
    """Why the capture's own check says that it cannot be relied on."""
    manifest = _manifest(place)
    for name, which in (("check", "the capture"), ("check_trimmed", "the trimmed capture")):
        check = manifest.get(name)
        if isinstance(check, dict) and check.get("agrees") is False:
            differences = check.get("differences") or [check.get("why")]
            yield f"{which} is not what the job logged: {differences[0]}"
            return


def _disturbed(place: Path) -> tuple[str, ...]:
    """Why the job's times are not the fabric's alone."""
    stolen = _manifest(place).get("cpu_stolen", 0.0)
    if stolen <= MAX_CPU_STOLEN:
        return ()
    return (f"while the job trained live, {stolen:.0%} of the CPUs went to other guests: try later",)


def _manifest(place: Path) -> dict[str, Any]:
    return read_json(place / "manifest.json", TypeAdapter(dict[str, Any]))


class _Cells:
    """Each capture on each fabric; captures that were read stay, as each is needed several times."""

    def __init__(
        self, trial: Trial, folder: Path, lives: Sequence[tuple[Live, ...]], bench: Laboratory
    ) -> None:
        self._trial, self._folder, self._lives, self._bench = trial, folder, lives, bench
        self._read: dict[str, Job] = {}

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
            made = self._measured(source, target)
        except (BadTrace, BadCapture, BadLog, Refused, RunFailed, ValueError) as error:
            return refused(str(error))
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps([asdict(row) for row in made], indent=1) + "\n")
        return made

    def _measured(self, source: int, target: int) -> tuple[TrustRow, ...]:
        """ECMP chooses by the ports that the jobs' connections had when they were trained on `target`: with
        those of another run other flows meet, which can double a time and says nothing about the replay.
        """
        lives, there = self._lives[source], self._lives[target]
        jobs = [self._job(live) for live in lives]
        workloads = [
            workload_of(job).model_copy(update={"connections": connections(self._job(live).trace)})
            for job, live in zip(jobs, there, strict=True)
        ]
        fabric = parse_fabric(self._trial.fabrics[target])
        captured_on = parse_fabric(self._trial.fabrics[source])
        plan = plan_for(workloads, fabric, lives[0].folder, self._trial.routes, captured_on)
        row = self._bench.row(plan)
        first = itertools.accumulate((each.n_ranks for each in workloads), initial=0)
        judged = [
            Replayed(
                first_rank,
                self._folder / other.folder,
                other.time,
                captured_messages(job) if source == target else (),
                tuple(dict.fromkeys((*live.doubts, *other.doubts))),
            )
            for first_rank, job, live, other in zip(first, jobs, lives, there, strict=False)
            if other.time
        ]
        assert row.folder
        folder = _below(self._folder, Path(row.folder))
        return tuple(replace(each, folder=folder) for each in compared(row, plan, judged, lives[0].fabric))

    def _job(self, live: Live) -> Job:
        """Raise BadTrace, BadCapture."""
        if live.folder not in self._read:
            self._read[live.folder] = find_job(open_trace([self._folder / live.folder]))
        return self._read[live.folder]


_ROWS = TypeAdapter(tuple[TrustRow, ...])
