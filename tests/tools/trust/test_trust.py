"""The judge of replays: rows from known live and replayed times, failures, resuming, exit codes.

Live jobs and runs are stood for by what leaves the same files; tests/real/test_trust.py has the real ones.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from benchmarks.trust import CASES, is_good
from gradwire.emu.capturing.finish import Checked
from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.options import RunOptions
from gradwire.emu.project import PROJECT
from gradwire.emu.records import CAPTURES
from gradwire.emu.watch import RunFailed
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.flowhash import flow_hash, switch_salt
from gradwire.planning.model.errorbar import Bar
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import INCOMPLETE, BadRun
from gradwire.results.matrixfile import About
from gradwire.results.replayedmessages import likeness
from gradwire.results.row import REFUSED, Row
from gradwire.results.trustresult import (
    ERROR_BAR,
    Live,
    Summary,
    TrustMatrix,
    TrustRow,
    judged_by_computing,
    load,
    save,
)
from gradwire.tools.capturing import Captured, Keeping
from gradwire.tools.options import livejob
from gradwire.tools.options.livejob import LiveJob
from gradwire.tools.trust.live import middle_training
from gradwire.tools.trust.matrix import TrustTrial, carry_out, middle_row
from gradwire.tools.trust.replay import plan_for
from gradwire.tools.trust.tables import notes, page, sentences
from gradwire.traces.fidelity import SentMessage
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import Job, connections
from gradwire.traces.units import show_s
from gradwire.traces.workload import Compute, Message, Start, Workload
from tests.commandlines import refusal
from tests.made_runs import made_events, made_run
from tests.made_servers import first_come_job

SAMPLE = PROJECT / "traces" / "samples" / "ddp_gloo_8"
LONGER = PROJECT / "traces" / "samples" / "slow_ddp_8_mlp_leafspine50M"  # 12 iterations, by `capture`
FABRICS = ("star:hosts=8,rate=50M", "star:hosts=8,rate=20M")
LIVE_NS = 100_000_000  # an iteration of the live job, by its logs
N_ITERATIONS = 6
UNREAD = Checked(None, why="not looked at")
MEASURED = IterationTime(0.1, 0.1, 0.1, 4)
ROW = TrustRow("a", "b", "valid", live=MEASURED, replay=MEASURED, error=0.01)
LIVES = (Live("a", "live/01-a", MEASURED), Live("b", "live/02-b", MEASURED))
MATRIX = TrustMatrix("ddp-mlp", 8, "ecmp", 128, LIVES, (ROW,))


def live_job(**changes: Any) -> LiveJob:
    made = LiveJob(("ddp",), 8, "mlp", N_ITERATIONS, 16, 0, None, 1, 4, False, False, 600)
    return replace(made, **changes)


TRIAL = TrustTrial(live_job(), FABRICS, repeats=2)


def write_logs(
    folder: Path, period_ns: int = LIVE_NS, iterations: int = N_ITERATIONS, computed_ns: int | None = None
) -> None:
    """Rank r computes r µs less than `computed_ns`; logs do not say that if None."""
    for rank in range(8):
        events = [{"k": "iter0", "it": number, "t": number * period_ns} for number in range(iterations)]
        if computed_ns is not None:
            for number in range(iterations):
                ready_ns = number * period_ns + computed_ns - rank * 1000
                events.append({"k": "bucket_ready", "it": number, "t": ready_ns})
                events.append({"k": "bucket_done", "it": number, "t": (number + 1) * period_ns})
        (folder / f"log.r{rank}.json").write_text(json.dumps({"rank": rank, "events": events}))


class FakeLive:
    """Stands for tools.capturing.carry_out: a shipped capture with made-up logs; `fails` is by fabric."""

    def __init__(
        self,
        fails: dict[str, str] | None = None,
        sample: Path = SAMPLE,
        iterations: int = N_ITERATIONS,
        samples: Sequence[Path] = (),
        stolen: Sequence[float] = (),
        periods_ns: Sequence[int] = (),
        computed_ns: Sequence[int] = (),
    ) -> None:
        self.fails = fails or {}
        self.sample, self.iterations, self.samples = sample, iterations, iter(samples)
        self.trained: list[str] = []
        self.stolen, self.periods_ns, self.computed_ns = iter(stolen), iter(periods_ns), iter(computed_ns)

    def __call__(
        self, request: CaptureRequest, fabric: Fabric, keeping: Keeping, typed: object, quiet: bool
    ) -> Captured:
        assert request.n_ranks == 8
        assert keeping.folder.is_absolute()
        assert keeping.snaplen == 128
        work = keeping.folder.with_name(keeping.folder.name + INCOMPLETE)
        work.mkdir(parents=True)
        self.trained.append(fabric.spec)
        if (why := self.fails.get(fabric.spec)) == "died":
            raise RunFailed("the switch died")
        if why:
            (work / "out.r3.txt").write_text("its last words")
            return Captured(work, {"cut_short": why}, (), None, UNREAD, interrupted=why == "interrupted")
        for number, (_, part) in enumerate(request.parts(work)):
            shutil.copytree(next(self.samples, self.sample), part, dirs_exist_ok=True)
            period_ns = next(self.periods_ns, LIVE_NS) * (number + 1)
            write_logs(part, period_ns, self.iterations, next(self.computed_ns, None))
            manifest = {"check": {"agrees": True}, "cpu_stolen": next(self.stolen, 0.0)}
            (part / "manifest.json").write_text(json.dumps(manifest))
        work.rename(keeping.folder)
        return Captured(keeping.folder, {"cut_short": None}, (), None, UNREAD)


def fake_laboratory(period_ns: int, done: list[str]) -> Callable[[Path, RunOptions, object], Any]:
    """Stands for the laboratory: runs whose iterations last `period_ns`."""

    class Fake:
        def __init__(self, folder: Path, options: RunOptions, tell: object) -> None:
            del tell
            self.folder, self.options = folder, options

        def row(self, plan: Plan) -> Row:
            done.append(plan.fabric.spec)
            folder = self.folder / f"{len(done):02d}"
            row = made_run(folder, plan, (1.0,) * self.options.repeats)
            if self.options.captures:
                (folder / CAPTURES).mkdir()
                (folder / CAPTURES / "h0.pcap").write_bytes(b"many")
            for repeat in range(self.options.repeats):
                write_events(folder, plan, repeat, period_ns)
            return row

    return Fake


def write_events(folder: Path, plan: Plan, repeat: int, period_ns: int) -> None:
    events = []
    for number, send in enumerate(plan.schedule.sends):
        start_ns = plan.schedule.ops[send.op].iteration * period_ns + number % 100
        for event, t_ns in (("queued", start_ns), ("arrived", start_ns + 1000)):
            events.append({"event": event, "t_ns": t_ns, "send": number})
    made_events(folder, repeat, events)


@pytest.fixture
def _whole_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped capture has three iterations: none of them counts as warm-up here."""
    for module in ("gradwire.tools.trust.matrix", "gradwire.tools.trust.live", "gradwire.tools.trust.replay"):
        monkeypatch.setattr(f"{module}.FIRST_WARM", 0)
    for module in ("gradwire.tools.trust.matrix", "gradwire.tools.trust.replay"):
        monkeypatch.setattr(f"{module}.MIN_ITERATIONS", 3)


