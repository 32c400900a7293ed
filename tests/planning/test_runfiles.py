"""Run folders that were damaged: each file that is read again, spoilt in any way, is a line that names it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradwire.emu.events import load_events
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import Failure
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import BadPlan, Plan
from gradwire.planning.runfiles import BadRun
from gradwire.results.runview import load_run
from gradwire.tools import cli
from gradwire.tools.work.audit import _audited
from tests.made_counters import switches_json, write_counters
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events, made_run, sample_ports

PLAN = allreduce_plan("leaf-spine:leaves=2,spines=2,hosts=1")
FAILING = replace(PLAN, failures=(Failure(Egress("leaf0", 2), 10**8, None),))
NANO = 10**9


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Whole runs of both plans, by whether it has failures; both can be read."""
    made = {}
    for plan in (PLAN, FAILING):
        folder = made[bool(plan.failures)] = tmp_path_factory.mktemp("made") / "run"
        whole_run(folder, plan)
        assert load_run(folder).counted is not None
        _audited(folder)
    return made


def whole_run(folder: Path, plan: Plan) -> None:
    """A run of one repeat with every file that is read again."""
    made_run(folder, plan)
    write_counters(folder, switches_json(plan))
    (folder / "options.json").write_text(json.dumps({"repeats": 1, "switch": "gradwire"}))
    sample_ports(folder, [dict.fromkeys(plan_load(plan).loads, (100_000, 100))])
    events: list[dict[str, Any]] = [{"event": "start", "t_ns": 0}]
    for number, send in enumerate(plan.schedule.sends):
        for event, rank in (("queued", send.src), ("arrived", send.dst)):
            events.append({"event": event, "t_ns": NANO + number, "send": number, "rank": rank})
    made_events(folder, 0, events)
    if plan.failures:
        change = {"repeat": 0, "cable": "leaf0-spine0", "switch": "leaf0", "port": 2, "event": "down"}
        times = {"start_ns": 0, "due_ns": 10, "done_ns": 20}
        (folder / "failures.json").write_text(json.dumps([change | times]))
        line = {"time_ns": 30, "event": "port_down", "switch": "leaf0", "port": 2}
        (folder / "control.jsonl").write_text(_lines([line]))


def _lines(values: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def _wrong_json(octets: bytes) -> bytes:
    """The first number in it is a word."""
    at = next(i for i, octet in enumerate(octets) if octets[i - 2 : i] == b": " and chr(octet).isdigit())
    end = next(i for i in range(at, len(octets)) if not (chr(octets[i]).isdigit() or octets[i] in b".e-"))
    return octets[:at] + b'"much"' + octets[end:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no bytes": lambda _: b"",
    "cut": lambda octets: octets[: len(octets) * 2 // 3],
    "other": lambda _: b"[[1]]\n",
    "wrong type": _wrong_json,
    "noise": lambda octets: b"\xff\x00" * len(octets),
}
FILES = [
    (PLAN, "plan.json"),
    (PLAN, "repeats.json"),
    (PLAN, "switches.json"),
    (PLAN, "options.json"),
    (PLAN, "links.parquet"),
    (PLAN, "events/repeat-0.parquet"),
    (PLAN, "verdict.json"),
    (PLAN, "manifest.json"),
    (FAILING, "failures.json"),
    (FAILING, "control.jsonl"),
]
NOT_AUDITED = {"verdict.json", "manifest.json", "failures.json", "control.jsonl"}
# Any object will do for a manifest; the first number of the counters is a priority, which nobody reads.
FREE = {("manifest.json", "wrong type"), ("switches.json", "wrong type")}
PER_LINE = {("control.jsonl", "no bytes")}  # no lines are not a mistake


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("plan", "name"), FILES, ids=[name for _, name in FILES])
def test_a_damaged_file_is_one_line_that_names_it_and_what_is_wrong(
    tmp_path: Path, runs: dict[bool, Path], plan: Plan, name: str, damage: str
) -> None:
    folder = shutil.copytree(runs[bool(plan.failures)], tmp_path / "run")
    if (name, damage) in FREE | PER_LINE or (name.endswith("parquet") and damage == "wrong type"):
        return
    path = folder / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    for read in (load_run, _audited) if name not in NOT_AUDITED else (load_run,):
        with pytest.raises((BadRun, BadPlan)) as caught:
            read(folder)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text
        for foreign in ("Input should", "Invalid JSON", "Expecting", "validation error", "codec", ": : "):
            assert foreign not in text


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("repeats.json", "time_s", 0, "repeat 0: time_s is 0.0, not a time above 0"),
        ("repeats.json", "time_s", float("nan"), "repeat 0: time_s is nan, not a time above 0"),
        ("repeats.json", "retransmits", [0], "repeat 0: retransmits has 1 values for 2 ranks"),
        ("repeats.json", "wrong", "many", "0.wrong is not a whole number"),
        ("events/repeat-0.parquet", "send", 10**6, "send 1000000 is not in the plan"),
        ("events/repeat-0.parquet", "send", -1, "send -1 is not in the plan"),
        ("events/repeat-0.parquet", "rank", 9, "rank 9 is not in the plan"),
        ("events/repeat-0.parquet", "event", "slept", "it has an unknown event, 'slept'"),
        ("failures.json", "port", 99, "leaf0 has no port 99 in leaf-spine:leaves=2,spines=2,hosts=1"),
        ("failures.json", "event", "sideways", "0.event is not 'down' or 'up'"),
        ("switches.json", "flows", 7, "not a counters file: flows is not a list"),
        ("options.json", "switch", "magic", "there is no switch 'magic'; choose from gradwire, ovs"),
    ],
)
def test_what_is_whole_but_cannot_be_is_refused_with_its_place(
    tmp_path: Path, runs: dict[bool, Path], name: str, key: str, value: Any, reason: str
) -> None:
    folder = shutil.copytree(runs[name == "failures.json"], tmp_path / "run")
    path = folder / name
    if name.endswith("parquet"):
        rows = pq.read_table(path).to_pylist()
        rows[1][key] = value
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        content = json.loads(path.read_text())
        (content[0] if isinstance(content, list) else content)[key] = value
        path.write_text(json.dumps(content))
    with pytest.raises(BadRun) as caught:
        load_run(folder)
    assert str(caught.value) == f"{path}: {reason}; run it again"


