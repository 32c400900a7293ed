"""`gradwire make`: what it writes, `plan` takes; what makes no sense is refused in one line, at once."""

import json
import re
import time
from pathlib import Path

import pytest

from gradwire.tools import cli
from gradwire.tools.makechoices import COLLECTIVES, KINDS
from gradwire.traces.making.easgd import VARIANTS
from gradwire.traces.making.gossip import PATTERNS
from gradwire.traces.units import show_s
from gradwire.traces.workload import load

PAGE = (Path(__file__).parents[2] / "docs" / "making.md").read_text()
SMALL = ["--workers", "3", "--nbytes", "4096", "--iterations", "2", "--compute-time", "1ms"]
JOBS = [
    *(["collective", "--collective", kind] for kind in COLLECTIVES),
    ["layerwise", "--shares", "1,10"],
    *(["easgd", "--variant", variant, "--per-layer", "--layers", "3"] for variant in VARIANTS),
    *(["gossip", "--pattern", pattern] for pattern in PATTERNS),
    ["dlrm", "--tables", "2,1"],
    *(["ps", "--servers", "2", "--staleness", staleness] for staleness in ("0", "1", "inf")),
]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    return int(left.value.code or 0)


@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_what_is_made_can_be_planned(
    job: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "made.workload.json")
    assert run("make", *job, *SMALL, "-o", path) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.search(r" [345] ranks, \d+ collectives and messages \(.*\), 2 iterations$", first)
    assert second == f"taxonomy: {load(Path(path)).taxonomy}"
    assert run("plan", path, "--fabric", "star:hosts=5", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["compute_s"] == pytest.approx(0.002)
    assert planned["doubts"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["bittorrent"],
            "no kind 'bittorrent' of job to make; choose collective, layerwise, easgd, gossip, dlrm or ps",
        ),
        (["gossip", "--variant", "sync1"], "--variant does not apply to gossip, only to easgd"),
        (["ps", "--per-layer"], "--per-layer does not apply to ps, only to easgd"),
        (
            ["easgd", "--variant", "sync4"],
            "--variant sync4: choose round-robin, async, hogwild, sync1,",
        ),
        (["layerwise", "--shares", "1,0"], "shared out as 1, 0 leave a part without an element"),
        (["layerwise", "--shares", "1,x"], "--shares: 'x' is not a number from 0 to 1,000,000"),
        (["gossip", "--pattern", "shout"], "--pattern shout: choose push, pull or permutation"),
        (["gossip", "--workers", "1000000000"], "1,000,000,000 ranks; gradwire replays at most 512"),
        (["ps", "--servers", "1000000000"], "1,000,000,008 ranks; gradwire replays at most 512"),
        (["ps", "--staleness", "-1"], "--staleness: '-1' is not a number from 0 to 1,000,000"),
        (["ps", "--staleness", "9999999"], "--staleness: '9999999' is not a number from 0 to 1,000,000"),
        (["ps", "--workers", "500", "--parts", "999"], "would have 9,995,000 messages"),
        (
            ["ps", "--workers", "500", "--staleness", "0", "--parts", "19"],
            "would have more than 4,000,000 waits of one item for another",
        ),
        (["ps", "--nbytes", "20"], "20 bytes cannot be cut into 8 parts of at least 4 bytes"),
        (["gossip", "--nbytes", "2000G"], "--nbytes 2000G is not from 4 to 1,099,511,627,776"),
        (["gossip", "--compute-time", "90000s"], "--compute-time 90000s is not from 0 to 86,400"),
        (["dlrm", "--tables", "0"], "1 numbers of tables for 8 ranks: give one for each, not all 0"),
        (["dlrm", "--workers", "500", "--tables", "2,1"], "and sizes of blocks of alltoalls: choose fewer"),
        (["dlrm", "--tables", "1,x"], "--tables: 'x' is not a number from 0 to 1,000,000"),
        (["dlrm", "--batch", "1000000", "--width", "1000000"], "an alltoall would have 128,000,000,000,000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_job_is_refused_in_one_line(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made.workload.json"
    begun_s = time.monotonic()
    assert run("make", *arguments, "-o", str(path)) == 1
    assert time.monotonic() - begun_s < 10
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not path.exists()


ROWS = re.findall(r"^\| `([^`]+)` \| (?:`([^`]*)` )?\| (\S+ m?s) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("job", "more", "takes"), ROWS)
def test_an_example_of_the_page_takes_what_the_page_says(
    job: str, more: str, takes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "made.workload.json")
    assert run("make", *job.split(), "-o", path) == 0
    capsys.readouterr()
    assert run("plan", path, "--fabric", "star:hosts=12,rate=50M", *more.split(), "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert show_s(planned["iteration_s"] or planned["fluid_s"]) == takes


def test_the_page_has_examples_of_every_kind() -> None:
    assert {job.split()[0] for job, _, _ in ROWS} == set(KINDS)


def test_the_page_has_a_row_for_each_kind() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.split("What `plan` says")[0], re.MULTILINE)
    wanted = ["collective", "layerwise"]
    wanted += [f"easgd --variant {name}" for name in VARIANTS]
    wanted += [f"gossip --pattern {name}" for name in PATTERNS]
    assert rows == [*wanted, "dlrm", "ps --staleness 0", "ps --staleness 1"]