def with_set_up(job: Workload) -> Workload:
    """Worker 1 waits for what the server hands out; the server sends a farewell."""
    first, *others = job.items
    assert isinstance(first, Compute)
    waiting = first.model_copy(update={"start": Start(rank=1, after=(len(job.items),))})
    handed_out = Message(src=0, dst=1, nbytes=1000, iteration=-1, start=Start(rank=0))
    farewell = Message(src=0, dst=1, nbytes=7, iteration=-1, start=Start(rank=0, after=(len(job.items) - 1,)))
    return job.model_copy(update={"items": (waiting, *others, handed_out, farewell)})


def test_jobs_are_replayed_with_their_warm_up_and_those_of_asynchronous_servers_with_their_set_up() -> None:
    locked, free = (
        with_set_up(first_come_job([[5] * 7, [7] * 7], 2, lock=lock)[0]) for lock in (True, False)
    )
    for jobs, hosts, first in (([locked], 3, -1), ([free], 3, 0), ([free, locked], 6, -1)):
        fabric = parse_fabric(f"star:hosts={hosts}")
        plan = plan_for(jobs, fabric, "made", "ecmp", fabric)
        assert sorted({op.iteration for op in plan.schedule.ops}) == [*range(first, 7)]
        sizes = {plan.schedule.sends[number].nbytes for number in range(len(plan.schedule.sends))}
        assert (1000 in sizes) == (first == -1)
        assert 7 not in sizes


def test_the_set_up_is_not_part_of_the_fidelity() -> None:
    job = with_set_up(first_come_job([[5] * 7, [7] * 7], 2, lock=True)[0])
    fabric = parse_fabric("star:hosts=3")
    plan = plan_for([job], fabric, "made", "ecmp", fabric)
    captured = [SentMessage(number, 1, 0, 1000, number * 10**6, number * 10**6 + 100) for number in range(7)]
    set_up = SentMessage(-1, 0, 1, 1000, -500, -400)
    assert likeness(plan, captured, [[set_up, *captured]]) == 1
    assert likeness(plan, [set_up], [[set_up]]) is None


