"""Run folders as a run leaves them, without a run: for the tests of what reads them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradwire.emu.records import EARLY_LINK_COLUMNS, Repeat
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import Egress, interface
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.closedform import nominal_costs
from gradwire.planning.model.errorbar import Expected
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results import row as result
from gradwire.results.matrixfile import About, begun_matrix, save_matrix
from gradwire.results.planfigures import plan_figures
from gradwire.results.row import Row
from gradwire.results.verdict import Verdict

CALIBRATED = Calibration(alpha_s=0.0005, latency_s=0.0001, eta=0.95)
VALID = Verdict(valid=True)


def made_run(
    folder: Path,
    plan: Plan,
    times_s: Sequence[float] = (1.0,),
    verdict: Verdict = VALID,
    source: str = "made",
) -> Row:
    """The folder of a run with these times, without counters, and its row."""
    folder.mkdir(parents=True)
    plans.save(plan, folder / "plan.json")
    repeats = [made_repeat(plan.n_ranks, time_s) for time_s in times_s]
    (folder / "repeats.json").write_text(json.dumps([asdict(repeat) for repeat in repeats]))
    (folder / "manifest.json").write_text(json.dumps({"kernel": "6.1.0", "cpus": 2, "source": source}))
    row = result.row(
        plan,
        repeats,
        verdict,
        expected=Expected(plan.prediction.fluid_s),
        figures=plan_figures(plan, plan_load(plan), nominal_costs(plan), median(times_s)),
        folder=folder,
    )
    result.save(folder, row, verdict, CALIBRATED)
    return row


def made_events(folder: Path, repeat: int, events: Sequence[Mapping[str, Any]]) -> None:
    """The events of one repeat; what one does not have is as docs/schemas.md has it."""
    none = {"rank": 0, "due_ns": 0, "send": -1, "op": -1, "src": -1, "dst": -1, "nbytes": 0}
    (folder / "events").mkdir(exist_ok=True)
    rows = [{"repeat": repeat, **none, **event} for event in events]
    pq.write_table(pa.Table.from_pylist(rows), folder / "events" / f"repeat-{repeat}.parquet")


def made_matrix(
    folder: Path,
    plans: Sequence[Plan],
    times_s: Sequence[float] = (1.0,),
    *,
    verdicts: Sequence[Verdict] = (),
    n_cells: int | None = None,
    about: About = About(("bench", "allreduce"), "2026-07-04T10:15:00Z", "0.1.0", "A job"),  # noqa: B008
) -> Path:
    """The folder of a matrix whose runs, 01, 02 and so on, all take these times; it is complete unless it has
    more cells.
    """
    matrix = begun_matrix(folder, about, n_cells or len(plans))
    for number, plan in enumerate(plans, start=1):
        verdict = verdicts[number - 1] if verdicts else VALID
        matrix = matrix.with_row(made_run(folder / f"{number:02d}", plan, times_s, verdict))
    save_matrix(matrix)
    return folder


def made_repeat(n_ranks: int, time_s: float) -> Repeat:
    return Repeat(
        time_s=time_s,
        rank_time_s=(time_s,) * n_ranks,
        start_skew_s=0.001,
        gap_lateness_s=0.0,
        wrong=0,
        sent_nbytes=(1000,) * n_ranks,
        retransmits=(0,) * n_ranks,
        cpu_idle=0.5,
        cpu_stolen=0.0,
        stall_s=0.004,
        softnet_dropped=0,
        queue_dropped={},
    )


def sample_ports(folder: Path, repeats: Sequence[Mapping[Egress, tuple[int, int]]]) -> None:
    """`links.parquet` of an older run, in which a port's counters grow in each repeat by (bytes, packets)."""
    rows: list[tuple[int, int, str, int, int, int]] = []
    before: dict[Egress, tuple[int, int]] = {}
    for number, grown in enumerate(repeats):
        for end, (nbytes, packets) in grown.items():
            start = before.get(end, (7000, 70))
            before[end] = (start[0] + nbytes, start[1] + packets)
            name = interface(end.node, end.port)
            for i, counts in enumerate((start, before[end])):
                rows.append((number, i, name, *counts, 0))
    columns = zip(*rows, strict=True)
    pq.write_table(
        pa.table(dict(zip(EARLY_LINK_COLUMNS, map(list, columns), strict=True))), folder / "links.parquet"
    )
