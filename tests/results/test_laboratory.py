"""The laboratory: fabrics calibrated once, plans carried out one after the other, rows judged."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.options import RunOptions
from gradwire.planning.experiment import Cell, Experiment, Original, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.calibration import Calibration, HostTimes
from gradwire.planning.model.expected import expected
from gradwire.planning.model.hostfit import fit_hosts
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.results.laboratory import Laboratory
from gradwire.results.replayedmessages import replayed_messages
from gradwire.results.row import Spread
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.workload import SCHEMA, Collective, Start, Workload
from tests.made_plans import PAYLOAD_EFFICIENCY
from tests.made_runs import made_events, made_repeat

FAT_TREE = parse_fabric("fat-tree:k=4,levels=2,rate=50M")
BIGRAPH = parse_fabric("bigraph:n=4,m=2,rate=50M")
HOSTS = HostCosts(
    0.0018, 0.0, 0.0002, 64, segment_nbytes=12_500, buffer_nbytes=109_000
)  # nobody waits for a processor
JOB = Experiment(made_allreduce(8, 8 * 4200), "test")
MESSAGE_NS = 1_000  # from when it is sent, so no processor is slow to wake
TRUE = Calibration(alpha_s=0.002, latency_s=0.002, eta=0.95)
RING_S = 0.002 + 14 * 0.002
"""JOB's ring on a fabric without contention: a notice, then 14 steps of a latency.  An eighth of it is one
segment, which crosses links at once, and what they owe of it, 0.7 ms, is over when the next comes.
"""
Times = tuple[tuple[float, ...], ...]
LARGE = plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), Experiment(made_allreduce(8, 8 * 420_000), "test"))
LARGE_S = 0.002 + 14 * (0.002 + 420_000 * 8 / (50e6 * 0.95))


@cache
def ends_s(plan: Plan, eta: float) -> Sequence[float]:
    """When each send of the plan ends; the same plans are run by many tests."""
    found: Sequence[float] = simulate(
        plan.fabric, plan.flows, plan.schedule, eta=eta, hosts=HOSTS
    ).ends_s.tolist()
    return found


@pytest.fixture(scope="module", autouse=True)
def _models_once() -> Iterator[None]:
    """Each model of the same values is computed once for all tests: they take a second together."""

    @cache
    def fit(plan: Plan, times_s: Times, starts_s: tuple[float, ...], *rest: Any) -> HostTimes | None:
        return fit_hosts(plan, times_s, starts_s, *rest)

    def fitted(plan: Plan, times_s: Sequence[Sequence[float]], starts_s: Sequence[float], *rest: Any) -> Any:
        return fit(plan, tuple(map(tuple, times_s)), tuple(starts_s), *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gradwire.results.laboratory.expected", cache(expected))
        patched.setattr("gradwire.results.calibrating.fit_hosts", fitted)
        yield


class FakeRuns:
    """Stands for emu.run.run: leaves repeats of known times, and arrivals as a calibrated fabric would."""

    def __init__(
        self,
        *,
        time_s: float = RING_S,
        truth: Calibration = TRUE,
        wrong: int = 0,
        message_ns: int = MESSAGE_NS,
        iteration_s: tuple[float, ...] = (),
        exposed_s: tuple[float, ...] = (),
    ) -> None:
        self._iteration_s = iteration_s
        self._exposed_s = exposed_s
        self._message_ns = message_ns
        self.names: list[str] = []
        self._time_s = time_s
        self._truth = truth
        self._wrong = wrong

    def __call__(
        self, plan: Plan, folder: Path, options: RunOptions, progress: Any, finish: Callable[[Path], Any], /
    ) -> Any:
        self.names.append(folder.name)
        work = folder.with_name(folder.name + ".incomplete")
        (work / "events").mkdir(parents=True)
        repeats = [
            replace(
                made_repeat(plan.n_ranks, self._time_s + i / 1000),
                wrong=self._wrong,
                iteration_s=self._iteration_s,
                exposed_s=self._exposed_s,
            )
            for i in range(options.repeats)
        ]
        (work / "manifest.json").write_text(json.dumps({"cpus": HOSTS.n_cpus}))
        (work / "repeats.json").write_text(json.dumps([asdict(repeat) for repeat in repeats]))
        for repeat in range(options.repeats):
            self._events(work, ends_s(plan, self._truth.eta), repeat)
        made = finish(work)
        work.rename(folder)
        return made

    def _events(self, work: Path, ends: Sequence[float], repeat: int) -> None:
        start_ns = 10**9
        events: list[dict[str, Any]] = [{"event": "start", "t_ns": start_ns, "due_ns": start_ns}]
        for number, end_s in enumerate(ends):
            end_ns = start_ns + round(end_s * 1e9)
            events.append({"event": "queued", "send": number, "t_ns": end_ns - self._message_ns})
            events.append({"event": "arrived", "send": number, "t_ns": end_ns})
        made_events(work, repeat, events)


def laboratory(folder: Path, runs: FakeRuns) -> Laboratory:
    return Laboratory(folder, RunOptions(repeats=3), lambda text: None, runs)


@pytest.mark.long
def test_a_fabric_is_calibrated_once_before_its_first_cell(tmp_path: Path) -> None:
    runs = FakeRuns()
    lab = laboratory(tmp_path, runs)
    for fabric in (FAT_TREE, BIGRAPH):
        for algorithm in ("ring", "as-captured"):
            lab.row(plan_of(Cell(fabric, algorithm, "linear", "ecmp"), JOB))
    kinds = [name.partition("-")[0] for name in runs.names]
    assert kinds == ["calibration", "01", "02", "calibration", "03", "04"]


def test_the_prediction_uses_the_measured_latency_and_goodput(tmp_path: Path) -> None:
    """Of three repeats that take 0, 1 and 2 ms more than the ring the median counts.  Two links may owe the
    first step's segment once, and each of 14 steps has two notices.
    """
    row = laboratory(tmp_path, FakeRuns()).row(plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), JOB))
    assert row.predicted_s is not None
    more_nbytes = 2 * 4200 + 14 * 2 * (48 + 52 + 14)
    assert RING_S * 0.99 <= row.predicted_s <= RING_S + more_nbytes * 8 / (50e6 * 0.95)
    assert row.ratio_predicted == pytest.approx((RING_S + 0.001) / row.predicted_s)


def test_the_prediction_knows_how_late_a_rested_processor_begins(tmp_path: Path) -> None:
    """A small message of a rested one takes 3 ms, and 2 ms of any other."""
    plan = plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), JOB)
    awake = laboratory(tmp_path / "awake", FakeRuns()).row(plan)
    late = laboratory(tmp_path / "late", FakeRuns(message_ns=3_000_000)).row(plan)
    verdict = json.loads((Path(late.folder or "") / "verdict.json").read_text())
    assert verdict["calibration"]["hosts"]["wake_s"] == pytest.approx(0.001, rel=0.05)
    assert awake.predicted_s and late.predicted_s and late.predicted_s > awake.predicted_s + 0.001


def test_a_row_whose_time_is_mostly_the_machines_is_not_valid(tmp_path: Path) -> None:
    """15 latencies of 2 ms; without them 13 segments wait 0.7 ms each for the one before."""
    row = laboratory(tmp_path, FakeRuns()).row(plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), JOB))
    links_s = 13 * 4200 * 8 / (50e6 * 0.95)
    assert row.machine_share == pytest.approx(1 - links_s / RING_S, abs=0.03)
    assert row.verdict == "not valid"
    assert row.reasons == (
        f"{row.machine_share:.0%} of its time is the machine's own per step: use larger sizes",
    )


@pytest.mark.parametrize(("factor", "unaccounted"), [(1.0, False), (1.05, False), (1.2, True), (0.8, True)])
def test_a_time_outside_the_error_bar_is_not_valid(tmp_path: Path, factor: float, unaccounted: bool) -> None:
    row = laboratory(tmp_path, FakeRuns(time_s=factor * LARGE_S)).row(LARGE)
    assert row.machine_share is not None and row.machine_share < 0.05
    assert row.prediction_error is not None and 0.07 <= row.prediction_error <= 0.1 + 1e-9
    assert row.is_unaccounted == unaccounted
    assert row.verdict == ("not valid" if unaccounted else "valid")
    assert any("its predicted time" in reason for reason in row.reasons) == unaccounted


@pytest.mark.long
@pytest.mark.parametrize(
    ("iteration", "exposed", "valid"), [(1.0, 1.0, True), (1.2, 1.0, False), (1.0, 1.2, False)]
)
def test_an_iteration_outside_its_error_bar_is_not_valid(
    tmp_path: Path, iteration: float, exposed: float, valid: bool
) -> None:
    """Three allreduces one after the other, without computing: all of an iteration is exposed."""
    items = [
        Collective(
            kind="allreduce",
            tag=number,
            nbytes=8 * 420_000,
            iteration=number,
            starts=tuple(Start(rank=rank, after=(number - 1,) if number else ()) for rank in range(8)),
        )
        for number in range(3)
    ]
    workload = Workload(schema=SCHEMA, framing="none", n_ranks=8, items=tuple(items))
    plan = plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), Experiment(workload, "test"))
    iterations = (iteration * LARGE_S,), (exposed * LARGE_S,)
    runs = FakeRuns(time_s=3 * LARGE_S, iteration_s=iterations[0], exposed_s=iterations[1])
    row = laboratory(tmp_path, runs).row(plan)
    assert row.predicted_iteration is not None and row.predicted_exposed is not None
    assert row.predicted_iteration.predicted_s == pytest.approx(LARGE_S, rel=0.03)
    assert row.predicted_exposed.predicted_s == pytest.approx(LARGE_S, rel=0.03)
    assert row.valid == valid, row.reasons
    assert bool(row.model) == row.is_unaccounted == (not valid)


def test_a_row_is_left_in_its_folder_with_its_verdict(tmp_path: Path) -> None:
    row = laboratory(tmp_path, FakeRuns(time_s=LARGE_S)).row(LARGE)
    assert row.folder is not None
    assert json.loads((Path(row.folder) / "result.json").read_text())["ratio"] == row.ratio
    assert json.loads((Path(row.folder) / "verdict.json").read_text())["valid"] is True
    assert row.verdict == "valid"


@pytest.mark.long
def test_wrong_elements_and_a_fabric_that_does_not_carry_one_flow_make_it_not_valid(tmp_path: Path) -> None:
    wrong = laboratory(tmp_path / "a", FakeRuns(time_s=LARGE_S, wrong=1)).row(LARGE)
    assert (wrong.verdict, wrong.reasons) == ("not valid", ("3 wrong elements",))
    slow = replace(TRUE, eta=0.9 * PAYLOAD_EFFICIENCY)
    row = laboratory(tmp_path / "b", FakeRuns(time_s=LARGE_S * TRUE.eta / slow.eta, truth=slow)).row(LARGE)
    assert row.reasons == ("one flow alone reached 90% of its link",)


def test_what_another_job_takes_for_granted_is_a_note_of_its_row_and_no_fault(tmp_path: Path) -> None:
    job = replace(JOB, assumptions=("8 ranks for the 4 captured",))
    plan = plan_of(Cell(FAT_TREE, "ring", "linear", "ecmp"), job)
    row = laboratory(tmp_path, FakeRuns()).row(plan)
    assert "8 ranks for the 4 captured" in row.warnings
    assert "8 ranks for the 4 captured" not in row.reasons


def test_how_long_flows_went_on_moving_is_said_of_adaptive_routes_alone(tmp_path: Path) -> None:
    still, moving = (
        laboratory(tmp_path / routes, FakeRuns()).row(plan_of(Cell(FAT_TREE, "ring", "linear", routes), JOB))
        for routes in ("ecmp", "adaptive")
    )
    assert still.settled_s is None
    assert moving.settled_s == Spread(0.0, 0.0, 0.0)  # FakeRuns has no controller


@pytest.mark.long
def test_why_a_run_on_moving_routes_is_slow_is_said_of_its_paths_as_planned(tmp_path: Path) -> None:
    """On drawn hosts hashed flows meet on some seed; the same paths are adaptive's to begin with."""
    job = replace(JOB, seed=2)
    still, moving, failing = (
        laboratory(tmp_path / name, FakeRuns()).row(
            plan_of(Cell(FAT_TREE, "halving-doubling", "random", routes), replace(job, fail=fail))
        )
        for name, routes, fail in (
            ("still", "ecmp", ()),
            ("moving", "adaptive", ()),
            ("failing", "ecmp", ("leaf0-spine0@1",)),
        )
    )
    assert still.why is not None
    assert moving.why == failing.why == f"as planned: {still.why}"
    assert moving.predicted_s == failing.predicted_s == still.predicted_s


