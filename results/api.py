"""gradwire in Python: what the commands inspect, extract, plan and audit find, as values and pandas frames.

Import these from `gradwire` itself; docs/api.md shows each.  None of them needs root, or sends anything.
What a file holds that cannot be used is refused by an exception whose text says which file, what is wrong
with it and what to do: `BadCapture`, `BadTrace` (captures that are not of one training job), `BadWorkload`,
`BadPlan`, `BadRun`; a choice that makes no sense by `Refused` or `ValueError`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from gradwire.planning import plan as plans
from gradwire.planning.capturefabric import capture_fabric, manifest_notes, rates_of
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import read_plan, read_workload_only, source_of
from gradwire.planning.model.loads import by_severity, plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.sentas import sent_as
from gradwire.results.comparison import ComparedCell, compared, named
from gradwire.results.plannedcells import PlannedFlow, PlannedLink, planned_flows, planned_link
from gradwire.results.resultfolder import load_results, load_several
from gradwire.results.runlist import ListedRun, listed_runs
from gradwire.results.runtables import Results, Run, load_run_tables
from gradwire.traces import workload as workloads
from gradwire.traces.analysis.analysis import Analysis, analyse_trace
from gradwire.traces.analysis.summary import sentences
from gradwire.traces.analysis.tables import frames
from gradwire.traces.dataframes import frame
from gradwire.traces.reader import open_captures, read_captures
from gradwire.traces.schedules.dtypes import DType
from gradwire.traces.schedules.names import Pace
from gradwire.traces.schedules.otherranks import other_job
from gradwire.traces.schedules.outbox import Order
from gradwire.traces.units import parse_bps, parse_nbytes
from gradwire.traces.workload import Workload

AnyPath = str | Path
PROTOCOLS = {6: "tcp", 17: "udp"}


def read_packets(*captures: AnyPath) -> pd.DataFrame:
    """The packets of capture files, or of folders of them: a row each, in the order of the files.

    A packet that was captured at both of its hosts is there twice, once for each `file`.  Columns: `file`,
    `time` (UTC, by the clock of the machine that captured it), `protocol` ("tcp", "udp", else ""), `src`,
    `sport`, `dst`, `dport`, `flags`, `seq`, `ack` and `window` as in the TCP header, `payload_nbytes` above
    TCP or UDP, and `wire_nbytes`, the frame.  What is not TCP or UDP has empty addresses.  Raise BadCapture,
    OSError.
    """
    tables = []
    for packets in read_captures(_paths(captures)):
        is_known = packets.protocol != 0
        names = np.array([*packets.addresses, ""], dtype=object)  # none has addresses: all codes are 0
        tables.append(
            pd.DataFrame(
                {
                    "file": str(packets.path),
                    "time": pd.to_datetime(packets.time_ns, utc=True),
                    "protocol": pd.Series(packets.protocol).map(PROTOCOLS).fillna(""),
                    "src": np.where(is_known, names[packets.src], ""),
                    "sport": packets.sport,
                    "dst": np.where(is_known, names[packets.dst], ""),
                    "dport": packets.dport,
                    "flags": packets.flags,
                    "seq": packets.seq,
                    "ack": packets.ack,
                    "window": packets.window,
                    "payload_nbytes": packets.payload_nbytes,
                    "wire_nbytes": packets.wire_nbytes,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True)
class Inspection:
    """What `gradwire inspect` finds: `analysis` in full, `tables` by name, as `--csv` writes them.

    Times in all tables are ns from `analysis.origin_ns`, the first training byte, which the table of files
    has as well.  `missing` says why no training was found; "" if it was.
    """

    analysis: Analysis
    tables: dict[str, pd.DataFrame]

    @property
    def missing(self) -> str:
        return self.analysis.missing

    @property
    def summary(self) -> str:
        """The sentences that the command prints first."""
        return " ".join(sentence for sentence in sentences(self.analysis) if sentence)


def inspect(*captures: AnyPath, ranks: AnyPath | None = None, line_rate: str | None = None) -> Inspection:
    """What a training job did to the network, by its captures: files, or folders of them.

    `ranks` is a file that says which address is which rank (docs/capture.md), `line_rate` that of the hosts'
    links, like "10G", where the captures' manifest does not say it.  Captures without training raise nothing:
    `missing` says why.  Raise BadCapture, BadTrace, ValueError, OSError.
    """
    paths = _paths(captures)
    trace = open_captures(paths, Path(ranks) if ranks is not None else None)
    fabric = capture_fabric(paths, trace.files)
    rate_bps = None if line_rate is None else parse_bps(line_rate)
    if rate_bps is not None and rate_bps <= 0:
        raise ValueError(f"line_rate {line_rate}: a line rate must be above 0: write it like 10G")
    analysis, _ = analyse_trace(trace, rate_bps, rates_of(fabric) if fabric else None)
    analysis = replace(analysis, notes=(*manifest_notes(paths, trace.files), *analysis.notes))
    return Inspection(analysis, frames(analysis, trace.messages))


def extract(*captures: AnyPath, ranks: AnyPath | None = None) -> Workload:
    """What a captured job communicated and computed, in order; `ranks` as for `inspect`.

    Raise BadCapture, BadTrace (no training found, say), OSError.
    """
    return read_workload_only(_paths(captures), Path(ranks) if ranks is not None else None)


def load_workload(path: AnyPath) -> Workload:
    """A workload file, as `gradwire extract` writes it.  Raise BadWorkload, OSError."""
    return workloads.load(Path(path))


def save_workload(workload: Workload, path: AnyPath) -> None:
    """Write the workload's file whole or not at all, as NAME.workload.json; raise OSError."""
    workloads.save(workload, Path(path))


