"""The job's processes: starts them on their hosts, waits, and ends them if one fails or time is up."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gradwire.emu.capturing import hosts
from gradwire.emu.capturing.request import BESIDE, CaptureRequest
from gradwire.emu.interpreter import python
from gradwire.emu.watch import ChildProcess, Watch, how_it_ended, running
from gradwire.planning.fabrics.fabric import HOST_PORT, Fabric, interface

IMPORT_S = 180.0
_GRACE_S = 5.0  # between a rank's failure, or being asked to end, and being made to
_TICK_S = 0.5

Heard = Callable[[str], None]


@dataclass
class RankProcesses:
    """`processes` by name, with where each writes; `lines` reports progress, if anything does.
    `others` are the progress lines of jobs beside it, which are read and ignored.
    """

    processes: dict[str, "subprocess.Popen[Any]"]
    outputs: dict[str, Path]
    lines: IO[str] | None = None
    others: tuple[IO[str], ...] = ()

    def with_beside(self, jobs: Sequence["RankProcesses"]) -> "RankProcesses":
        """All jobs as one, which ends with the last of them and is cut short with any of them."""
        joined = RankProcesses(dict(self.processes), dict(self.outputs), self.lines)
        for number, job in enumerate(jobs, start=1):
            joined.processes |= {f"{BESIDE}-{number}: {name}": each for name, each in job.processes.items()}
            joined.outputs |= {f"{BESIDE}-{number}: {name}": path for name, path in job.outputs.items()}
            joined.others += (job.lines,) if job.lines else ()
        return joined

    def follow(self, watch: Watch, stop: IO[str], limit_s: float, heard: Heard) -> str | None:
        """Wait for the end of all.  None if all went well, else in a line why the job was cut short.

        `stop` can be read when somebody wants the end.  Raises RunFailed as `watch` does.
        """
        deadline = time.monotonic() + limit_s
        readers = [stop, *([self.lines] if self.lines else []), *self.others]
        while True:
            for reader in watch.wait(readers, _TICK_S):
                line = reader.readline()
                if reader is stop:
                    return self._cut("interrupted")
                if line and reader is self.lines:
                    heard(line.strip())
                elif not line:
                    readers.remove(reader)
            codes = {name: process.poll() for name, process in self.processes.items()}
            if failed := [name for name, code in codes.items() if code]:
                return self._cut(self._failure(failed[0]))
            if all(code == 0 for code in codes.values()):
                return None
            if time.monotonic() > deadline:
                return self._cut(f"it had not ended after {limit_s:g} s (--limit)")

    def _failure(self, name: str) -> str:
        how = how_it_ended(self.processes[name].returncode)
        said = self.outputs[name].read_text(errors="replace").strip().splitlines()
        return f"{name} {how}" + (f": {said[-1][:300]}" if said else "")

    def _cut(self, why: str) -> str:
        """Ask all that still run to end, and make them."""
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            _signal(process, signal.SIGKILL)
        return why


def _signal(process: "subprocess.Popen[Any]", number: signal.Signals) -> None:
    """To all of its session: a launcher's children too."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def launcher(request: CaptureRequest, folder: Path) -> Iterator[ChildProcess | None]:
    """The process of a built-in job, which imports PyTorch while the network is built; else None."""
    if request.training is None:
        yield None
        return
    command = python("gradwire.emu.training", str(folder))
    with running("the training job", command, folder / "job.log") as child:
        yield child


@contextmanager
def begun(
    request: CaptureRequest,
    fabric: Fabric,
    pid_of: Mapping[str, int],
    folder: Path,
    child: ChildProcess | None,
) -> Iterator[RankProcesses]:
    """Start the job on its hosts of the fabric; its processes end at the latest with this context."""
    used = request.hosts(fabric)
    with ExitStack() as stack:
        if child:
            child.tell(_settings(request, fabric, pid_of))
            yield RankProcesses({child.name: child.process}, {child.name: child.log}, child.process.stdout)
            return
        if request.once:
            starts = {
                "the command": (
                    used[0],
                    hosts.once_environment(fabric, used, folder, os.environ),
                )
            }
        else:
            starts = {
                f"rank {rank}'s command": (
                    used[rank],
                    hosts.rank_environment(fabric, used, rank, folder, os.environ),
                )
                for rank in range(request.n_ranks)
            }
        job = RankProcesses({}, {})
        stack.callback(_end_all, job)
        for number, (name, (host, environment)) in enumerate(starts.items()):
            output = folder / ("out.txt" if request.once else f"out.r{number}.txt")
            with output.open("wb") as file:
                job.outputs[name] = output
                job.processes[name] = subprocess.Popen(
                    hosts.on_host(host, pid_of[host], request.command),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
        yield job


def _settings(request: CaptureRequest, fabric: Fabric, pid_of: Mapping[str, int]) -> str:
    assert request.training
    used = request.hosts(fabric)
    ranks = [{"pid": pid_of[host], "interface": interface(host, HOST_PORT)} for host in used]
    settings = {"ranks": ranks, "address": fabric.ip(used[0]), "options": request.training.to_json()}
    return json.dumps(settings)


def _end_all(job: RankProcesses) -> None:
    for process in job.processes.values():
        _signal(process, signal.SIGKILL)
        process.wait()
