"""The trace events are those of the format's description: phases, required fields, nesting, arrows."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gradwire.traces.analysis import perfetto
from gradwire.traces.analysis.perfetto import write_perfetto
from tests.made_analysis import made_analysis, made_messages

# "Trace Event Format" (Chromium): what each phase must have besides name, ph, pid and ts.
REQUIRED: dict[str, set[str]] = {
    "M": {"args"},
    "X": {"tid", "dur"},
    "b": {"id", "cat"},
    "e": {"id", "cat"},
    "s": {"id", "tid", "cat"},
    "f": {"id", "tid", "cat"},
    "C": {"args"},
}


def written(tmp_path: Path, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    path = tmp_path / "trace.json"
    write_perfetto(made_analysis(), made_messages(count), path)
    value = json.loads(path.read_text())
    return value, value["traceEvents"]


def test_every_event_has_what_its_phase_requires(tmp_path: Path) -> None:
    _, events = written(tmp_path, 5)
    assert {event["ph"] for event in events} == set(REQUIRED)
    for event in events:
        assert {"name", "ph", "pid", "ts"} | REQUIRED[event["ph"]] <= set(event)
        assert isinstance(event["ts"], int | float)
        assert event.get("dur", 0) >= 0


def test_every_rank_is_a_process_with_its_spans(tmp_path: Path) -> None:
    _, events = written(tmp_path, 1)
    names = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert set(names) == {"collectives", "rank 0 (10.0.0.1)", "rank 1 (10.0.0.2)"}
    rank1 = [
        e for e in events if e["ph"] == "X" and e["pid"] == names["rank 1 (10.0.0.2)"] and e["cat"] == "rank"
    ]
    assert sum(event["dur"] for event in rank1) == 400_000  # µs: both iterations
    assert {event["name"] for event in rank1} == {"compute", "exposed communication", "wait"}


def test_slices_of_one_track_never_overlap(tmp_path: Path) -> None:
    _, events = written(tmp_path, 50)
    tracks: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    assert len(tracks) == 4
    for track in tracks.values():
        for one, following in pairwise(track):
            assert one["ts"] + one["dur"] <= following["ts"] + 1e-6


def test_an_arrow_leads_from_each_message_to_its_arrival(tmp_path: Path) -> None:
    _, events = written(tmp_path, 3)
    begins, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    assert begins.keys() == ends.keys()
    assert [round(ends[n]["ts"] - begins[n]["ts"], 3) for n in sorted(begins)] == [5.0] * 3
    assert all(event["bp"] == "e" for event in ends.values())


def test_collectives_begin_and_end_as_pairs(tmp_path: Path) -> None:
    _, events = written(tmp_path, 1)
    begins, ends = ([e["id"] for e in events if e["ph"] == phase] for phase in "be")
    assert begins == ends == [0, 1]


def test_a_counter_ends_at_zero(tmp_path: Path) -> None:
    _, events = written(tmp_path, 1)
    values = [(e["ts"], e["args"]["Mb/s"]) for e in events if e["ph"] == "C"]
    assert values == [(0, 0), (10_000, 500), (30_000, 0)]


def test_only_the_largest_messages_are_drawn_and_the_file_says_how_many_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfetto, "MAX_MESSAGES", 10)
    value, events = written(tmp_path, 25)
    assert value["otherData"]["messages_left_out"] == 15
    assert sum(event["ph"] == "s" for event in events) == 10