def plan(  # noqa: PLR0913 - as many choices as the command has
    job: Workload | AnyPath,
    fabric: AnyPath | Fabric = "fat-tree:k=4",
    *,
    algorithm: str = "as-captured",
    placement: str = "linear",
    routes: str = "ecmp",
    seed: int = 0,
    iterations: Sequence[int] | None = None,
    scale_bytes: float | Fraction = 1,
    compute: float | Fraction = 1,
    scale_ranks: int | None = None,
    bucket_size: str | None = None,
    wire: DType = "float32",
    keys: AnyPath | None = None,
    pace: Pace | None = None,
    send_delay: str = "0",
    order: Order = "fifo",
) -> Plan:
    """Everything of a run, decided beforehand: every send, port number and path, and the time by the model.

    `job` is a workload, or a workload file or captures to make one of; `fabric` a spec (`gradwire fabric
    --help`), a YAML file's name, or what `parse_fabric` made; the other words are those of `gradwire plan`.
    `iterations` are those to send, by default all but the set-up (-1), which is sent too where servers take
    one worker at a time; `scale_bytes` and `compute` are factors of all sizes, and of how long ranks compute;
    `scale_ranks` and `bucket_size` (like "25MiB") make another job of it, and `assumptions` of the plan say
    what that takes for granted; `wire` is the type in which gradients are sent and added; `keys` names the
    tensors in a buffer, "resnet50" or a file of them; `pace` is "early" or "step", by default as the
    algorithm does by itself, each send leaves `send_delay` (like "50ms") after it may, and with the `order`
    "newest-first" the sends of the newest operation go first.  The same arguments always give the same plan.
    Its `prediction` has the links' time alone; `foreseen` adds what hosts take.  Raise Refused for choices
    that do not fit together, ValueError for others, OSError for a file that cannot be read.
    """
    if seed < 0:
        raise ValueError(f"seed {seed}: a seed is 0 or more")
    given = job if isinstance(job, Workload) else extract(job)
    bucket_nbytes = None if bucket_size is None else parse_nbytes(bucket_size)
    workload, assumptions = other_job(given, scale_ranks, bucket_nbytes)
    experiment = Experiment(
        workload,
        workload.source if isinstance(job, Workload) else source_of([Path(job)]),
        seed=seed,
        iterations=None if iterations is None else tuple(iterations),
        scale=_factor("scale_bytes", scale_bytes),
        compute=_factor("compute", compute),
        assumptions=assumptions,
    )
    experiment = sent_as(
        experiment,
        wire=wire,
        keys=None if keys is None else str(keys),
        pace=pace,
        send_delay=send_delay,
        order=order,
    )
    on = fabric if isinstance(fabric, Fabric) else parse_fabric(str(fabric))
    return plan_of(Cell(on, algorithm, placement, routes), experiment)


def load_plan(path: AnyPath) -> Plan:
    """A plan file, with its prediction worked out again.  Raise BadPlan, OSError."""
    return read_plan(Path(path))


def save_plan(plan: Plan, path: AnyPath) -> None:
    """Write the plan's file whole or not at all; `gradwire replay` runs it, `gradwire audit` shows it.  Raise
    OSError.
    """
    plans.save(plan, Path(path))


def link_loads(plan: Plan) -> pd.DataFrame:
    """What a plan puts on each direction of each cable that carries anything, the worst link first.

    Columns: `link`, `rate_bps`, `payload_nbytes`, `flows` in all, `flows_together` at most in one phase,
    `busy_s` (its bytes at its rate), `excess_s` (how much longer than the busiest host link it is busy,
    summed over phases).  Raise ValueError for a plan that sends nothing.
    """
    links = [planned_link(plan.fabric, load) for load in by_severity(plan_load(plan).loads)]
    return frame(PlannedLink, links)


def flows(plan: Plan) -> pd.DataFrame:
    """What a plan sends on each connection, both directions apart: the columns of "plan --json: flows" in
    docs/schemas.md, among them its ports, its path and its bytes.
    """
    return frame(PlannedFlow, planned_flows(plan))


def read_run(folder: AnyPath) -> Run:
    """The folder of one run, as `replay` and `bench` leave it.

    Raise BadRun or BadPlan for what is not a complete one, OSError.
    """
    return load_run_tables(Path(folder))


def read_results(*folders: AnyPath) -> Results:
    """What commands left, of one or of several: their result folders, or those of single runs.

    Raise BadRun for a folder without results, or with some of another version; OSError.
    """
    if not folders:
        raise ValueError("no folders were given: name at least one with results")
    return Results(tuple(load_several([Path(folder) for folder in folders])))


def runs(folder: AnyPath = "runs") -> pd.DataFrame:
    """What results a folder holds, a row for each sub-folder.  Columns: docs/schemas.md, "runs --json".

    Raise BadRun, or OSError.
    """
    return frame(ListedRun, listed_runs(Path(folder)))


def compare(before: AnyPath, after: AnyPath) -> pd.DataFrame:
    """Two sets of results cell by cell, as `gradwire compare` does it: the columns of "compare --json: cells"
    in docs/schemas.md.

    Raise BadRun, or OSError.
    """
    first, second = (named(load_results(Path(folder)).cells) for folder in (before, after))
    return frame(ComparedCell, compared(first, second))


def _factor(name: str, value: float | Fraction) -> Fraction:
    try:
        return Fraction(value)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{name} {value}: not a factor: write a number like 0.5") from error


def _paths(captures: Sequence[AnyPath]) -> list[Path]:
    if not captures:
        raise ValueError("no captures were given: name at least one file or folder")
    return [Path(path) for path in captures]
