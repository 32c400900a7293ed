"""The commands inspect and extract, as typed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradwire.tools import cli
from gradwire.traces.workload import load
from tests.documented import documented_fields
from tests.made_captures import SYN, Record, pcap, stream, udp

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "traces" / "samples" / "ddp_gloo_8"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Gradwire = Callable[..., Done]


@pytest.fixture
def gradwire(capsys: pytest.CaptureFixture[str]) -> Gradwire:
    """A command line carried out in this process: a new one takes longer to start than to inspect."""

    def call(*words: str | Path) -> Done:
        with pytest.raises(SystemExit) as left:
            cli.main([str(word) for word in words])
        assert isinstance(left.value.code, int)
        printed = capsys.readouterr()
        return Done(left.value.code, printed.out, printed.err)

    return call


def test_inspect_shows_the_tables_in_100_columns(gradwire: Gradwire) -> None:
    done = gradwire("inspect", SAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "…" not in done.stdout
    assert "\ntaxonomy: synchronous, pattern allreduce; parallelism, optimisation unknown\n" in done.stdout
    for heading in ("8 ranks, gloo", "Payload from rank to rank", "Collectives and messages", "Iterations"):
        assert heading in done.stdout


def test_inspect_prints_one_json_value(gradwire: Gradwire, tmp_path: Path) -> None:
    done = gradwire("inspect", SAMPLE, "--json", "--csv", tmp_path)
    assert len(json.loads(done.stdout)["iterations"]) == 3
    assert {path.name for path in tmp_path.iterdir()} == {
        "transfers.csv", "algorithms.csv", "iterations.csv", "exposures.csv", "spans.csv", "stragglers.csv",
        "matrix.csv", "messages.csv", "flows.csv", "bounds.csv", "host_bounds.csv", "burstiness.csv",
        "rates.csv", "incasts.csv", "aggregations.csv", "traffic.csv", "files.csv",
    }  # fmt: skip


def test_inspect_writes_a_page_and_trace_events_and_says_where(gradwire: Gradwire, tmp_path: Path) -> None:
    page, events = tmp_path / "page.html", tmp_path / "trace.json"
    done = gradwire("inspect", SAMPLE, "--html", page, "--perfetto", events, "--line-rate", "10G")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"wrote {events}\nwrote {page}\n")
    assert "of the line rate of 10 Gb/s" in page.read_text()
    assert json.loads(events.read_text())["traceEvents"]


def test_captures_without_training_get_what_there_is_to_say(gradwire: Gradwire, tmp_path: Path) -> None:
    a, b = ("10.0.0.1", 40000), ("10.0.0.2", 29500)
    frames = stream(a, b, [(1_000_000, b"x" * 1000), (9_000_000, b"y" * 1000)], 1, SYN)
    (tmp_path / "a.pcap").write_bytes(pcap([*frames, Record(9_500_000, udp(a, b, b"?"))]))
    done = gradwire("inspect", tmp_path, "--html", tmp_path / "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No training was recognised" in done.stdout
    assert "10.0.0.1:40000 to 10.0.0.2:29500: 2,000 bytes in 8 ms" in " ".join(done.stdout.split())
    page = (tmp_path / "page.html").read_text()
    assert "No training was recognised" in page
    assert '"name":"10.0.0.1","out":[' in page  # the rates of whoever sent
    refused = gradwire("extract", tmp_path, "-o", tmp_path / "x.json")
    assert refused.returncode == 1


@pytest.mark.parametrize("rate", ["0", "fast"])
def test_a_line_rate_that_is_none_is_refused(gradwire: Gradwire, rate: str) -> None:
    done = gradwire("inspect", SAMPLE, "--line-rate", rate)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


def test_extract_writes_a_workload(gradwire: Gradwire, tmp_path: Path) -> None:
    path = tmp_path / "job.workload.json"
    done = gradwire("extract", SAMPLE, "-o", path)
    assert done.returncode == 0
    assert "8 ranks" in done.stdout
    taxonomy = load(path).taxonomy
    assert (taxonomy.scheduling, taxonomy.pattern) == ("synchronous", "allreduce")
    assert (taxonomy.parallelism, taxonomy.optimisation) == (None, None)  # which no capture shows
    assert f"taxonomy: {taxonomy}\n" in done.stdout
    assert load(path).iterations == (-1, 0, 1, 2)


def test_extract_says_what_it_wrote_as_json(gradwire: Gradwire, tmp_path: Path) -> None:
    path = tmp_path / "job.workload.json"
    written = json.loads(gradwire("extract", SAMPLE, "-o", path, "--json").stdout)
    assert set(written) == documented_fields("make --json, extract --json")
    assert (written["path"], written["ranks"], written["iterations"]) == (str(path), 8, 3)
    assert written["taxonomy"] == load(path).taxonomy.model_dump()


@pytest.mark.parametrize("command", ["inspect", "extract"])
def test_bad_input_is_one_line_and_leaves_nothing_behind(
    gradwire: Gradwire, tmp_path: Path, command: str
) -> None:
    (tmp_path / "a.pcap").write_text("not a capture")
    out = tmp_path / "out.workload.json"
    options: list[str | Path] = ["-o", out] if command == "extract" else []
    done = gradwire(command, tmp_path / "a.pcap", *options)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "a.pcap" in line
    assert not out.exists()