@pytest.mark.usefixtures("_whole_sample")
def test_the_error_is_the_replays_iteration_over_the_live_one(tmp_path: Path) -> None:
    matrix = carry_out(TRIAL, tmp_path / "m", True, FakeLive(), fake_laboratory(LIVE_NS * 11 // 10, []))
    assert [(row.captured_on, row.replayed_on) for row in matrix.rows] == [
        (FABRICS[0], FABRICS[0]),
        (FABRICS[0], FABRICS[1]),
        (FABRICS[1], FABRICS[0]),
        (FABRICS[1], FABRICS[1]),
    ]
    for row in matrix.rows:
        assert row.live is not None
        assert row.live.median == pytest.approx(0.1)
        assert row.error == pytest.approx(0.1, abs=1e-4)
        assert row.repeat_s == pytest.approx((0.11, 0.11), abs=1e-4)
    assert [row.fidelity is None for row in matrix.rows] == [False, True, True, False]
    save(matrix, tmp_path / "m")
    assert load(tmp_path / "m") == matrix


@pytest.mark.usefixtures("_whole_sample")
def test_replays_are_captured_as_the_live_jobs_were_and_their_captures_do_not_stay(tmp_path: Path) -> None:
    options: list[RunOptions] = []

    def laboratory(folder: Path, chosen: RunOptions, tell: Callable[[str], None]) -> Any:
        options.append(chosen)
        return fake_laboratory(LIVE_NS, [])(folder, chosen, tell)

    matrix = carry_out(replace(TRIAL, fabrics=FABRICS[:1]), tmp_path / "m", True, FakeLive(), laboratory)
    assert [each.captures for each in options] == [True]
    (row,) = matrix.rows
    assert row.folder and (tmp_path / "m" / row.folder).is_dir()
    assert not list((tmp_path / "m").rglob(CAPTURES))


@pytest.mark.long
@pytest.mark.usefixtures("_whole_sample")
def test_a_job_is_trained_again_while_other_guests_take_the_cpus_and_not_for_ever(tmp_path: Path) -> None:
    live = FakeLive(stolen=(0.2, 0.01, 0.3, 0.3, 0.1))
    matrix = carry_out(TRIAL, tmp_path / "m", True, live, fake_laboratory(LIVE_NS, []))
    assert live.trained == [FABRICS[0]] * 2 + [FABRICS[1]] * 3
    reason = "while the job trained live, 10% of the CPUs went to other guests: try later"
    assert [each.doubts for each in matrix.live] == [(), (reason,)]
    assert [row.verdict == "valid" for row in matrix.rows] == [True, False, False, False]
    assert all(reason in row.reasons for row in matrix.rows[1:])
    assert len(list((tmp_path / "m" / "live").glob("*.disturbed-*"))) == 3
    done: list[str] = []
    later = FakeLive(stolen=(0.0,))
    matrix = carry_out(TRIAL, tmp_path / "m", True, later, fake_laboratory(LIVE_NS, done))
    assert (later.trained, len(done)) == ([FABRICS[1]], 3)  # the same command later mends what was disturbed
    assert all(row.verdict == "valid" for row in matrix.rows)


@pytest.mark.long
@pytest.mark.usefixtures("_whole_sample")
def test_a_job_trained_again_counts_with_all_its_times_where_there_is_one_path(tmp_path: Path) -> None:
    """99, 100 and 101 ms an iteration: their median is that of all."""
    trial = replace(TRIAL, fabrics=FABRICS[:1], trainings=3)
    live, done = FakeLive(periods_ns=(101_000_000, 99_000_000, 100_000_000)), list[str]()
    folder = tmp_path / "m"
    matrix = carry_out(trial, folder, True, live, fake_laboratory(LIVE_NS, done))
    assert live.trained == [FABRICS[0]] * 3
    assert done == [FABRICS[0]]
    (trained,) = matrix.live
    assert [each.time.median for each in trained.trainings] == pytest.approx([0.101, 0.099, 0.1])
    assert [Path(each.folder).suffix for each in trained.trainings] == [
        "",
        ".again-1",
        ".again-2",
    ]
    assert matrix.rows[0].error == pytest.approx(0, abs=1e-3)
    assert matrix.rows[0].live is not None
    assert matrix.rows[0].live.n == 3 * (N_ITERATIONS - 1)
    assert matrix.live[0].folder == "live/01-star_hosts=8_rate=50M.again-2"  # the middle one is replayed
    assert any("3 trainings: 101 ms, 99 ms, 100 ms" in line for line in notes(matrix))
    again = FakeLive()
    assert carry_out(trial, folder, True, again, fake_laboratory(LIVE_NS, done)).live == matrix.live
    assert not again.trained
    (folder / "live" / "01-star_hosts=8_rate=50M.again-1" / "manifest.json").write_text('{"cpu_stolen": 0.2}')
    busy = FakeLive(stolen=(0.2, 0.2, 0.2))
    matrix = carry_out(trial, folder, True, busy, fake_laboratory(LIVE_NS, done))
    times_s = [each.time.median for each in matrix.live[0].trainings]
    assert times_s == pytest.approx([0.101, 0.1])  # not what was disturbed however often
    assert matrix.live[0].doubts == ()
    (folder / "live" / "01-star_hosts=8_rate=50M" / "manifest.json").write_text('{"cpu_beside": 0.2}')
    busy = FakeLive(stolen=(0.2,) * 6)
    (first,) = carry_out(trial, folder, True, busy, fake_laboratory(LIVE_NS, done)).live
    assert (first.folder, first.doubts) == ("live/01-star_hosts=8_rate=50M.again-2", ())


PATHS = "leaf-spine:leaves=2,spines=2,hosts=4,rate=50M"


@pytest.mark.parametrize(
    ("fabric", "periods_ns"),
    [
        (PATHS, (100_000_000, 100_000_000, 100_000_000)),
        (PATHS, (80_000_000, 100_000_000, 125_000_000)),
        (FABRICS[0], (98_000_000, 100_000_000, 102_000_000)),
    ],
)
@pytest.mark.usefixtures("_whole_sample")
def test_each_training_is_replayed_where_there_are_several_paths_or_they_took_different_times(
    tmp_path: Path, fabric: str, periods_ns: tuple[int, ...]
) -> None:
    """Where there is one path, more than 3 % apart.  A replay of 100 ms against 80, 100 and 125 ms live is
    off by +25, 0 and −20 %: the middle one counts.
    """
    trial = replace(TRIAL, fabrics=(fabric,), trainings=3)
    live, done = FakeLive(periods_ns=periods_ns), list[str]()
    matrix = carry_out(trial, tmp_path / "m", True, live, fake_laboratory(LIVE_NS, done))
    assert (live.trained, done) == ([fabric] * 3, [fabric] * 3)
    (row,) = matrix.rows
    assert row.error == pytest.approx(0, abs=1e-3)
    assert row.live is not None and row.live.median == pytest.approx(0.1)


@pytest.mark.usefixtures("_whole_sample")
def test_a_capture_is_replayed_with_the_beginning_of_the_training_that_it_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []
    laboratory = fake_laboratory(LIVE_NS, [])

    def recorded(*arguments: Any) -> Any:
        made = laboratory(*arguments)
        measured: Callable[[Plan], Row] = made.row

        def row(plan: Plan) -> Row:
            plans.append(plan)
            return measured(plan)

        made.row = row
        return made

    def late_by_fabric(job: Job) -> Workload:
        """The sample's ranks begin with their set-up, which is not sent."""
        ns = 50 if "rate=50M" in job.trace.name else 20
        made = made_allreduce(8, 8_000, N_ITERATIONS)
        return made.model_copy(update={"late_ns": (0, 0, 0, ns, 0, 0, 0, 0)})

    monkeypatch.setattr("gradwire.tools.trust.matrix.workload_of", late_by_fabric)
    carry_out(TRIAL, tmp_path / "m", True, FakeLive(), recorded)
    found = [
        {gate.gap_ns for gate in plan.schedule.gates if not gate.after and gate.rank == 3} for plan in plans
    ]
    assert found == [{50}, {20}, {50}, {20}]


@pytest.mark.usefixtures("_whole_sample")
def test_a_note_says_that_ranks_waited_for_processors_above_5_percent(tmp_path: Path) -> None:
    """A tenth in the first training and none in the second: the mean is 5 %; by a hair more it is noted."""

    def waiting_notes(first: float) -> list[str]:
        waits, live = iter((first, 0.0)), FakeLive()

        def capture(
            request: CaptureRequest, fabric: Fabric, keeping: Keeping, typed: Any, quiet: bool
        ) -> Captured:
            captured = live(request, fabric, keeping, typed, quiet)
            waited = next(waits)
            for path in captured.folder.glob("log.r*.json"):
                path.write_text(json.dumps(json.loads(path.read_text()) | {"waited": waited}))
            return captured

        trial = replace(TRIAL, fabrics=FABRICS[:1], trainings=2)
        matrix = carry_out(trial, tmp_path / str(first), True, capture, fake_laboratory(LIVE_NS, []))
        assert matrix.live[0].waited == pytest.approx(first / 2)
        return [line for line in notes(matrix) if "waited for a processor" in line]

    assert not waiting_notes(0.1)
    (line,) = waiting_notes(0.12)
    assert line.startswith(f"note: {FABRICS[0]}: a rank's threads waited for a processor for 6% of")


def test_the_middle_row_has_the_median_error_and_of_two_the_one_further_from_zero() -> None:
    def middle(*errors: float) -> float | None:
        return middle_row([replace(ROW, error=error) for error in errors]).error

    assert middle(0.08, 0.01, -0.01) == 0.01
    assert middle(0.08, 0.01) == middle(0.01, 0.08) == 0.08
    assert middle(-0.09, 0.01) == -0.09
    assert middle(-0.5, -0.01, 0.02, 0.4) == 0.02
    assert middle(0.03) == 0.03


BUSY = ("other guests took the CPUs",)
DISTURBED = replace(ROW, verdict="not valid", error=0.3, reasons=BUSY, machine=BUSY)
SHORT = ("an iteration took 0.85 × its predicted time",)
UNFORESEEN = replace(ROW, verdict="not valid", error=-0.3, reasons=SHORT)


def with_errors(row: TrustRow, *errors: float) -> list[TrustRow]:
    return [replace(row, error=error) for error in errors]


def test_replays_that_the_machine_disturbed_do_not_make_the_middle_row_if_there_are_others() -> None:
    row = middle_row([*with_errors(ROW, 0.02, 0.09), DISTURBED])
    assert (row.verdict, row.error, row.machine) == ("valid", 0.09, BUSY)
    assert row.warnings == (f"of 3 replays 2 count, but not +30.0%: {BUSY[0]}",)
    row = middle_row([*with_errors(ROW, -0.01), *with_errors(DISTURBED, 0.3, 0.4)])
    assert (row.verdict, row.error, row.machine) == ("valid", -0.01, BUSY)
    row = middle_row(with_errors(DISTURBED, 0.3, 0.4, 0.5))
    assert (row.verdict, row.error, row.machine, row.warnings) == ("not valid", 0.4, BUSY, ())


def test_the_middle_row_has_the_verdict_of_most_replays() -> None:
    """Also where the one in the middle of all has another."""
    good = with_errors(replace(ROW, warnings=("slow",)), 0.01, 0.02, 0.05)
    row = middle_row([*good, *with_errors(UNFORESEEN, -0.3, 0.015)])
    assert (row.verdict, row.error, row.machine) == ("valid", 0.02, ())
    others = f"-30.0%: {SHORT[0]}; +1.5%: {SHORT[0]}"
    assert row.warnings == ("slow", f"of 5 replays 3 count, but not {others}")
    row = middle_row([*good[:2], *with_errors(UNFORESEEN, -0.3, 0.015, 0.4)])
    assert (row.verdict, row.error) == ("not valid", 0.015)
    assert row.warnings == ("of 5 replays 3 count, but not +1.0%: valid; +2.0%: valid",)
    row = middle_row([*good[:2], *with_errors(UNFORESEEN, -0.3, 0.3)])
    assert (row.verdict, row.error) == ("not valid", -0.3)


def test_disturbed_replays_have_no_say_in_what_most_are() -> None:
    row = middle_row([*with_errors(ROW, 0.01, 0.02), UNFORESEEN, *with_errors(DISTURBED, 0.1, 0.2)])
    assert (row.verdict, row.error, row.machine) == ("valid", 0.02, BUSY)
    others = f"-30.0%: {SHORT[0]}; +10.0%: {BUSY[0]}; +20.0%: {BUSY[0]}"
    assert row.warnings == (f"of 5 replays 2 count, but not {others}",)


@pytest.mark.usefixtures("_whole_sample")
def test_with_several_paths_a_replay_is_doubted_for_the_training_whose_ports_it_has(tmp_path: Path) -> None:
    """The middle training by its time, whose capture is replayed, is in order; the one of the middle row is
    not.
    """
    trial = replace(TRIAL, fabrics=(PATHS,), trainings=2)
    live = FakeLive(periods_ns=(100_000_000, 125_000_000))

    def misread_later(*arguments: Any, **keywords: Any) -> Captured:
        captured = live(*arguments, **keywords)
        agrees = len(live.trained) == 1
        check = {"agrees": agrees, "differences": ["iteration 1, buckets"]}
        (captured.folder / "manifest.json").write_text(json.dumps({"check": check}))
        return captured

    matrix = carry_out(trial, tmp_path / "m", True, misread_later, fake_laboratory(LIVE_NS, []))
    doubt = "the capture is not what the job logged: iteration 1, buckets"
    assert [each.doubts for each in matrix.live[0].trainings] == [(), (doubt,)]
    assert matrix.live[0].doubts == ()
    (row,) = matrix.rows
    assert row.error == pytest.approx(-0.2, abs=1e-3)  # of two rows the one further from 0
    assert (row.verdict, row.reasons) == ("not valid", (doubt,))
    assert load(tmp_path / "m") == matrix


@pytest.mark.usefixtures("_whole_sample")
def test_rows_that_were_measured_with_fewer_trainings_are_measured_again(tmp_path: Path) -> None:
    """A folder of a version that trained only once where hosts have several paths."""
    trial, done = replace(TRIAL, fabrics=FABRICS[:1], trainings=2), list[str]()
    folder = tmp_path / "m"
    carry_out(trial, folder, True, FakeLive(), fake_laboratory(LIVE_NS, done))
    (again,) = (folder / "live").glob("*.again-1")
    shutil.rmtree(again)
    later = FakeLive(periods_ns=(LIVE_NS * 102 // 100,))
    (row,) = carry_out(trial, folder, True, later, fake_laboratory(LIVE_NS, done)).rows
    assert len(done) == 2
    assert row.live is not None and row.live.n == 2 * (N_ITERATIONS - 1)
    assert row.live.median == pytest.approx(0.101)


def test_the_middle_training_is_the_one_whose_worst_job_is_nearest() -> None:
    """Of one job, however long each training was; of two jobs; of two trainings, as near, the first."""
    assert middle_training([[(70.0,) * 30], [(66.0,) * 5], [(67.0,) * 5]]) == 2
    first, second, third = [(10.0,), (13.0,)], [(11.0,), (10.0,)], [(11.5,), (12.0,)]
    assert middle_training([first, second, third]) == 2  # 9 % and 8 % off; 0 and 17 %; 5 and 0 %
    assert middle_training([[(70.0,)], [(66.0,)]]) == middle_training([[(66.0,)], [(70.0,)]]) == 0
    assert middle_training([[()], [(1.0,)]]) == 0
    assert middle_training([[(0.0,)], [(1.0,)]]) == 0


@pytest.mark.usefixtures("_whole_sample")
def test_one_of_several_trainings_that_fails_leaves_its_line(tmp_path: Path) -> None:
    trial = replace(TRIAL, fabrics=FABRICS[:1], trainings=2)
    folder = tmp_path / "m"
    carry_out(replace(trial, trainings=2), folder, True, FakeLive(), fake_laboratory(LIVE_NS, []))
    (again,) = (folder / "live").glob("*.again-1")
    shutil.rmtree(again)
    failing = FakeLive({FABRICS[0]: "rank 3 ended with exit code 1"})
    matrix = carry_out(trial, folder, True, failing, fake_laboratory(LIVE_NS, []))
    assert "rank 3 ended" in str(matrix.live[0].failure)


@pytest.mark.long
def test_jobs_beside_each_other_are_replayed_together_and_judged_each(tmp_path: Path) -> None:
    """The second's iterations take twice as long live, and all of them 110 ms in the replay.  It computes for
    11 ms of them on one fabric, and for 30 ms on the other.
    """
    fabrics = ("star:hosts=16,rate=50M", "star:hosts=16,rate=20M")
    trial = TrustTrial(live_job(beside=(live_job(seed=1),)), fabrics, repeats=1)
    done: list[str] = []
    computed_ns = (11_000_000, 11_000_000, 11_000_000, 30_000_000)
    live = FakeLive(sample=LONGER, iterations=12, computed_ns=computed_ns)
    matrix = carry_out(trial, tmp_path / "m", True, live, fake_laboratory(LIVE_NS * 11 // 10, done))
    assert done == [fabrics[0], fabrics[1]] * 2  # one run for both
    assert [row.verdict for row in matrix.rows[:4]] == ["valid"] * 4
    assert [row.verdict for row in matrix.rows[4:]] == ["valid", "not valid", "not valid", "valid"]
    assert [live.job for live in matrix.live] == [0, 0, 1, 1]
    assert all("/beside-1" in live.folder for live in matrix.live[2:])
    assert [row.job for row in matrix.rows] == [0] * 4 + [1] * 4
    for row in matrix.rows:
        assert row.error == pytest.approx(1.1 / (row.job + 1) - 1, abs=1e-3)
        assert row.predicted_s is None
        assert (row.fidelity is not None) == (row.captured_on == row.replayed_on)
    first, second = matrix.rows[0].fidelity, matrix.rows[4].fidelity
    assert first is not None and second is not None and first == pytest.approx(second, abs=0.01)
    save(matrix, tmp_path / "m")
    assert load(tmp_path / "m") == matrix
    assert len({cell["cell"] for cell in matrix.to_json()["cells"]}) == 8
    text = page(matrix)
    assert text.count("beside-1") >= 4
    assert [line for line in sentences(matrix) if line.startswith("Of jobs beside each other")]


@pytest.mark.long
def test_the_paths_are_those_of_the_job_that_was_trained_on_the_target(tmp_path: Path) -> None:
    """Two captures with ports of their own: of two fabrics, and of one that was trained on twice."""
    fabrics = (
        "leaf-spine:leaves=4,spines=4,hosts=2,rate=50M",
        "leaf-spine:leaves=4,spines=4,hosts=2,rate=40M",
    )
    samples = (LONGER, LONGER.with_name("slow_ddp_8_mlp_star100M"))
    connected = [{(each.a, each.b): each for each in connections(open_trace([one]))} for one in samples]
    plans: list[Plan] = []
    made = fake_laboratory(LIVE_NS, [])

    def noting(folder: Path, options: RunOptions, tell: object) -> Any:
        bench = made(folder, options, tell)
        row = bench.row

        def noted(plan: Plan) -> Row:
            plans.append(plan)
            made: Row = row(plan)
            return made

        bench.row = noted
        return bench

    live = FakeLive(iterations=12, samples=samples)
    carry_out(TrustTrial(live_job(), fabrics, repeats=1), tmp_path / "m", True, live, noting)
    assert [plan.fabric.spec for plan in plans] == [*fabrics, *fabrics]
    twice = TrustTrial(live_job(), fabrics[:1], repeats=1, trainings=2)
    carry_out(twice, tmp_path / "twice", True, FakeLive(iterations=12, samples=samples), noting)
    assert [plan.fabric.spec for plan in plans[4:]] == [fabrics[0]] * 2
    for number, plan in enumerate(plans):
        n_chosen = 0
        for flow in plan.flows:
            if len(flow.path) < 4:
                continue
            low, high = sorted((flow.src, flow.dst))
            each = connected[number % 2][low, high]
            ports = {each.a: each.port_a, each.b: each.port_b}
            leaf = flow.path[1]
            ups = sorted(port for port, node in plan.fabric.neighbours[leaf.node].items() if node[0] == "s")
            ends = int(IPv4Address(flow.src_ip)), int(IPv4Address(flow.dst_ip))
            salt = switch_salt(plan.fabric.dpid(leaf.node), 0)
            drawn = flow_hash(*ends, 6, ports[flow.src], ports[flow.dst], salt)
            assert leaf.port == ups[drawn % 4]
            n_chosen += 1
        assert n_chosen >= 8


@pytest.mark.long
@pytest.mark.usefixtures("_whole_sample")
def test_a_row_is_held_to_the_error_bar_of_its_own_prediction(tmp_path: Path) -> None:
    trial = replace(TRIAL, fabrics=FABRICS[:1])

    def barred(
        error: float | None, iteration: Bar | None = None, exposed: Bar | None = None
    ) -> Callable[[Path, RunOptions, object], Any]:
        made = fake_laboratory(LIVE_NS * 107 // 100, [])

        def build(folder: Path, options: RunOptions, tell: object) -> Any:
            bench = made(folder, options, tell)
            row = bench.row
            bars = {"predicted_iteration": iteration, "predicted_exposed": exposed}
            bench.row = lambda plan: replace(row(plan), prediction_error=error, **bars)
            return bench

        return build

    bars = {}
    for error in (0.05, 0.2, None):
        (row,) = carry_out(trial, tmp_path / str(error), True, FakeLive(), barred(error)).rows
        bars[error] = (row.error_bar, row.is_within)
    assert bars == {0.05: (0.05, False), 0.2: (ERROR_BAR, True), None: (ERROR_BAR, True)}
    of_iterations = barred(0.05, Bar(1.0, 0.92, 1.09), Bar(0.75))
    (row,) = carry_out(trial, tmp_path / "iteration", True, FakeLive(), of_iterations).rows
    assert row.error_bar == pytest.approx(0.09)
    assert row.predicted_s == 1.0
    assert row.predicted_error == pytest.approx(9.0)
    assert row.is_within


@pytest.mark.usefixtures("_whole_sample")
def test_a_live_job_that_fails_is_refused_with_its_line_and_the_others_go_on(tmp_path: Path) -> None:
    live = FakeLive({FABRICS[1]: "rank 3 ended with exit code 1: out of luck"})
    matrix = carry_out(TRIAL, tmp_path / "m", True, live, fake_laboratory(LIVE_NS, []))
    assert [row.verdict for row in matrix.rows] == ["valid", REFUSED, REFUSED, REFUSED]
    failed = tmp_path / "m" / matrix.live[1].folder
    assert (failed / "out.r3.txt").read_text() == "its last words"
    assert "out of luck" in matrix.rows[1].reasons[0]
    assert any("out of luck" in line for line in notes(matrix))


@pytest.mark.long
@pytest.mark.usefixtures("_whole_sample")
def test_a_matrix_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    live, done = FakeLive({FABRICS[1]: "died"}), list[str]()
    carry_out(TRIAL, folder, True, live, fake_laboratory(LIVE_NS, done))
    assert (live.trained, done) == (list(FABRICS), [FABRICS[0]])
    again, more = FakeLive(), list[str]()
    matrix = carry_out(TRIAL, folder, True, again, fake_laboratory(LIVE_NS, more))
    assert again.trained == [FABRICS[1]]  # the first is not trained again
    assert more == [FABRICS[1], FABRICS[0], FABRICS[1]]  # nor is what was measured measured again
    assert all(row.verdict == "valid" for row in matrix.rows)
    assert [path.name for path in (folder / "live").glob("*failed*")] == ["02-star_hosts=8_rate=20M.failed-1"]


@pytest.mark.usefixtures("_whole_sample")
def test_rows_that_the_machine_disturbed_are_measured_again(tmp_path: Path) -> None:
    trial, done = replace(TRIAL, fabrics=FABRICS[:1]), list[str]()
    made = fake_laboratory(LIVE_NS, done)

    def disturbed(folder: Path, options: RunOptions, tell: object) -> Any:
        bench = made(folder, options, tell)
        row, why = bench.row, ("other guests took the CPUs",)
        bench.row = lambda plan: replace(row(plan), verdict="not valid", reasons=why, machine=why)
        return bench

    (row,) = carry_out(trial, tmp_path / "m", True, FakeLive(), disturbed).rows
    assert (row.is_valid, row.machine) == (False, ("other guests took the CPUs",))
    for n_done in (2, 2):  # measured once more, and then kept
        (row,) = carry_out(trial, tmp_path / "m", True, FakeLive(), made).rows
        assert (row.is_valid, len(done)) == (True, n_done)


@pytest.mark.usefixtures("_whole_sample")
def test_an_interrupted_job_interrupts_the_matrix(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry_out(TRIAL, tmp_path / "m", True, FakeLive({FABRICS[0]: "interrupted"}), fake_laboratory(1, []))


@pytest.mark.usefixtures("_whole_sample")
def test_a_matrix_that_is_interrupted_while_captures_are_written_keeps_them_and_ends(tmp_path: Path) -> None:
    live, done = FakeLive(), list[str]()

    def interrupted(*arguments: Any, **keywords: Any) -> Captured:
        return replace(live(*arguments, **keywords), interrupted=True)

    with pytest.raises(KeyboardInterrupt):
        carry_out(TRIAL, tmp_path / "m", True, interrupted, fake_laboratory(LIVE_NS, done))
    assert (live.trained, done) == ([FABRICS[0]], [])
    later = FakeLive()
    carry_out(TRIAL, tmp_path / "m", True, later, fake_laboratory(LIVE_NS, done))
    assert later.trained == [FABRICS[1]]


@pytest.mark.long
@pytest.mark.usefixtures("_whole_sample")
def test_whoever_interrupts_a_matrix_keeps_its_rows_and_what_it_is_of(tmp_path: Path) -> None:
    done = list[str]()
    made = fake_laboratory(LIVE_NS, done)

    def interrupted(folder: Path, options: RunOptions, tell: object) -> Any:
        bench = made(folder, options, tell)
        row = bench.row

        def second_ends(plan: Plan) -> Row:
            if len(done) == 1:
                raise KeyboardInterrupt
            return row(plan)  # type: ignore[no-any-return]

        bench.row = second_ends
        return bench

    about = About(("trust", "ddp"), "2026-07-04T10:15:00Z", "0.1.0")
    with pytest.raises(KeyboardInterrupt):
        carry_out(TRIAL, tmp_path / "m", True, FakeLive(), interrupted, about)
    kept = load(tmp_path / "m")
    assert [(row.captured_on, row.replayed_on) for row in kept.rows] == [(FABRICS[0], FABRICS[0])]
    assert (kept.n_rows, kept.is_complete, kept.about) == (4, False, about)
    matrix = carry_out(TRIAL, tmp_path / "m", True, FakeLive(), fake_laboratory(LIVE_NS, done))
    assert matrix.is_complete and len(matrix.rows) == 4


@pytest.mark.usefixtures("_whole_sample")
def test_a_folder_of_another_request_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    carry_out(TRIAL, folder, True, FakeLive(), fake_laboratory(LIVE_NS, []))
    with pytest.raises(ValueError, match=r"other settings \(repeats\)"):
        carry_out(replace(TRIAL, repeats=3), folder, True, FakeLive(), fake_laboratory(LIVE_NS, []))
    request = json.loads((folder / "request.json").read_text())
    version = request.pop("version")  # which the first files did not have
    for older in (request, request | {"version": version - 1}):
        (folder / "request.json").write_text(json.dumps(older))
        with pytest.raises(ValueError, match="was begun by a version of gradwire that trains or replays"):
            carry_out(TRIAL, folder, True, FakeLive(), fake_laboratory(LIVE_NS, []))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ValueError, match="holds other files"):
        carry_out(TRIAL, tmp_path / "full", True, FakeLive(), fake_laboratory(LIVE_NS, []))


@pytest.mark.usefixtures("_whole_sample")
def test_a_capture_that_is_not_what_the_job_logged_makes_no_valid_row(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    trial = replace(TRIAL, fabrics=FABRICS[:1])
    carry_out(trial, folder, True, FakeLive(), fake_laboratory(LIVE_NS, []))
    (place,) = (folder / "live").iterdir()
    check = {"agrees": False, "differences": ["iteration 1, buckets: logged 4 B, in the captures none"]}
    (place / "manifest.json").write_text(json.dumps({"check": {"agrees": True}, "check_trimmed": check}))
    (folder / "rows" / "01-01.json").unlink()
    (row,) = carry_out(trial, folder, True, FakeLive(), fake_laboratory(LIVE_NS, [])).rows
    assert row.verdict == "not valid"
    assert "the trimmed capture is not what the job logged: iteration 1" in row.reasons[0]


def test_what_counts_as_a_failure() -> None:
    assert not ROW.is_failure
    assert replace(ROW, error=-ERROR_BAR - 0.001).is_failure
    assert replace(ROW, verdict="not valid").is_failure
    refused = replace(ROW, verdict=REFUSED, replay=None, error=None)
    assert refused.is_failure
    unsteady = IterationTime(0.1, 0.08, 0.12, 8)
    assert not replace(refused, live=unsteady).is_failure
    assert replace(ROW, error=0.2, live=unsteady).is_failure  # only a refusal is excused


def test_the_summary_is_of_the_rows_that_count() -> None:
    refused = replace(ROW, verdict=REFUSED, replay=None, error=None)
    excused = replace(refused, live=IterationTime(0.1, 0.08, 0.12, 8))
    rows = [ROW, replace(ROW, error=-0.05), replace(ROW, error=0.2), refused, excused]
    summary = Summary.of([*rows, replace(ROW, verdict="not valid", error=0.9)])
    assert (summary.rows, summary.valid, summary.within) == (5, 3, 2)
    assert (summary.refused, summary.excused, summary.failures) == (1, 1, 3)
    assert summary.mean_error == pytest.approx((0.01 + 0.05 + 0.2) / 3)
    assert summary.worst_error == 0.2


def test_the_page_names_every_row_and_escapes_what_a_job_said() -> None:
    refused = replace(ROW, verdict=REFUSED, replay=None, error=None, reasons=("<script>alert()</script>",))
    matrix = replace(MATRIX, rows=(ROW, refused))
    text = page(matrix)
    assert text.count("a → b") >= 2
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert all(str(escape(sentence)) in text for sentence in sentences(matrix))


@pytest.mark.parametrize(
    ("there_s", "said"),
    [
        (0.0119, None),
        (0.0131, "warning"),
        (0.0069, "warning"),
        (0.0161, "reason"),
        (0.0, "reason"),
        (None, None),
    ],
)
def test_a_row_says_where_the_job_itself_took_longer_to_compute(
    there_s: float | None, said: str | None
) -> None:
    """Of a live iteration of 100 ms: above 2 ms a warning, above 5 ms it is another job."""
    row = judged_by_computing(ROW, there_s, 0.010)
    assert judged_by_computing(ROW, 0.010, there_s).verdict == row.verdict
    assert row.is_valid == (said != "reason")
    assert (len(row.warnings), len(row.reasons)) == (said == "warning", said == "reason")
    for text in (*row.warnings, *row.reasons):
        assert there_s is not None
        assert (
            f"took {show_s(there_s)} of an iteration to compute where it was captured, and 10 ms here" in text
        )


@pytest.mark.usefixtures("_whole_sample")
@pytest.mark.parametrize("fabrics", [FABRICS, ("star:hosts=8,rate=50M", "fat-tree:k=4,levels=2,rate=50M")])
def test_a_job_that_took_much_longer_to_compute_where_it_was_captured_is_another(
    tmp_path: Path, fabrics: tuple[str, str]
) -> None:
    """Of an iteration of 100 ms: 11 and 5 ms are 6 % apart, 11 and 7 ms are 4 %."""
    for here_ns, verdict in ((5_000_000, "not valid"), (7_000_000, "valid")):
        live = FakeLive(computed_ns=(11_000_000, here_ns))
        trial = replace(TRIAL, fabrics=fabrics)
        matrix = carry_out(trial, tmp_path / verdict, True, live, fake_laboratory(LIVE_NS, []))
        assert [one.computed_s for one in matrix.live] == [0.011, here_ns / 1e9]
        assert [row.verdict for row in matrix.rows] == ["valid", verdict, verdict, "valid"]
        said = (*matrix.rows[1].reasons, *matrix.rows[1].warnings)
        assert any("took 11 ms of an iteration to compute where it was captured" in text for text in said)
        assert not matrix.rows[1].machine  # another replay would not change that
        again = carry_out(trial, tmp_path / verdict, True, live, fake_laboratory(LIVE_NS, []))
        assert again.rows == matrix.rows


@pytest.mark.usefixtures("_whole_sample")
def test_what_several_trainings_computed_counts_by_its_median(tmp_path: Path) -> None:
    """As their iterations do where hosts have one path; the diagonal is judged, too."""
    live = FakeLive(computed_ns=(20_000_000, 11_000_000, 12_000_000))
    trial = replace(TRIAL, fabrics=FABRICS[:1], trainings=3)
    (row,) = carry_out(trial, tmp_path, True, live, fake_laboratory(LIVE_NS, [])).rows
    assert row.verdict == "not valid"
    assert "took 20 ms of an iteration to compute where it was captured, and 12 ms here" in row.reasons[-1]


@pytest.mark.usefixtures("_whole_sample")
def test_of_several_paths_only_trainings_that_computed_as_long_are_replayed(tmp_path: Path) -> None:
    """The second on the fat-tree took 14 ms longer to compute, and 200 ms an iteration."""
    live = FakeLive(
        computed_ns=(11_000_000, 11_000_000, 11_000_000, 25_000_000),
        periods_ns=(LIVE_NS, LIVE_NS, LIVE_NS, 2 * LIVE_NS),
    )
    trial = replace(TRIAL, fabrics=("star:hosts=8,rate=50M", "fat-tree:k=4,levels=2,rate=50M"), trainings=2)
    _, row, _, _ = carry_out(trial, tmp_path, True, live, fake_laboratory(LIVE_NS, [])).rows
    assert row.is_valid
    assert row.error == pytest.approx(0.0, abs=1e-6)


def test_what_is_noted_of_a_training_names_its_job_and_is_on_the_page() -> None:
    lives = (Live("a", "live/01-a", MEASURED, waited=0.06), Live("a", "", MEASURED, job=1, waited=0.3))
    matrix = TrustMatrix("ddp-mlp", 8, "ecmp", 128, lives, (ROW, replace(ROW, job=1)), beside=("ddp-gpt",))
    said = list(notes(matrix))
    assert [line.split(" for ")[0] for line in said] == [
        "note: a: a rank's threads waited",
        "note: a, beside-1: a rank's threads waited",
    ]
    text = page(matrix)
    assert all(str(escape(line)) in text for line in said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ddp", "--iterations", "4", "--fabric", "star:hosts=4"], "4 iterations are too few"),
        (["ddp", "--fabric", "star:hosts=4", "--fabric", "star:hosts=4"], "a fabric is given twice"),
        (["ddp", "--ranks", "8", "--fabric", "star:hosts=4"], "8 ranks do not fit on the 4 hosts"),
        (["ps", "--ranks", "8", "--fabric", "star:hosts=8"], "--ranks does not apply to ps"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, "trust", *arguments)


def test_without_pytorch_a_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(livejob, "need_root_and_tools", lambda *_, **__: None)
    monkeypatch.setattr(livejob, "find_spec", lambda name: None)
    monkeypatch.setattr(livejob, "which", lambda name: name)
    assert "run sudo ./gradwire setup --live" in refusal(capsys, "trust", "ddp", "--fabric", "star:hosts=4")


def test_a_result_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"schema": "gradwire.trust/1"}')
    with pytest.raises(BadRun):
        load(tmp_path)


@pytest.mark.parametrize(
    ("rows", "least_valid", "good"),
    [
        ([ROW] * 10, 1.0, True),
        ([ROW] * 9 + [replace(ROW, verdict="not valid")], 0.9, True),
        ([ROW] * 9 + [replace(ROW, verdict="not valid")], 1.0, False),
        ([ROW] * 9 + [replace(ROW, error=-0.061)], 1.0, False),
        ([replace(ROW, error=0.031)] * 10, 1.0, False),
        ([replace(ROW, verdict="not valid")], 0.0, False),
    ],
    ids=["good", "nine of ten will do", "all must be valid", "one far off", "all a little off", "none valid"],
)
def test_the_benchmark_judges_each_job_by_its_errors_and_by_how_many_rows_are_valid(
    rows: list[TrustRow], least_valid: float, good: bool
) -> None:
    assert is_good("mlp", rows, least_valid) is good


def test_the_benchmark_wants_all_rows_of_the_mlp_and_of_parameter_servers() -> None:
    assert {name for name, case in CASES.items() if case.least_valid == 1.0} == {"mlp", "ps", "ps-async"}
