"""What is to be captured, with jobs beside it: who lives where, and what is left in which folder."""

import io
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.capturing.job import RankProcesses
from gradwire.emu.capturing.request import MAX_CAPTURED_RANKS, CaptureRequest, check_fits
from gradwire.emu.training.options import TrainingOptions
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.options.livejob import parse_beside

FABRIC = parse_fabric("star:hosts=9")
DDP = CaptureRequest(4, FABRIC.spec, TrainingOptions(slow=((1, 2.0),)))
PS = CaptureRequest(3, FABRIC.spec, TrainingOptions(servers=1))
PROGRAM = CaptureRequest(2, FABRIC.spec, command=("true",))


def test_each_job_has_hosts_of_its_own_in_order() -> None:
    made = DDP.with_beside([PS, PROGRAM])
    assert [job.hosts(FABRIC) for job in made.jobs] == [
        ("h0", "h1", "h2", "h3"),
        ("h4", "h5", "h6"),
        ("h7", "h8"),
    ]
    check_fits(made, FABRIC)
    with pytest.raises(ValueError, match="9 ranks do not fit on the 8 hosts"):
        check_fits(made, parse_fabric("star:hosts=8"))


def test_each_job_has_a_folder_of_its_own() -> None:
    made = DDP.with_beside([PS, PROGRAM])
    folders = [place for _, place in made.parts(Path("c"))]
    assert folders == [Path("c"), Path("c/beside-1"), Path("c/beside-2")]


def test_a_request_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    made = DDP.with_beside([PS, PROGRAM])
    made.save(tmp_path)
    assert CaptureRequest.load(tmp_path) == made


def test_all_ranks_together_are_bounded() -> None:
    half = CaptureRequest(MAX_CAPTURED_RANKS // 2, FABRIC.spec, command=("true",))
    assert half.with_beside([half]).total_ranks == MAX_CAPTURED_RANKS
    with pytest.raises(ValueError, match="up to 64 ranks, got 66"):
        half.with_beside([half, PROGRAM])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ddp --bogus 3", "No such option: --bogus"),
        ("ddp --ranks many", "--ranks"),
        ("ps --ranks 3", "--ranks does not apply to ps"),
        ("'ddp", "No closing quotation"),
        ("", "Missing"),
        ("ddp --limit 3", "No such option: --limit"),
    ],
)
def test_a_text_that_names_no_job_is_refused_with_the_text(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="--beside ") as caught:
        parse_beside([text])
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)


def test_a_job_beside_is_told_in_the_words_of_the_first() -> None:
    ps, program = parse_beside(["ps --servers 2 --workers 3 --async", "--ranks 2 -- python 'my train.py'"])
    assert (ps.kind, ps.n_ranks, ps.asynchronous) == ("ps", 5, True)
    assert (program.n_ranks, program.words) == (2, ("python", "my train.py"))


class FakeProcess:
    """Ends when it has been asked a few times."""

    def __init__(self, code: int) -> None:
        self.returncode = code
        self.asked = 0

    def poll(self) -> int | None:
        self.asked += 1
        return self.returncode if self.asked > 3 else None


def made_job(code: int, output: Path, lines: io.StringIO | None = None) -> RankProcesses:
    process: Any = FakeProcess(code)
    return RankProcesses({"the job": process}, {"the job": output}, lines)


class FakeWatch:
    """Everything can always be read."""

    def wait(self, readers: list[Any], seconds: float) -> list[Any]:
        del seconds
        return [reader for reader in readers if isinstance(reader, io.StringIO)]


def test_jobs_together_end_with_the_last_and_only_the_first_ones_progress_is_heard(tmp_path: Path) -> None:
    first = made_job(0, tmp_path / "a", io.StringIO("iteration 0\niteration 1\n"))
    second = made_job(0, tmp_path / "b", io.StringIO("iteration 7\n"))
    heard: list[str] = []
    watch, stop = FakeWatch(), object()
    both = first.with_beside([second])
    assert both.follow(watch, stop, 10, heard.append) is None  # type: ignore[arg-type]
    assert heard == ["iteration 0", "iteration 1"]
    assert second.lines is not None and second.lines.read() == ""  # nobody waits for room in its pipe


def test_a_job_beside_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("out of luck\n")
    both = made_job(0, tmp_path / "a").with_beside([made_job(7, tmp_path / "b")])
    assert both._failure("beside-1: the job") == "beside-1: the job ended with exit code 7: out of luck"
