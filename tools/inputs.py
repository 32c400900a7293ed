"""What a command is given as its job: captures, a workload file or a plan file."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from controller.model.predict import predict
from emu import plan as plans
from emu.plan import Plan
from traces import workload as workloads
from traces.workload import Workload

HEAD_NBYTES = 4096


def read_job(paths: Sequence[Path], ranks: Path | None = None) -> Workload | Plan:
    """A plan or a workload, whichever the paths hold.

    Raise BadPlan, BadWorkload, BadCapture or BadTrace for what cannot be used, OSError for what cannot
    be read.
    """
    if len(paths) == 1 and paths[0].suffix == ".json" and paths[0].is_file():
        if ranks is not None:
            raise ValueError(f"--ranks is for captures; {paths[0]} tells its ranks itself")
        (path,) = paths
        return _plan(path) if _schema(path).startswith("gradwire.plan/") else workloads.load(path)
    from traces.opening import open_trace
    from traces.recognition.recognise import recognise  # the reader of captures takes a while to import

    return recognise(open_trace(paths, ranks))


def _plan(path: Path) -> Plan:
    """With its prediction worked out again: a figure from a file is nothing to measure against."""
    plan = plans.load(path)
    prediction = predict(plan.fabric, plan.placement, plan.flows, plan.schedule, plan.trees)
    return replace(plan, prediction=prediction)


def _schema(path: Path) -> str:
    """What a JSON file says at its beginning that it is; empty if it says nothing there."""
    with path.open("rb") as file:
        found = re.search(rb'"schema"\s*:\s*"([^"]*)"', file.read(HEAD_NBYTES))
    return found[1].decode(errors="replace") if found else ""


def read_workload_only(paths: Sequence[Path], ranks: Path | None = None) -> Workload:
    """Like `read_job`, for commands to which a plan says too much: raise ValueError for one."""
    job = read_job(paths, ranks)
    if isinstance(job, Plan):
        raise ValueError(
            f"{paths[0]} is a plan, with its fabric and routes chosen; give captures or a workload"
        )
    return job


def read_beside(paths: Sequence[Path] | None) -> tuple[Workload, ...]:
    """The jobs that share the fabric, one for each path; raise as `read_job` does."""
    return tuple(read_workload_only([path]) for path in paths or ())


def source_of(paths: Sequence[Path]) -> str:
    """The paths as a plan records where its job came from."""
    return " ".join(map(str, paths))
