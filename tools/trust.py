"""A job trained live on each fabric, captured there, and each capture replayed on each fabric.

The folder keeps everything, so that a matrix that was cut off goes on where it stopped:

    request.json         what was asked for; another request in the same folder is refused
    live/NN-FABRIC       the capture with the ranks' logs; NN-FABRIC.failed-K is what a failed job left
    runs-K/              the replays' run folders, of the K-th attempt
    rows/NN-MM.json      the row of capture NN on fabric MM, as soon as it is measured
    result.json          all of it, once it is whole
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from emu.capturing.run import INTERRUPTED
from emu.fabrics.fabric import Fabric
from emu.fabrics.spec import parse_fabric
from emu.options import RunOptions
from emu.plan import Plan
from emu.records import load_repeats
from emu.refused import Refused
from emu.replayedmessages import replayed_messages
from emu.result import REFUSED, Row
from emu.runfiles import INCOMPLETE, read_json
from emu.watch import RunFailed
from tools.capturing import Captured, Keeping
from tools.capturing import carry_out as capture_live
from tools.experiment import Cell, Job, plan_of
from tools.joboptions import LiveJob
from tools.laboratory import Laboratory, file_name
from tools.trustresult import Live, Matrix, TrustRow
from traces.fidelity import SentMessage, captured_messages, fidelity, message_starts
from traces.files import write_whole
from traces.groundtruth import BadLog, read_logs
from traces.iterationtimes import (
    FIRST_WARM,
    MIN_ITERATIONS,
    IterationTime,
    iteration_times_s,
    logged_starts,
)
from traces.opening import open_trace
from traces.packets.packets import BadCapture
from traces.recognition.ranks import BadTrace
from traces.recognition.recognise import find_job, workload_of
from traces.schedules.expand import AS_CAPTURED
from traces.workload import Workload

Tell = Callable[[str], None]
Capture = Callable[..., Captured]
MAX_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Trial:
    """What is asked for.  `fabrics` are specs or files; replays take `routes` and run `repeats` times."""

    job: LiveJob
    fabrics: tuple[str, ...]
    routes: str = "ecmp"
    repeats: int = 3
    snaplen: int = 128

    def __post_init__(self) -> None:
        if len(set(self.fabrics)) < len(self.fabrics):
            raise ValueError("a fabric is named twice: each needs one --fabric only")
        if self.job.is_built_in and self.job.iterations < MIN_ITERATIONS:
            raise ValueError(
                f"{self.job.iterations} iterations are too few: the first {FIRST_WARM} are warm-up, "
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
    with _bar(n_fabrics + n_fabrics**2, quiet) as (tell, advance):
        lives = []
        for number, spec in enumerate(trial.fabrics, start=1):
            tell(f"training live on {spec}")
            lives.append(_live(trial, number, spec, folder, capture))
            advance()
        bench = laboratory(_attempt(folder, "runs"), RunOptions(trial.repeats), tell)
        rows = []
        for source, target in itertools.product(range(n_fabrics), repeat=2):
            rows.append(_row(trial, source, target, lives, folder, bench))
            advance()
    request = trial.job.request(trial.fabrics[0])
    return Matrix(request.job, request.n_ranks, trial.routes, trial.snaplen, tuple(lives), tuple(rows))


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


def _live(trial: Trial, number: int, spec: str, folder: Path, capture: Capture) -> Live:
    """Train on a fabric unless that has been done; what an earlier failed attempt left is kept."""
    fabric = parse_fabric(spec)
    place = folder / "live" / f"{number:02d}-{file_name(fabric.spec)}"
    if not place.exists():
        work = place.with_name(place.name + INCOMPLETE)
        if work.exists():
            work.rename(_attempt(place.parent, f"{place.name}.failed"))
        try:
            keeping = Keeping(place.absolute(), trial.snaplen, keeps_payload=False)
            captured = capture(trial.job.request(spec), fabric, keeping, sys.argv[1:], quiet=True)
        except RunFailed as error:
            return Live(fabric.spec, _below(folder, work), failure=str(error))
        if captured.cut_short == INTERRUPTED:
            raise KeyboardInterrupt
        if captured.cut_short is not None:
            return Live(fabric.spec, _below(folder, captured.folder), failure=captured.cut_short)
    return _logged(place, fabric, _below(folder, place))


def _below(folder: Path, path: Path) -> str:
    return str(path.absolute().relative_to(folder.absolute()))


def _logged(place: Path, fabric: Fabric, name: str) -> Live:
    """What the logs of a finished capture say."""
    try:
        logs = read_logs(place)
        times_s = iteration_times_s(logged_starts(logs), FIRST_WARM)
    except (BadLog, OSError, ValueError) as error:
        return Live(fabric.spec, name, failure=str(error))
    if not times_s:
        why = "no log.rN.json" if not logs else f"fewer than {FIRST_WARM + 2} iterations (events iter0)"
        return Live(fabric.spec, name, failure=f"the logs give no iteration time: {why}")
    return Live(fabric.spec, name, IterationTime.of(times_s), unread=_unread(place / "manifest.json"))


def _unread(path: Path) -> str | None:
    """Why the capture's own check says that it cannot be relied on."""
    manifest = read_json(path, TypeAdapter(dict[str, Any]))
    for name, which in (("check", "the capture"), ("check_trimmed", "the trimmed capture")):
        check = manifest.get(name)
        if isinstance(check, dict) and check.get("agrees") is False:
            differences = check.get("differences") or [check.get("why")]
            return f"{which} is not what the job logged: {differences[0]}"
    return None


