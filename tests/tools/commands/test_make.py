"""`gradwire make`: what it writes, `plan` takes; what makes no sense is refused in one line, at once."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradwire.tools import cli
from gradwire.tools.options.make import COLLECTIVES, KINDS
from gradwire.traces.making.easgd import VARIANTS
from gradwire.traces.making.gossip import PATTERNS
from gradwire.traces.making.items import MAX_MADE_ITEMS, Items
from gradwire.traces.units import show_s
from gradwire.traces.workload import Message, Workload, load
from tests.documented import documented_fields

PAGE = (Path(__file__).parents[3] / "docs" / "making.md").read_text()
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


@pytest.mark.broad(5)
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


def test_what_was_made_is_said_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two iterations, in each a message of 4,096 bytes from each of 3 ranks."""
    path = str(tmp_path / "made.workload.json")
    assert run("make", "gossip", *SMALL, "-o", path, "--json") == 0
    written = json.loads(capsys.readouterr().out)
    assert set(written) == documented_fields("make --json, extract --json")
    assert written["path"] == path
    assert [written[name] for name in ("ranks", "items", "bytes", "iterations")] == [3, 6, 6 * 4096, 2]
    assert written["taxonomy"]["pattern"] == "gossip"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["bittorrent"],
            "no kind of job 'bittorrent'; choose from collective, layerwise, easgd, gossip, dlrm, ps",
        ),
        (["gossip", "--variant", "sync1"], "--variant does not apply to gossip, only to easgd"),
        (["ps", "--per-layer"], "--per-layer does not apply to ps, only to easgd"),
        (
            ["easgd", "--variant", "sync4"],
            "there is no variant 'sync4' (did you mean sync3?); choose from round-robin, async,",
        ),
        (["layerwise", "--shares", "1,0"], "shared out as 1, 0 leave a part without an element"),
        (["layerwise", "--shares", "1,x"], "--shares: 'x' is not a whole number from 0 to 1,000,000"),
        (
            ["gossip", "--pattern", "shout"],
            "no pattern 'shout'; choose from push, pull, permutation",
        ),
        (["gossip", "--workers", "1000000000"], "1,000,000,000 ranks; gradwire plans at most 16,384"),
        (["ps", "--servers", "1000000000"], "1,000,000,008 ranks; gradwire plans at most 16,384"),
        (["ps", "--staleness", "-1"], "--staleness: '-1' is not a whole number from 0 to 1,000,000"),
        (
            ["ps", "--staleness", "9999999"],
            "'9999999' is not a whole number from 0 to 1,000,000",
        ),
        (["ps", "--workers", "500", "--parts", "999"], "would have 9,995,000 messages"),
        (
            ["ps", "--workers", "500", "--staleness", "0", "--parts", "19"],
            "would have more than 4,000,000 waits of one item for another",
        ),
        (["ps", "--nbytes", "20"], "20 bytes cannot be cut into 8 parts of at least 4 bytes"),
        (["gossip", "--nbytes", "2000G"], "--nbytes 2000G is not from 4 to 1,099,511,627,776"),
        (["gossip", "--compute-time", "90000s"], "--compute-time 90000s is not from 0 to 86,400"),
        (["dlrm", "--tables", "0"], "no rank has a table: give a number of tables above 0"),
        (
            ["dlrm", "--workers", "2", "--tables", "1,1,1"],
            "3 numbers of tables for 2 ranks: give at most one for each",
        ),
        (["dlrm", "--workers", "500", "--tables", "2,1"], "and sizes of blocks of alltoalls: choose fewer"),
        (["dlrm", "--tables", "1,x"], "--tables: 'x' is not a whole number from 0 to 1,000,000"),
        (["dlrm", "--batch", "1000000", "--width", "1000000"], "an alltoall would have 128,000,000,000,000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_job_is_refused_in_one_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "made.workload.json"
    added, add = Counter[str](), Items._add

    def counted(self: Items, *item: Any) -> int:
        added["items"] += 1
        return add(self, *item)

    monkeypatch.setattr(Items, "_add", counted)
    assert run("make", *arguments, "-o", str(path)) == 1
    assert added["items"] <= MAX_MADE_ITEMS
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not path.exists()


ROWS = re.findall(r"^\| `([^`]+)` \| (?:`([^`]*)` )?\| (\S+ m?s) \|", PAGE, re.MULTILINE)
BETA_S = 8 / 50e6 * 1514 / 1448  # a byte on a link of 50 Mb/s, in full frames of Ethernet, IPv4 and TCP
MIB_S = (1 << 20) * BETA_S
FORMULAS_S = {  # of each example, in their order: the page's "how long it takes" with the numbers put in
    "collective --compute-time 50ms": 0.05 + 2 * 7 / 8 * MIB_S,
    "layerwise --shares 1,1 --compute-time 2s": 2 + 2 * 7 / 8 * MIB_S / 2,  # only one is waited for
    "easgd --per-layer --nbytes 12800 --compute-time 150ms --iterations 8": (
        8 * (0.15 + 2 * 50 * (0.01 + 12_800 / 50 * BETA_S))
    ),
    "easgd --variant sync3 --nbytes 12800 --compute-time 150ms": max(0.15, 6 * (0.01 + 12_800 * BETA_S)),
    "easgd --nbytes 2000KB --iterations 8": 8 * (0.1 + 2 * 2_000_000 * BETA_S),
    "easgd --variant sync3 --nbytes 2000KB": max(0.1, 2 * 7 / 8 * 2_000_000 * BETA_S),
    "gossip --seed 2 --iterations 1": 0.1 + 3 * MIB_S,  # 3 is the most drawn: see the test
    "gossip --pattern permutation --iterations 1": 0.1 + MIB_S,
    # indices, embeddings and gradients of 8 tables, 7 other ranks, 64 samples, 64 values of 4 bytes
    "dlrm --tables 8,2,2,2 --nbytes 64": 0.1 + 7 * 8 * 64 * (8 + 2 * 64 * 4) * BETA_S,
    "ps --workers 4 --servers 2 --iterations 5": 0.1 + 4 / 2 * MIB_S * (1 + 1 / 8),
    "ps --workers 4 --servers 2 --iterations 5 --staleness 1": max(0.1, 4 / 2 * MIB_S),
    "ps --workers 4 --servers 2 --iterations 5 --staleness 1 --compute-time 400ms": max(0.4, 4 / 2 * MIB_S),
}


def most_received(workload: Workload) -> int:
    return max(Counter(item.dst for item in workload.items if isinstance(item, Message)).values())


@pytest.mark.broad(6)
@pytest.mark.parametrize(("job", "more", "takes"), ROWS)
def test_an_example_of_the_page_takes_what_its_formula_says(
    job: str, more: str, takes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "made.workload.json")
    assert run("make", *job.split(), "-o", path) == 0
    capsys.readouterr()
    if job == "gossip --seed 2 --iterations 1":
        assert most_received(load(Path(path))) == 3
    assert run("plan", path, "--fabric", "star:hosts=12,rate=50M", *more.split(), "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["iteration_s"] or planned["fluid_s"]) == pytest.approx(FORMULAS_S[job], rel=0.005)
    assert show_s(FORMULAS_S[job]) == takes


def test_the_page_has_examples_of_every_kind() -> None:
    assert {job.split()[0] for job, _, _ in ROWS} == set(KINDS)


def test_the_page_has_a_row_for_each_kind() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.split("What `plan` says")[0], re.MULTILINE)
    wanted = ["collective", "layerwise"]
    wanted += [f"easgd --variant {name}" for name in VARIANTS]
    wanted += [f"gossip --pattern {name}" for name in PATTERNS]
    assert rows == [*wanted, "dlrm", "ps --staleness 0", "ps --staleness 1"]
