"""gradwire in Python: docs/api.md runs as it stands, and says nothing that the commands do not say."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gradwire
from gradwire.emu.events import Events
from gradwire.tools import cli
from tests.made_captures import Record, pcap, tcp
from tests.made_plans import allreduce_plan
from tests.made_runs import made_events, made_matrix, made_run
from tests.tshark import tshark_says

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text()
CAPTURE = ROOT / "traces" / "samples" / "slow_ddp_8_mlp_leafspine50M"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the page's examples leave, run one after the other where its files are."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "traces").symlink_to(ROOT / "traces")
    made_matrix(folder / "RESULTS", [allreduce_plan("star:hosts=4")], times_s=(1.0, 2.0, 3.0))
    names: dict[str, Any] = {"FOLDER": folder}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("MPLBACKEND", "agg")
        for example in EXAMPLES:
            exec(compile(example, "docs/api.md", "exec"), names)
    return names


def test_the_page_shows_each_name_that_there_is() -> None:
    functions = [name for name in gradwire.__all__ if name[0].islower()]
    assert [name for name in functions if not re.search(rf"gradwire\.{name}\(|`{name}`", PAGE)] == []


def test_packets_are_those_that_tshark_reads(ran: dict[str, Any]) -> None:
    file = CAPTURE / "h0.pcap.gz"
    fields = ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.seq", "tcp.len", "frame.len")
    wanted = [[packet[name] for name in fields] for packet in tshark_says(file)]
    found = ran["packets"][ran["packets"]["file"].str.endswith(file.name)]
    columns = ["src", "sport", "dst", "dport", "seq", "payload_nbytes", "wire_nbytes"]
    assert [[str(value) for value in row] for row in found[columns].itertuples(index=False)] == wanted


def test_an_inspection_has_the_sentences_and_the_tables(ran: dict[str, Any]) -> None:
    assert ran["job"].summary.startswith("An iteration takes ")
    iterations = ran["job"].tables["iterations"]
    assert list(iterations["iteration"]) == sorted(iterations["iteration"])
    assert (ran["FOLDER"] / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_a_plan_is_the_one_that_the_command_makes(tmp_path: Path, ran: dict[str, Any]) -> None:
    workload = ran["FOLDER"] / "job.workload.json"
    fabric = "bigraph:n=4,m=2,rate=50M"
    words = [str(workload), "--fabric", fabric, "--routes", "planned", "--seed", "3", "--scale-bytes", "0.5"]
    words += ["--scale-ranks", "6", "--bucket-size", "100kB"]
    with pytest.raises(SystemExit) as left:
        cli.main(["plan", *words, "-o", str(tmp_path / "command.json")])
    assert left.value.code == 0
    made = gradwire.plan(
        workload, fabric, routes="planned", seed=3, scale_bytes=0.5, scale_ranks=6, bucket_size="100kB"
    )
    gradwire.save_plan(made, tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == (tmp_path / "command.json").read_text()
    forged = replace(made, prediction=replace(made.prediction, fluid_s=1e-9))
    gradwire.save_plan(forged, tmp_path / "forged.json")
    assert gradwire.load_plan(tmp_path / "forged.json") == made


def test_what_a_run_left_is_in_tables(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made_run(folder, allreduce_plan("star:hosts=4"), times_s=(3.0, 1.0, 2.0, 9.0))
    repeats = json.loads((folder / "repeats.json").read_text())
    repeats[3]["disturbed"] = ["the CPUs were busy"]
    for number, repeat in enumerate(repeats):
        repeat.update(iteration_s=[0.5 + number], exposed_s=[0.25])
    (folder / "repeats.json").write_text(json.dumps(repeats))
    starts = [{"rank": rank, "event": "start", "t_ns": 5 + rank, "due_ns": 4} for rank in range(4)]
    made_events(folder, 0, starts)
    run = gradwire.read_run(folder)
    assert list(run.repeats["time_s"]) == [3.0, 1.0, 2.0, 9.0]
    assert list(run.repeats["counts"]) == [True, True, True, False]
    assert list(run.iterations["iteration_s"]) == [0.5, 1.5, 2.5]
    assert (run.row["verdict"], run.view.repeat.time_s) == ("valid", 2.0)
    assert run.samples.empty and "tx_bytes" in run.samples.columns
    assert list(run.links["busy"]) == sorted(run.links["busy"], reverse=True)
    assert list(run.events[["rank", "t_ns"]].itertuples(index=False, name=None)) == [
        (rank, 5 + rank) for rank in range(4)
    ]
    assert set(run.events.columns) == set(Events.__dataclass_fields__)
    assert set(run.events["event"]) == {"start"}


def test_results_of_several_runs_are_in_tables_with_the_numbers_of_their_cells(tmp_path: Path) -> None:
    """The time of a cell is the median of its repeats, and every link of it is named again."""
    plans = [allreduce_plan("star:hosts=4", name, nbytes=1 << 20) for name in ("ring", "halving-doubling")]
    folders = [made_matrix(tmp_path / name, plans, (1.0, 4.0, 2.0)) for name in ("before", "after")]
    results = gradwire.read_results(*folders)
    names = [(str(folder), cell) for folder in folders for cell in (1, 2)]
    assert list(results.rows[["run", "cell"]].itertuples(index=False, name=None)) == names
    assert list(results.rows["algorithm"]) == ["ring", "halving-doubling"] * 2
    assert list(results.rows["time_s_median"]) == [2.0] * 4
    assert list(results.repeats["time_s"]) == [1.0, 4.0, 2.0] * 4
    of_cells = results.repeats.groupby(["run", "cell"], sort=False)["repeat"].agg(list)
    assert of_cells.to_dict() == {name: [0, 1, 2] for name in names}
    one = gradwire.read_run(folders[1] / "02")
    last = results.links[(results.links["run"] == str(folders[1])) & (results.links["cell"] == 2)]
    assert list(last["nbytes"]) == list(one.links["nbytes"])
    assert set(results.tables) == {"rows", "repeats", "iterations", "ranks", "links", "flows", "samples"}
    with pytest.raises(gradwire.BadRun, match="read them with read_results"):
        gradwire.read_run(folders[0])
    with pytest.raises(ValueError, match="no folders"):
        gradwire.read_results()


def test_a_flow_carries_what_its_sends_do(tmp_path: Path) -> None:
    """A ring's rank sends 2 (p - 1) / p of the buffer, all to the next one."""
    made_run(tmp_path / "run", allreduce_plan("star:hosts=4", "ring", nbytes=1 << 20))
    run = gradwire.read_run(tmp_path / "run")
    flows = run.flows
    pd.testing.assert_frame_equal(flows, gradwire.flows(run.plan))
    sent = flows.set_index(["src", "dst"])["payload_nbytes"]
    assert {pair: nbytes for pair, nbytes in sent.items() if nbytes} == {
        (rank, (rank + 1) % 4): 3 * (1 << 20) // 2 for rank in range(4)
    }