@pytest.mark.long
def test_a_run_of_the_job_as_it_was_captured_says_how_like_it_is(tmp_path: Path) -> None:
    """The capture is what the run did, but for the first message, which began half an iteration late."""
    runs = FakeRuns()
    plan = plan_of(Cell(FAT_TREE, "as-captured", "linear", "ecmp"), JOB)
    laboratory(tmp_path / "one", runs).row(plan)
    (folder,) = (path for path in (tmp_path / "one").iterdir() if path.name.startswith("01"))
    (ran, *_) = replayed_messages(folder, plan, 3)
    alike = Original(plan.fabric, plan.placement, ran)
    span_ns = max(message.end_ns for message in ran) - min(message.start_ns for message in ran)
    moved = replace(ran[-1], start_ns=ran[-1].start_ns + span_ns // 2)
    other = Original(plan.fabric, plan.placement, (*ran[:-1], moved))
    for original, score in ((alike, 1.0), (other, 1 - 0.25 / len(ran))):
        options = RunOptions(repeats=3)
        place = tmp_path / str(score)
        row = Laboratory(place, options, lambda text: None, runs).row(plan, original)
        assert row.fidelity == pytest.approx(score, abs=0.001)
        assert json.loads((Path(row.folder or "") / "result.json").read_text())["fidelity"] == row.fidelity
        elsewhere = plan_of(Cell(BIGRAPH, "as-captured", "linear", "ecmp"), JOB)
        assert Laboratory(place, options, lambda text: None, runs).row(elsewhere, original).fidelity is None
