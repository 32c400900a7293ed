"""`-`: a capture, a workload or a plan on standard input."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gradwire.tools import cli, stdin
from gradwire.tools.stdin import with_stdin

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ps_1srv_4wk"


@contextmanager
def standard_input(content: bytes) -> Iterator[None]:
    """A pipe that brings `content` is standard input."""
    before = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)

    def write() -> None:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(content)

    source = Thread(target=write)
    source.start()
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        source.join()


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as left:
        cli.main([*arguments, "--json"])
    shown = capsys.readouterr()
    assert left.value.code == 0, shown.err
    return json.loads(shown.out)


def test_a_capture_on_standard_input_is_read_like_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    first = min(SAMPLE.glob("*.pcap*"))
    with standard_input(first.read_bytes()):
        piped = printed(capsys, "inspect", "-")
    by_name = printed(capsys, "inspect", str(first))
    assert piped["flows"]
    assert piped["flows"] == by_name["flows"]


@pytest.mark.long
def test_a_workload_and_its_plan_come_through_pipes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, path, star = tmp_path / "job.workload.json", tmp_path / "plan.json", ("--fabric", "star:hosts=5")
    printed(capsys, "make", "collective", "--workers", "4", "-o", str(job))
    by_name = printed(capsys, "plan", str(job), *star, "-o", str(path))
    with standard_input(b"\n " + job.read_bytes()):
        assert printed(capsys, "plan", "-", *star)["links"] == by_name["links"]
    with standard_input(path.read_bytes()):
        assert printed(capsys, "plan", "-")["links"] == by_name["links"]
    with standard_input(path.read_bytes()):
        (audited,) = printed(capsys, "audit", "-")
    assert audited["phases"] == printed(capsys, "audit", str(path))[0]["phases"]


def test_paths_without_a_dash_are_as_they_were_and_two_dashes_are_refused() -> None:
    assert with_stdin([Path("a"), Path("b")]) == [Path("a"), Path("b")]
    with pytest.raises(ValueError, match="- is given twice"):
        with_stdin([Path("-"), Path("a"), Path("-")])


def test_more_than_there_is_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "MAX_STDIN_NBYTES", 1000)
    with standard_input(b"x" * 2000), pytest.raises(ValueError, match="standard input has more than 1 kB"):
        with_stdin([Path("-")])
