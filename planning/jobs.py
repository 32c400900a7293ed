"""Reads a job: from captures, a workload file or a plan file.  An edge module: it reads files."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gradwire.planning import plan as plans
from gradwire.planning.capturefabric import capture_fabric, had_company, hosts_by_rank
from gradwire.planning.experiment import Original
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.model.predict import predict
from gradwire.planning.plan import Plan
from gradwire.traces import workload as workloads
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.trace import CaptureFile
from gradwire.traces.workload import Workload

HEAD_NBYTES = 4096
STDIN = Path("/dev/stdin")


def read_job(paths: Sequence[Path], ranks: Path | None = None) -> Workload | Plan:
    """A plan or a workload, whichever the paths hold.

    Raise BadPlan, BadWorkload, BadCapture or BadTrace for what cannot be used, OSError for what cannot
    be read.
    """
    if not is_captures(paths):
        if ranks is not None:
            raise ValueError(f"--rank-map is for captures; {paths[0]} already says which rank is which")
        (path,) = paths
        return read_plan(path) if _schema(path).startswith("gradwire.plan/") else workloads.load(path)
    return read_captured(paths, ranks)[0]


def read_captured(paths: Sequence[Path], ranks: Path | None = None) -> tuple[Workload, Original | None]:
    """The workload of captures, and the job as it was captured if `capture` made them.

    Raise BadCapture, BadTrace, OSError.
    """
    from gradwire.traces.fidelity import captured_messages  # the reader of captures takes a while to import
    from gradwire.traces.reader import open_trace
    from gradwire.traces.recognition.recognise import find_job, workload_of

    job = find_job(open_trace(paths, ranks))
    fabric_and_hosts = _made_by_capture(paths, job.trace.files)
    original = Original(*fabric_and_hosts, captured_messages(job)) if fabric_and_hosts else None
    return workload_of(job), original


def is_captures(paths: Sequence[Path]) -> bool:
    """Whether the paths are captures: anything but one JSON file, which is a workload or a plan."""
    return not (len(paths) == 1 and paths[0].is_file() and _is_json(paths[0]))


def _is_json(path: Path) -> bool:
    """By its name, or by how it begins if it has none."""
    if path != STDIN:
        return path.suffix == ".json"
    with path.open("rb") as file:
        return file.read(HEAD_NBYTES).lstrip().startswith(b"{")


def _made_by_capture(
    paths: Sequence[Path], files: Sequence[CaptureFile]
) -> tuple[Fabric, tuple[str, ...]] | None:
    """The fabric and the hosts by rank, by the manifest of the one folder that the paths are; None without
    one that can be used, or if the job shared its links: alone it is another.
    """
    if len(paths) > 1 or not paths[0].is_dir():
        return None
    try:
        fabric, hosts = capture_fabric(paths, files), hosts_by_rank(paths)
    except ValueError:
        return None
    return None if fabric is None or hosts is None or had_company(paths) else (fabric, hosts)


def read_plan(path: Path) -> Plan:
    """A plan file, with its prediction worked out again: one from a file is nothing to measure against.

    Raise BadPlan for a file that is not a plan, or whose sends do not do what it says; OSError.
    """
    plan = plans.load(path)
    try:
        check_correct(plan.schedule)
    except ValueError as error:
        raise plans.BadPlan(f"{path}: {error}") from error
    prediction = predict(plan.fabric, plan.placement, plan.flows, plan.schedule, plan.trees)
    return replace(plan, prediction=prediction)


def _schema(path: Path) -> str:
    """What a JSON file says at its beginning that it is; empty if it says nothing there."""
    with path.open("rb") as file:
        match = re.search(rb'"schema"\s*:\s*"([^"]*)"', file.read(HEAD_NBYTES))
    return match[1].decode(errors="replace") if match else ""


def read_workload_only(paths: Sequence[Path], ranks: Path | None = None) -> Workload:
    """Like `read_job`, for commands to which a plan says too much: raise ValueError for one."""
    job = read_job(paths, ranks)
    if isinstance(job, Plan):
        raise ValueError(
            f"{paths[0]} is a plan, which already fixes fabric and routes; give captures or a workload"
        )
    return job


def read_beside(paths: Sequence[Path] | None) -> tuple[Workload, ...]:
    """The jobs that share the fabric, one for each path; raise as `read_job` does."""
    return tuple(read_workload_only([path]) for path in paths or ())


def source_of(paths: Sequence[Path]) -> str:
    """The paths as a plan records where its job came from."""
    return " ".join(map(str, paths))
