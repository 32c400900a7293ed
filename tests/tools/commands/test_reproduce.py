"""`gradwire reproduce`: every paper's file, and the claims of one that plans answer."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.placement import PLACEMENTS
from gradwire.planning.routing.policies import policy_names
from gradwire.tools import cli, reproducing
from gradwire.tools.papers import PAPERS
from gradwire.tools.reproducing import load_paper, reproduced
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.schedules.names import AS_CAPTURED
from tests.documented import documented_fields

HERE = """
title: A made-up paper
reference: nobody, 2026
about: two hosts
claims:
  - says: "Two sizes take as much longer as they are larger."
    source: everywhere
    ours: the bound of 2 MiB over that of 1 MiB
    figure: two.bound_s / one.bound_s
    expected: [2, 2]
    because: S β
    trials:
      one:
        before: [make collective --workers 2 --nbytes 1MiB --compute-time 0ms --iterations 1 -o one.json]
        command: plan one.json --fabric star:hosts=2
      two:
        before: [make collective --workers 2 --nbytes 2MiB --compute-time 0ms --iterations 1 -o two.json]
        command: plan two.json --fabric star:hosts=2
  - says: "It takes packets to know."
    source: here
    ours: a run
    figure: run.ratio
    expected: [1, 2]
    because: S β
    trials:
      run: {command: bench allreduce -b 1KiB}
  - says: "What is not there cannot be planned."
    source: here
    ours: a plan of nothing
    figure: none.ratio
    expected: [1, 2]
    because: S β
    trials:
      none: {command: plan nowhere.workload.json}
cannot: [its accuracy]
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made-up.yaml").write_text(HERE)
    monkeypatch.setattr(reproducing, "FOLDER", tmp_path)
    monkeypatch.setattr(reproducing, "PAPERS", ("made-up",))
    return tmp_path


def test_claims_are_judged_by_the_commands_that_stand_beside_them(made_up: Path) -> None:
    paper = load_paper("made-up")
    holds, packets, nowhere = reproduced(paper, made_up, plan_only=True, quiet=True)
    assert holds.verdict == "holds"
    assert holds.figure == pytest.approx(2)
    assert (packets.verdict, packets.reasons) == ("not run", ("it sends packets; leave --plan-only out",))
    assert nowhere.verdict == "not valid" and "nowhere.workload.json" in nowhere.reasons[0]
    page = made_up / "page.html"
    reproducing.write_page(page, paper, [holds, packets, nowhere])
    text = page.read_text()
    for part in ("A made-up paper", "its accuracy", "make collective --workers 2 --nbytes 2MiB"):
        assert part in text


@pytest.mark.long
@pytest.mark.parametrize("name", ["gossip", "mlsl", "zionex"])
def test_what_plans_answer_of_a_paper_holds(name: str, tmp_path: Path) -> None:
    """Of eflops and multitree it takes minutes: `gradwire reproduce NAME --plan-only`."""
    outcomes = reproduced(load_paper(name), tmp_path, plan_only=True, quiet=True)
    planned = [outcome for outcome in outcomes if outcome.verdict != "not run"]
    assert planned
    assert [outcome.verdict for outcome in planned] == ["holds"] * len(planned)


PLANNED = 42
"""The exit code of a command whose options have all been read: nothing is planned or sent."""


def check_cells(some: Sequence[tuple[Cell, Experiment]]) -> None:
    """Raise ValueError for an algorithm or a policy that there is not."""
    for cell, _ in some:
        assert cell.placement in PLACEMENTS
        assert cell.routes in policy_names()
        if cell.algorithm != AS_CAPTURED:
            algorithm(cell.algorithm)
    raise typer.Exit(PLANNED)


@pytest.mark.long
@pytest.mark.parametrize("name", PAPERS)
def test_every_command_of_a_paper_is_one_that_gradwire_has(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it does what the paper claims is for a run to say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gradwire.tools.jobwork.planned", check_cells)  # of bench and replay
    monkeypatch.setattr("gradwire.tools.work.plan.plan_of", lambda cell, job: check_cells([(cell, job)]))
    paper = load_paper(name)
    assert paper.cannot
    trials = {trial for claim in paper.claims for trial in claim.trials.values()}
    for *before, last in {trial.rounds[0] for trial in trials}:
        for command, code in (*((make, 0) for make in before), (f"{last} --json", PLANNED)):
            words = shlex.split(command)
            typed = CliRunner().invoke(cli.application(words[0]), words)
            assert typed.exit_code == code, (command, typed.output)


def test_a_command_that_names_what_there_is_not_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would find it."""
    monkeypatch.setattr("gradwire.tools.jobwork.planned", check_cells)
    for option in ("--algorithm nonsense", "--pace zz", "--fabric foo:bar", "--order last", "-b 1QB"):
        words = shlex.split(f"bench allreduce {option}")
        assert CliRunner().invoke(cli.application("bench"), words).exit_code == 1


def test_an_unknown_paper_is_refused_with_those_there_are() -> None:
    done = CliRunner().invoke(cli.application("reproduce"), ["reproduce", "attention"])
    assert done.exit_code == 1 and "there is no paper 'attention'; choose from " in done.output


def test_a_folder_with_runs_of_an_earlier_reproduction_is_refused_before_anything_is_run(
    made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwire.tools.work.reproduce.need_root_and_tools", lambda _: None)
    monkeypatch.setattr("gradwire.tools.work.reproduce.reproduced", lambda *_, **__: [])
    words = ["reproduce", "made-up", "--out", str(made_up)]
    assert CliRunner().invoke(cli.application("reproduce"), words).exit_code == 0
    (made_up / "runs").mkdir()
    done = CliRunner().invoke(cli.application("reproduce"), words)
    assert done.exit_code == 1 and "choose another folder" in " ".join(done.output.split())
    assert CliRunner().invoke(cli.application("reproduce"), [*words, "--plan-only"]).exit_code == 0


def test_json_has_every_claim(made_up: Path) -> None:
    done = CliRunner().invoke(
        cli.application("reproduce"),
        ["reproduce", "made-up", "--plan-only", "--json", "--out", str(made_up / "out")],
    )
    assert done.exit_code == 3
    claims = json.loads(done.stdout)
    assert [each["verdict"] for each in claims] == ["holds", "not run", "not valid"]
    assert set(claims[0]) == documented_fields("reproduce --json")
    assert set(claims[0]["trials"]["one"]) == documented_fields("reproduce --json: trials")