def _twice(table: pa.Table) -> pa.Table:
    return table.append_column("send", table["send"])


def _unsigned(table: pa.Table) -> pa.Table:
    return table.set_column(0, "repeat", table["repeat"].cast(pa.uint64()))


def _huge(table: pa.Table) -> pa.Table:
    """A small file, as each of its rows is the same."""
    return table.set_column(
        table.schema.names.index("event"), "event", pa.array(["x" * 10**5] * len(table), pa.string())
    )


@pytest.mark.parametrize("use_dictionary", [False, True])
@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (_twice, "it has several columns named send"),
        (_unsigned, "its column repeat has the wrong type, uint64"),
        (_huge, r"its \d+ rows would unpack to [\d,]{7,} bytes"),
    ],
)
def test_a_table_with_other_columns_than_ours_is_refused(
    tmp_path: Path,
    runs: dict[bool, Path],
    spoilt: Callable[[pa.Table], pa.Table],
    reason: str,
    use_dictionary: bool,
) -> None:
    path = shutil.copytree(runs[False], tmp_path / "run") / "events" / "repeat-0.parquet"
    pq.write_table(spoilt(pq.read_table(path)), path, compression="zstd", use_dictionary=use_dictionary)
    assert path.stat().st_size < 10**5
    with pytest.raises(BadRun, match=reason):
        load_run(path.parents[1])


def test_a_table_that_may_not_be_read_is_not_called_incomplete(
    runs: dict[bool, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(pq, "read_metadata", refuse)
    with pytest.raises(PermissionError, match=r"events/repeat-0\.parquet"):
        load_events(runs[False], PLAN, 0)


def test_files_of_two_runs_do_not_belong_together(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    whole_run(folder, PLAN)
    plans.save(allreduce_plan("leaf-spine:leaves=2,spines=2,hosts=2"), folder / "plan.json")
    for read in (load_run, _audited):
        with pytest.raises(BadRun, match=r"repeats\.json: repeat 0: rank_time_s has 2 values for 4 ranks"):
            read(folder)


def test_a_folder_of_a_run_that_never_finished_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "01-run.incomplete"
    whole_run(folder, PLAN)
    with pytest.raises(BadRun, match="never finished"):
        load_run(folder)
    for given in (folder, tmp_path):
        with pytest.raises(SystemExit) as left:
            cli.main(["audit", str(given)])
        assert left.value.code == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"gradwire: {folder}: this run never finished")
