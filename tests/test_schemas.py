"""docs/schemas.md lists every field of every file and of every `--json`, and none that does not exist."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.aggregation.figures import AggregationRow, RankFigures, SumError
from gradwire.emu.inject import result as inject_result
from gradwire.emu.inject.result import Injection
from gradwire.emu.options import RunOptions
from gradwire.emu.records import LINK_COLUMNS, Repeat
from gradwire.emu.run import manifest
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabricdocument import FabricDocument, LinksLine
from gradwire.planning.fabrics.spec import FAMILIES
from gradwire.planning.losses import Loss
from gradwire.planning.model.calibration import Calibration, HostTimes, Range
from gradwire.planning.model.shifts import Shift, Tunnels
from gradwire.planning.plan import Flow, Prediction
from gradwire.planning.transport import Transport
from gradwire.planning.trees.tree import Node, Tree
from gradwire.results.advice import Advice, Proposal
from gradwire.results.comparison import ComparedCell
from gradwire.results.limits import Limit
from gradwire.results.matrixfile import About, MatrixCell, begun_matrix, matrix_json
from gradwire.results.outcomes import Outcome
from gradwire.results.plannedcells import PlannedFlow
from gradwire.results.row import Row, Spread
from gradwire.results.runlist import ListedRun
from gradwire.results.runtables import RankRepeat, Results
from gradwire.results.runview import LinkUse
from gradwire.results.trustresult import Live, Summary, TrustMatrix, TrustRow
from gradwire.results.verdict import Verdict
from gradwire.tools.labs.result import Checked
from gradwire.tools.plans.partitiontable import MachinePart
from gradwire.traces.analysis.aggregations import AggregationHost, AggregationJob, AggregationKind
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import HostBound, JobBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.bursts import Burstiness, WindowRates
from gradwire.traces.analysis.exposure import Exposure, Span, Straggler
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.incast import Incast
from gradwire.traces.analysis.linerate import LineRate
from gradwire.traces.analysis.percentiles import Percentiles
from gradwire.traces.analysis.shares import Shares
from gradwire.traces.analysis.traffic import Traffic
from gradwire.traces.analysis.transfers import AlgorithmUse, Iteration, Transfer
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.packets.clocks import HostClock
from gradwire.traces.recognition.shape import JobShape
from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.schedule import Aggregation, Centre, Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.trace import CaptureFile
from gradwire.traces.workload import Collective, Compute, Message, Start, Turn, Usual, Workload
from tests.documented import SCHEMAS, documented_fields
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run

ROWS = "replay --json, bench --json, demo --json"


@pytest.mark.parametrize(
    ("heading", "record"),
    [
        (ROWS, Row),
        ("replay --json: limit", Limit),
        ("run --json: expectations", Outcome),
        ("run --check --json", Checked),
        ("replay --json: aggregation", AggregationRow),
        ("repeats.json", Repeat),
        ("repeats.json: aggregated", RankFigures),
        ("repeats.json: errors", SumError),
        ("options.json", RunOptions),
        ("plan.json: transport", Transport),
        ("plan.json: prediction", Prediction),
        ("plan.json: schedule", Schedule),
        ("plan.json: schedule, ops", Op),
        ("plan.json: schedule, sends", Send),
        ("plan.json: schedule, gates", Gate),
        ("plan.json: schedule, aggregations", Aggregation),
        ("plan.json: schedule, locks", Lock),
        ("plan.json: schedule, centres", Centre),
        ("plan.json: flows", Flow),
        ("plan.json: losses", Loss),
        ("plan.json: trees", Tree),
        ("plan.json: trees, nodes", Node),
        ("verdict.json: calibration", Calibration),
        ("verdict.json: calibration, shift", Shift),
        ("verdict.json: calibration, tunnels", Tunnels),
        ("verdict.json: calibration, hosts", HostTimes),
        ("verdict.json: calibration, ranges", Range),
        ("ports.json", SwitchPorts),
        ("ports.json: ports", SwitchPort),
        ("inspect --json: advice", Advice),
        ("inspect --json: advice, changes", Proposal),
        ("inspect --json: shape", JobShape),
        ("inspect --json: line_rate", LineRate),
        ("inspect --json: bounds", Bound),
        ("inspect --json: host_bounds", HostBound),
        ("inspect --json: job_bound", JobBound),
        ("inspect --json: files", CaptureFile),
        ("inspect --json: clocks", HostClock),
        ("inspect --json: transfers", Transfer),
        ("inspect --json: algorithms", AlgorithmUse),
        ("inspect --json: iterations", Iteration),
        ("inspect --json: shares", Shares),
        ("inspect --json: spans", Span),
        ("inspect --json: exposures", Exposure),
        ("inspect --json: stragglers", Straggler),
        ("inspect --json: flows", FlowFigures),
        ("inspect --json: burstiness", Burstiness),
        ("inspect --json: rates", WindowRates),
        ("inspect --json: incasts", Incast),
        ("inspect --json: aggregations", AggregationJob),
        ("inspect --json: aggregations, kinds", AggregationKind),
        ("inspect --json: aggregations, hosts", AggregationHost),
        ("inspect --json: traffic", Traffic),
        ("inject --json", Injection),
        ("trust --json: live", Live),
        ("trust --json: rows", TrustRow),
        ("trust --json: summary", Summary),
        ("trust --json: iteration times", IterationTime),
        ("result.json of a matrix: about", About),
        ("result.json of a matrix: cells", MatrixCell),
        ("runs --json", ListedRun),
        ("Tables of runs: ranks", RankRepeat),
        ("plan --json: flows", PlannedFlow),
        ("plan --json: machines", MachinePart),
        ("compare --json: cells", ComparedCell),
        ("inject --json: flows", inject_result.InjectedFlow),
    ],
)
def test_the_fields_of_a_record_are_those_documented(heading: str, record: Any) -> None:
    assert {field.name for field in fields(record)} == documented_fields(heading)


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("*.workload.json", Workload),
        ("*.workload.json: taxonomy", Taxonomy),
        ("*.workload.json: a collective", Collective),
        ("*.workload.json: a turn", Turn),
        ("*.workload.json: a message", Message),
        ("*.workload.json: what a rank computes", Compute),
        ("*.workload.json: start", Start),
    ],
)
def test_the_fields_of_a_workload_are_those_documented(heading: str, model: Any) -> None:
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert names == documented_fields(heading)


@pytest.mark.parametrize(
    ("heading", "model"), [("Fabric files", FabricDocument), ("Fabric files: links", LinksLine)]
)
def test_the_keys_of_a_fabric_file_are_those_documented(heading: str, model: Any) -> None:
    assert set(model.model_fields) == documented_fields(heading)


def test_what_inspect_prints_is_as_documented() -> None:
    assert {"schema", "advice", *(field.name for field in fields(Analysis))} == documented_fields(
        "inspect --json"
    )
    (line,) = [line for line in SCHEMAS.splitlines() if line.startswith("Percentiles are objects")]
    assert all(f"`{field.name}`" in line for field in fields(Percentiles))


def test_whole_matrices_are_as_documented() -> None:
    assert set(matrix_json(begun_matrix(Path(), About(), 0))) == documented_fields("result.json of a matrix")
    made = TrustMatrix("ddp-mlp", 4, "ecmp", 128, (), ())
    assert set(made.to_json()) == documented_fields("trust --json")


def test_the_tables_of_runs_are_those_documented() -> None:
    files = {f"{name}.parquet" for name in Results(()).tables}
    assert files == documented_fields("Tables of runs")
    columns = {field.name for field in fields(LinkUse)} - {"egress"}
    assert columns == documented_fields("Tables of runs: links")


def test_the_columns_of_the_link_counters_are_those_documented() -> None:
    assert set(LINK_COLUMNS) == documented_fields("links.parquet")


def test_the_verdict_file_is_as_documented(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan("star:hosts=2", nbytes=MIB))
    value = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert set(value) == documented_fields("verdict.json")
    assert set(value) == {field.name for field in fields(Verdict)} | {"calibration"}


def test_the_plan_file_and_the_manifest_are_as_documented(tmp_path: Path) -> None:
    plan = allreduce_plan("star:hosts=2", nbytes=MIB)
    plans.save(plan, tmp_path / "plan.json")
    assert set(json.loads((tmp_path / "plan.json").read_text())) == documented_fields("plan.json")
    made = manifest(plan, RunOptions(), tmp_path / "plan.json")
    assert set(made) == documented_fields("manifest.json")


def test_what_is_usual_of_computing_is_documented() -> None:
    (line,) = [line for line in SCHEMAS.splitlines() if line.startswith("| `usual`")]
    assert all(f"`{name}`" in line for name in Usual.model_fields)


def test_the_median_and_its_range_are_documented() -> None:
    (line,) = [line for line in SCHEMAS.splitlines() if line.startswith("| `time_s` | object")]
    assert all(f"`{field.name}`" in line for field in fields(Spread))


def test_every_fabric_family_is_documented() -> None:
    (line,) = [line for line in SCHEMAS.splitlines() if line.startswith("| `family`")]
    assert all(f"`{name}`" in line for name in FAMILIES)
