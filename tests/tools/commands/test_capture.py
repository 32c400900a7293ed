"""`gradwire capture`: what it refuses before anything is begun."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from gradwire.emu.capturing.finish import Checked, HostCapture, TimesCheck, write_rank_map
from gradwire.emu.capturing.manifest import Ended, manifest
from gradwire.emu.capturing.request import CaptureRequest
from gradwire.emu.capturing.run import Ran
from gradwire.emu.network.tcpdump import TcpdumpCounts
from gradwire.emu.training.options import TrainingOptions
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.capturing import Captured, report_lines, show
from gradwire.tools.options import livejob
from gradwire.traces.groundtruth import LoggedEvent, RankLog
from gradwire.traces.reader import SETTINGS, read_settings
from tests.commandlines import refusal
from tests.documented import documented_fields


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ddp", "--servers", "2"], "--servers does not apply to ddp, only to ps"),
        (["ps", "--ranks", "8"], "--ranks does not apply to ps, only to a program and ddp"),
        (["ps", "--async", "--once"], "--once does not apply to ps, only to a program"),
        (["--model", "gpt", "--", "true"], "--model does not apply to a program, only to ddp and ps"),
        (["ddp", "--model", "vgg"], "there is no model 'vgg'; choose from mlp, resnet18, gpt"),
        (["ddp", "--ranks", "1"], "2 to 64 ranks, got 1"),
        (["ddp", "--slow", "4=×2"], "cannot slow down rank 4: the job has ranks 0 to 3"),
        (["ddp", "--slow", "1=1/2"], "rank 1 can be slowed down 1 to 100 times, got 0.5"),
        (["--slow", "1=2", "--", "true"], "--slow does not apply to a program, only to ddp and ps"),
        (["ddp", "--iterations", "0"], "1 to 100000 iterations, got 0"),
        (["ddp", "--limit", "0"], "time limit must be above 0"),
        (["ddp", "--ranks", "4", "--fabric", "star:hosts=3"], "4 ranks do not fit on the 3 hosts of star:"),
        (["ddp", "--fabric", "ring:hosts=3"], "no family 'ring'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, "capture", *arguments)


def test_without_pytorch_a_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(livejob, "need_root_and_tools", lambda *_, **__: None)
    monkeypatch.setattr(livejob, "find_spec", lambda name: None)
    monkeypatch.setattr(livejob, "which", lambda name: name)
    assert "run sudo ./gradwire setup --live" in refusal(capsys, "capture", "ddp")


def test_a_program_that_is_not_there_is_refused_before_anything_is_built(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(livejob, "need_root_and_tools", lambda *_, **__: None)
    assert "cannot find the program no-such-program" in refusal(capsys, "capture", "--", "no-such-program")


def test_a_request_comes_back_from_its_file(tmp_path: Path) -> None:
    for request in (
        CaptureRequest(5, "star:hosts=5", TrainingOptions(servers=2, asynchronous=True)),
        CaptureRequest(2, "star:hosts=2", command=("sh", "-c", "echo $RANK"), once=True, limit_s=5.0),
    ):
        request.save(tmp_path)
        assert CaptureRequest.load(tmp_path) == request


def test_servers_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="leave no worker"):
        CaptureRequest(3, "star:hosts=3", TrainingOptions(servers=3))


def test_the_rank_map_is_one_that_the_reader_reads(tmp_path: Path) -> None:
    fabric = parse_fabric("star:hosts=4")
    write_rank_map(tmp_path, fabric, fabric.hosts[:3])
    assert read_settings(tmp_path / SETTINGS) == {fabric.ip(f"h{rank}"): rank for rank in range(3)}


def test_the_fields_of_a_captures_files_are_those_documented() -> None:
    fabric, request = parse_fabric("star:hosts=2"), CaptureRequest(2, "star:hosts=2", TrainingOptions())
    host = HostCapture(0, "h0", "10.0.0.1", "h0-eth0", "h0.pcap", 1, "", None)
    checked = Checked(agrees=True)
    times = TimesCheck(agrees=True, iteration_ns=1, limit_ns=1, spreads={}, differences=())
    ended = Ended(0, 1.0, Ran(None, 0.5, 0.01, 0.02), 128, False)
    made = manifest(request, fabric, [], ended, [host], checked, checked, times)
    assert set(made) == documented_fields("manifest.json of a capture")
    assert set(made["hosts"][0]) == documented_fields("manifest.json of a capture: hosts")
    assert set(made["check"]) == documented_fields("manifest.json of a capture: check")
    spread = {"n", "p95_ns", "largest_ns", "begun", "done", "gap"}
    documented = documented_fields("manifest.json of a capture: check_times")
    assert set(made["check_times"]) == documented - spread
    assert set(RankLog.model_fields) <= documented_fields("log.rN.json")
    assert set(LoggedEvent.model_fields) == documented_fields("log.rN.json: events")


ALL_THERE = Checked(agrees=True)
HIDDEN = Checked(agrees=False, differences=("tag: 3 of 9 messages differ",))


def captured(
    dropped: int | None,
    check: Checked | None,
    cut_short: str | None = None,
    trimmed: Checked = ALL_THERE,
    times: TimesCheck | None = None,
    stolen: float = 0.0,
    beside: float | None = 0.0,
) -> Captured:
    counted = None if dropped is None else TcpdumpCounts(10, 10 + dropped, dropped)
    host = HostCapture(0, "h0", "10.0.0.1", "h0-eth0", "h0.pcap", 1000, "", counted)
    made = {
        "cut_short": cut_short,
        "cpu_stolen": stolen,
        "cpu_beside": beside,
        "programs_beside": {"cc1plus": beside} if beside else {},
        "snaplen": 128,
        "seconds": 1.0,
        "keeps_payload": False,
    }
    return Captured(Path("folder"), json.loads(json.dumps(made)), (host,), check, trimmed, times)


@pytest.mark.parametrize(
    ("stolen", "beside", "said"),
    [
        (0.05, 0.05, []),
        (0.0, None, []),
        (0.2, 0.0, ["20% of the CPUs went to other guests"]),
        (0.0, 0.2, ["other programs used 20% of the CPUs (cc1plus 20%)"]),
    ],
)
def test_who_had_the_cpus_while_the_job_ran_is_named(
    stolen: float, beside: float | None, said: list[str]
) -> None:
    lines = report_lines(captured(0, ALL_THERE, stolen=stolen, beside=beside))
    disturbed = [line for line in lines if line.startswith("disturbed")]
    assert len(disturbed) == len(said)
    assert all(part in line for part, line in zip(said, disturbed, strict=True))


LATE = TimesCheck(
    False,
    60_000_000,
    10_000_000,
    {"done": {"n": 9, "p95_ns": 2_000_000, "largest_ns": 4_000_000}},
    ("done: off",),
)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (captured(0, None, trimmed=HIDDEN), "not read as the whole ones: tag: 3 of 9 messages differ"),
        (captured(0, None, times=LATE), "times not as logged: done: off"),
        (captured(0, None, times=LATE), "95 % within: done 2 ms (largest 4 ms); an iteration takes 60 ms"),
        (captured(7, None), "the captures lack 7 packets"),
        (captured(None, None), "tcpdump did not come to its end on h0"),
        (captured(0, None, "interrupted"), "cut short: interrupted"),
        (captured(0, Checked(agrees=True, n_compared=3, nbytes=9)), "equals the job's own logs (3 entries"),
        (captured(0, Checked(agrees=False, differences=("it 1: a", "it 2: b"))), "CHECK FAILED: it 1: a"),
        (captured(0, Checked(agrees=False, why="no gloo traffic")), "CHECK FAILED: no gloo traffic"),
        (captured(0, Checked(None, why="no log")), "not checked: no log"),
    ],
)
def test_what_is_lacking_is_told_and_the_next_step_too(made: Captured, said: str) -> None:
    lines = list(report_lines(made))
    assert any(said in line for line in lines)
    assert lines[-1] == "next: ./gradwire inspect folder"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (captured(0, Checked(agrees=True)), 0),
        (captured(0, Checked(None, why="no log"), trimmed=Checked(None, why="no packets")), 0),
        (captured(0, Checked(agrees=False, why="it 1: a")), 3),
        (captured(0, Checked(agrees=True), trimmed=HIDDEN), 3),
        (replace(captured(0, None, cut_short="interrupted", trimmed=HIDDEN), interrupted=True), 130),
        (replace(captured(0, Checked(agrees=True)), interrupted=True), 130),
        (captured(0, None, cut_short="the limit"), 1),
    ],
)
def test_the_exit_code_says_whether_the_capture_can_be_trusted(made: Captured, code: int) -> None:
    if code == 0:
        show(made, as_json=False)
        return
    with pytest.raises(typer.Exit) as left:
        show(made, as_json=False)
    assert left.value.exit_code == code


def test_times_decide_the_exit_code_where_a_busy_machine_does_not_explain_them() -> None:
    late = captured(0, Checked(agrees=True), times=LATE)
    wrong = captured(0, Checked(agrees=True), times=replace(LATE, faults=("gap: off",)))
    assert late.is_faithful
    assert not wrong.is_faithful
    assert "CHECK FAILED: times: gap: off" in list(report_lines(wrong))
