"""Trains and captures a job on a fabric, as often as asked: its captures, and its time from the logs.

`live/NN-FABRIC` is a training, NN-FABRIC.again-K the same once more; NN-FABRIC.failed-K is what one that
failed left, NN-FABRIC.disturbed-K one during which other guests or programs had the CPUs.  Jobs beside the
first have folders of their own in each.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import TypeAdapter

from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.disturbance import MAX_CPU_BESIDE, MAX_CPU_STOLEN, beside_words
from gradwire.emu.watch import RunFailed
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.runfiles import INCOMPLETE, read_json
from gradwire.results.laboratory import file_name
from gradwire.results.trustresult import Live, Training
from gradwire.tools.capturing import Captured, Keeping
from gradwire.tools.options.livejob import LiveJob
from gradwire.traces.groundtruth import BadLog, computed_s, read_logs
from gradwire.traces.iterationtimes import (
    FIRST_WARM,
    IterationTime,
    Starts,
    iteration_times_s,
    logged_starts,
    together,
)

Capture = Callable[..., Captured]
LIVE_ATTEMPTS = 3  # where other guests or programs had the CPUs while the job ran
MAX_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trains `job` in the folder of a matrix, `trainings` times on each fabric.

    `forget` is called with the number of a fabric on which the job is trained, again or once more than in an
    older folder, for all that was measured without that training.
    """

    job: LiveJob
    folder: Path
    trainings: int
    snaplen: int
    capture: Capture
    tell: Callable[[str], None]
    forget: Callable[[int], None]

    def on(self, number: int, spec: str) -> tuple[Live, ...]:
        """Train on fabric `number`, unless that has been done.  Raise KeyboardInterrupt if interrupted."""
        fabric, request = parse_fabric(spec), self.job.request(spec)
        place = self.folder / "live" / f"{number:02d}-{file_name(fabric.spec)}"
        places = [place, *(place.with_name(f"{place.name}.again-{k}") for k in range(1, self.trainings))]
        for k, each in enumerate(places, start=1):
            self.tell(f"training live on {spec}" + (f", {k} of {len(places)}" if len(places) > 1 else ""))
            if failed := self._trained(number, fabric, request, each):
                left, why = failed
                return tuple(
                    Live(fabric.spec, below(self.folder, part), failure=why, job=job)
                    for job, (_, part) in enumerate(request.parts(left))
                )
        return tuple(_logged(request, places, fabric, self.folder))

    def _trained(
        self, number: int, fabric: Fabric, request: CaptureRequest, place: Path
    ) -> tuple[Path, str] | None:
        """Train unless that has been done, and again where the machine was disturbed; what earlier attempts
        left is kept.  If the job failed, what it left and why.
        """
        for _ in range(LIVE_ATTEMPTS):
            if place.exists():
                if not (why := _disturbed(place)):
                    break
                self.tell(f"training live again on {fabric.spec}: {why[0]}")
                place.rename(attempt(place.parent, f"{place.name}.disturbed"))
            work = place.with_name(place.name + INCOMPLETE)
            if work.exists():
                work.rename(attempt(place.parent, f"{place.name}.failed"))
            self.forget(number)
            try:
                keeping = Keeping(place.absolute(), self.snaplen, keeps_payload=False)
                captured = self.capture(request, fabric, keeping, sys.argv[1:], quiet=True)
            except RunFailed as error:
                return work, str(error)
            if captured.interrupted:
                raise KeyboardInterrupt
            if captured.cut_short is not None:
                return captured.folder, captured.cut_short
        return None


def attempt(folder: Path, name: str) -> Path:
    """`NAME-K`, the first that is not there yet."""
    for number in range(1, MAX_ATTEMPTS):
        path = folder / f"{name}-{number}"
        if not path.exists():
            return path
    raise ValueError(f"{folder} already has {MAX_ATTEMPTS - 1} attempts; choose another folder")