def test_runs_and_comparisons_are_those_of_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [allreduce_plan("star:hosts=2", nbytes=1 << 20)]
    for name, times_s in (("a", (1.0, 1.01, 0.99, 1.0, 1.02)), ("b", (2.0, 2.01, 1.99, 2.0, 2.02))):
        made_matrix(tmp_path / name, plans, times_s)
    for frame, words in (
        (gradwire.runs(tmp_path), ["runs", str(tmp_path)]),
        (
            gradwire.compare(tmp_path / "a", tmp_path / "b"),
            ["compare", str(tmp_path / "a"), str(tmp_path / "b")],
        ),
    ):
        with pytest.raises(SystemExit):
            cli.main([*words, "--json"])
        value = json.loads(capsys.readouterr().out)
        assert json.loads(frame.to_json(orient="records")) == (
            value if words[0] == "runs" else value["cells"]
        )


def test_tables_are_those_of_csv(tmp_path: Path, ran: dict[str, Any]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(CAPTURE), "--csv", str(tmp_path)])
    assert {path.stem for path in tmp_path.glob("*.csv")} == set(ran["job"].tables)
    for name, table in ran["job"].tables.items():
        written = pd.read_csv(tmp_path / f"{name}.csv")
        assert (list(written.columns), len(written)) == (list(table.columns), len(table))


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"scale_bytes": float("inf")}, "scale_bytes inf"),
        ({"scale_bytes": -1}, "a scale must be above 0"),
        ({"compute": float("nan")}, "compute nan"),
        ({"seed": -1}, "a seed is 0 or more"),
        ({"fabric": Path("no-such-fabric")}, "no-such-fabric"),
    ],
)
def test_choices_that_mean_nothing_are_refused(ran: dict[str, Any], choice: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        gradwire.plan(ran["workload"], **choice)


def test_captures_without_training_are_no_error_and_no_capture_is_one(tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.pcap"
    frame = tcp(("10.0.0.1", 1000), ("10.0.0.2", 2000), seq=1, payload=b"x")
    quiet.write_bytes(pcap([Record(1_000_000_000, frame)]))
    assert gradwire.inspect(quiet).missing
    with pytest.raises(ValueError, match="no captures"):
        gradwire.inspect()
    with pytest.raises(gradwire.BadCapture, match=r"pyproject\.toml"):
        gradwire.inspect(ROOT / "pyproject.toml")
    with pytest.raises(gradwire.BadTrace):
        gradwire.extract(CAPTURE / "h0.pcap.gz")


def test_what_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gradwire.nothing
    assert set(gradwire.__all__) <= set(dir(gradwire))
