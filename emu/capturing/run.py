"""A capture, seen from outside its namespaces: the session, and how Ctrl-C ends it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.lifecycle import Progress, follow, session
from gradwire.emu.network.tcpdump import WRITE_S
from gradwire.emu.otherprograms import Use
from gradwire.emu.sampler import Machine, cpu_idle, cpu_stolen, machine

_AROUND_S = 300.0  # what building the network, importing PyTorch and ending may take beside the job
_ASKED_TO_END_S = 15.0


@dataclass(frozen=True, slots=True)
class Ran:
    """Why a job was cut short, None if it was not; while it ran, the shares of the CPUs that were idle, that
    the machine's own host gave to others, and that programs beside the capture had, 0 to 1; None if unknown.
    `programs` are those with most of that.  `interrupted`: by Ctrl-C, which cuts nothing short if the job is
    over.
    """

    cut_short: str | None
    cpu_idle: float
    cpu_stolen: float
    cpu_beside: float | None
    programs: tuple[Use, ...] = ()
    interrupted: bool = False


def capture(request: CaptureRequest, folder: Path, progress: Progress) -> Ran:
    """Leave the captures in `folder`.

    A Ctrl-C ends the job, and what it has sent until then is kept.  If the job is already over, its captures
    are still written.  A second one takes everything down at once, as the first does before the job runs:
    then there is nothing worth keeping.  Raises RunFailed, KeyboardInterrupt.
    """
    machine_at: dict[str, tuple[Machine, Mapping[str, Any]]] = {}  # and what else was said then
    ended: dict[str, Any] = {}
    interrupted = False

    def noted(phase: str, more: dict[str, Any]) -> None:
        if phase in ("job", "over"):
            machine_at[phase] = machine(), more
        if phase == "ended":
            ended.update(more)
        else:
            progress(phase, more)

    request.save(folder)
    with session("the capture", "gradwire.emu.capturing.session", folder) as child:
        try:
            follow(child, request.limit_s + _AROUND_S, noted)
        except KeyboardInterrupt:
            if "job" not in machine_at or ended:
                raise
            interrupted = True
            is_over = "over" in machine_at
            progress("writing" if is_over else "ending", {})
            if not is_over:
                child.tell("stop")
            write_s = 2 * WRITE_S * len(request.jobs)  # two of each host, those of one job after the other's
            follow(child, _ASKED_TO_END_S + write_s, noted)
            if not ended:
                raise
    if "over" not in machine_at:
        raise KeyboardInterrupt  # while that was noted
    (before, _), (after, said) = machine_at["job"], machine_at["over"]
    programs = tuple(Use(*each) for each in said["programs"])
    idle, stolen = cpu_idle(before, after), cpu_stolen(before, after)
    return Ran(ended["cut_short"], idle, stolen, said["cpu_beside"], programs, interrupted)