def below(folder: Path, path: Path) -> str:
    return str(path.absolute().relative_to(folder.absolute()))


def _logged(request: CaptureRequest, places: Sequence[Path], fabric: Fabric, folder: Path) -> Iterator[Live]:
    """What the logs of finished trainings say, of each job while all of them train.  Those count that
    nothing disturbed, and of these the middle one's capture is replayed.
    """
    counted = [place for place in places if not _disturbed(place)] or list(places[:1])
    trainings = [[part for _, part in request.parts(place)] for place in counted]
    by_training: list[list[tuple[float, ...]]] = []
    by_starts: list[list[Starts]] = []
    waited: list[list[float]] = [[] for _ in trainings[0]]
    computed: list[list[float | None]] = []
    try:
        for folders in trainings:
            logs = [read_logs(part) for part in folders]
            by_starts.append([logged_starts(each) for each in logs])
            for of_job, each in zip(waited, logs, strict=True):
                of_job += [log.waited for log in each if log.waited is not None]
            computed.append([computed_s(each) for each in logs])
            by_training.append([iteration_times_s(each, FIRST_WARM) for each in together(by_starts[-1])])
    except (BadLog, OSError, ValueError) as error:
        for job, part in enumerate(trainings[0]):
            yield Live(fabric.spec, below(folder, part), failure=str(error), job=job)
        return
    middle = middle_training(by_training)
    parts = trainings[middle]
    for job, part in enumerate(parts):
        name, times_s = below(folder, part), [times[job] for times in by_training]
        if all(times_s):
            yield Live(
                fabric.spec,
                name,
                IterationTime.of(list(itertools.chain(*times_s))),
                doubts=_doubts(part),
                job=job,
                trainings=tuple(
                    Training(
                        below(folder, of_training[job]),
                        IterationTime.of(each),
                        _doubts(of_training[job]),
                        ranks_s[job],
                    )
                    for of_training, each, ranks_s in zip(trainings, times_s, computed, strict=True)
                ),
                waited=fmean(waited[job]) if waited[job] else None,
                computed_s=computed[middle][job],
            )
            continue
        why = (
            f"fewer than {FIRST_WARM + 2} iterations (events iter0)"
            if all(starts[job] for starts in by_starts)
            else "no events iter0 in a log.rN.json"
        )
        why += ", or none while the other job trained" if len(parts) > 1 else ""
        yield Live(fabric.spec, name, failure=f"the logs give no iteration time: {why}", job=job)


def middle_training(by_training: Sequence[Sequence[tuple[float, ...]]]) -> int:
    """The training whose median iteration is nearest to the middle one, by its job that is furthest off; the
    first of those that are as near.
    """
    if any(min(times_s, default=0.0) <= 0 for times in by_training for times_s in times):
        return 0
    each_s = [[median(times_s) for times_s in times] for times in by_training]
    middle_s = [median(of_job) for of_job in zip(*each_s, strict=True)]

    def off(number: int) -> float:
        pairs = zip(each_s[number], middle_s, strict=True)
        return float(max(abs(one_s - of_all_s) / of_all_s for one_s, of_all_s in pairs))

    return min(range(len(by_training)), key=lambda number: round(off(number), 6))


def _doubts(place: Path) -> tuple[str, ...]:
    return (*_misread(place), *_disturbed(place))


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
    manifest = _manifest(place)
    stolen, beside = manifest.get("cpu_stolen", 0.0), manifest.get("cpu_beside") or 0.0
    if stolen > MAX_CPU_STOLEN:
        return (f"while the job trained live, {stolen:.0%} of the CPUs went to other guests: try later",)
    if beside > MAX_CPU_BESIDE:
        who = beside_words(beside, manifest.get("programs_beside", {}))
        return (f"while the job trained live, {who}: stop them",)
    return ()


def _manifest(place: Path) -> dict[str, Any]:
    return read_json(place / "manifest.json", TypeAdapter(dict[str, Any]))