def _row(
    trial: Trial, source: int, target: int, lives: list[Live], folder: Path, bench: Laboratory
) -> TrustRow:
    """The capture from fabric `source` replayed on fabric `target`, unless that has been done."""
    live, there = lives[source], lives[target]
    path = folder / "rows" / f"{source + 1:02d}-{target + 1:02d}.json"
    if path.exists():
        return read_json(path, _ROW)

    def refused(why: str) -> TrustRow:
        return TrustRow(live.fabric, there.fabric, REFUSED, live=there.time, reasons=(why,))

    for each in (live, there):
        if each.failure is not None:
            return refused(f"no live job on {each.fabric}: {each.failure} (see {each.folder})")
    try:
        job = find_job(open_trace([folder / live.folder]))
        plan = _plan(trial, workload_of(job), parse_fabric(trial.fabrics[target]), live.folder)
        row = bench.row(plan)
        captured = captured_messages(job) if source == target else ()
        made = _compared(row, plan, live, there, folder, captured)
    except (BadTrace, BadCapture, Refused, RunFailed, ValueError) as error:
        return refused(str(error))
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(asdict(made), indent=1) + "\n")
    return made


_ROW = TypeAdapter(TrustRow)


def _plan(trial: Trial, workload: Workload, fabric: Fabric, source: str) -> Plan:
    warm = tuple(number for number in workload.iterations if number >= FIRST_WARM)
    if len(warm) < MIN_ITERATIONS - FIRST_WARM:
        raise ValueError(f"{len(warm)} iterations besides the warm-up were read in the capture, too few")
    cell = Cell(fabric, AS_CAPTURED, "linear", trial.routes)
    return plan_of(cell, Job(workload, source, iterations=warm))


def _compared(
    row: Row, plan: Plan, live: Live, there: Live, folder: Path, captured: Sequence[SentMessage]
) -> TrustRow:
    """Iteration by iteration, over the repeats that count; with `captured`, message by message too."""
    assert row.folder
    assert there.time
    work = Path(row.folder)
    repeats = load_repeats(work, plan)
    logged = logged_starts(read_logs(folder / there.folder))
    counted = [number for number, repeat in enumerate(repeats) if not repeat.disturbed] or range(len(repeats))
    messages = replayed_messages(work, plan, len(repeats))
    replayed = [messages[number] for number in counted]
    by_repeat = [iteration_times_s(message_starts(each, logged), FIRST_WARM) for each in replayed]
    if not all(by_repeat):
        raise ValueError("no rank whose log gives iterations sends anything in the replay")
    replay = IterationTime.of([time_s for times_s in by_repeat for time_s in times_s])
    iterations = {op.iteration for op in plan.schedule.ops if op.kind != "compute"}
    predicted_s = row.predicted_s / len(iterations) if row.predicted_s else None
    same = [message for message in captured if message.iteration in iterations]
    unread = (live.unread,) if live.unread else ()
    return TrustRow(
        captured_on=live.fabric,
        replayed_on=there.fabric,
        verdict="not valid" if unread else row.verdict,
        live=there.time,
        replay=replay,
        predicted_s=predicted_s,
        error=replay.median / there.time.median - 1,
        predicted_error=predicted_s / there.time.median - 1 if predicted_s else None,
        fidelity=median(fidelity(same, each).score for each in replayed) if same else None,
        repeats=row.repeats,
        repeat_s=tuple(median(times_s) for times_s in by_repeat),
        reasons=(*unread, *row.reasons),
        warnings=row.warnings,
        folder=_below(folder, work),
    )
