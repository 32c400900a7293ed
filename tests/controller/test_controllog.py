"""The control log: every line an object, notes bounded."""

import json
import time
from pathlib import Path

import pytest

from gradwire.controller.controllog import ControlLog


def test_each_event_is_a_line_at_its_time_and_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ControlLog(path)
    before_ns = time.monotonic_ns()
    log.write("port_down", switch="leaf0", port=3)
    (line,) = map(json.loads, path.read_text().splitlines())
    assert before_ns <= line.pop("time_ns") <= time.monotonic_ns()
    assert line == {"event": "port_down", "switch": "leaf0", "port": 3}
    log.close()


def test_a_log_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for event in ("one", "two"):
        log = ControlLog(path)
        log.write(event)
        log.close()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["one", "two"]


def test_without_a_file_only_notes_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    log = ControlLog(None)
    log.write("switch_came", switch="leaf0")
    log.note("somebody knocked")
    assert capsys.readouterr() == ("", "controller: somebody knocked\n")


def test_who_knocks_without_end_does_not_fill_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = ControlLog(tmp_path / "log")
    for number in range(1000):
        log.note(f"knock {number}")
    log.write("settled")
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["text"] for line in lines[:100]] == [f"knock {n}" for n in range(100)]
    assert lines[100]["text"] == "there are more of these notes; they are left out"
    assert [line["event"] for line in lines[101:]] == ["settled"]
    assert len(capsys.readouterr().err.splitlines()) == 100
