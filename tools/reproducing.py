"""Runs the commands of a paper's claims, and shows what they come to: a table and a page."""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from gradwire import COMMAND
from gradwire.emu.interpreter import python
from gradwire.results.matrixfile import RESULT, About
from gradwire.results.reproduction import NEED_ROOT, Claim, Outcome, Paper, Trial, judged, not_run, read_paper
from gradwire.results.runlist import REPRODUCTION
from gradwire.tools.cli import main
from gradwire.tools.exits import INTERRUPTED, NOT_VALID
from gradwire.tools.pageparts import environment
from gradwire.tools.papers import FOLDER, PAPERS
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.report.rowtables import VERDICT_STYLES
from gradwire.tools.table import Cell, columns, or_nothing, rich_table, table_of
from gradwire.traces.files import write_whole
from gradwire.traces.units import one_of, show_count

RUNS = "runs"  # in the folder of the results: what sends packets has a folder each in it
STYLES = {"holds": VERDICT_STYLES["valid"], "differs": "bold red", "not valid": "bold red", "not run": "dim"}


class TrialFailed(Exception):
    """A command of a claim that ended with an error; the text is the command's own."""


def load_paper(name: str) -> Paper:
    """Raise ValueError for a paper that gradwire has no file of, and with the file's name for a bad one."""
    one_of("paper", name, PAPERS)
    path = FOLDER / f"{name}.yaml"
    try:
        return read_paper(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def check_folder(folder: Path) -> None:
    """Raise FileExistsError for a folder with the runs of another reproduction, which are not run over."""
    if (folder / RUNS).exists():
        raise FileExistsError(f"{folder} has runs of an earlier reproduction; choose another folder")


def reproduced(paper: Paper, folder: Path, *, plan_only: bool, quiet: bool) -> list[Outcome]:
    """Run the trials of each claim in `folder`, where their files stay; a command that two claims share is
    run once.
    """
    printed: dict[Trial, list[Any]] = {}
    claims = [claim for claim in paper.claims if not (plan_only and claim.needs_root)]
    trials = list(dict.fromkeys(trial for claim in claims for trial in claim.trials.values()))
    failed: dict[Trial, str] = {}
    with progress_bar(quiet=quiet) as progress:
        task = progress.add_task("starting", total=sum(trial.seeds for trial in trials))
        for number, trial in enumerate(trials, start=1):
            progress.update(task, description=trial.command.split()[0])
            try:
                printed[trial] = list(_run(trial, folder, number, lambda: progress.advance(task)))
            except TrialFailed as error:
                failed[trial] = str(error)
    return [_outcome(claim, claim in claims, printed, failed) for claim in paper.claims]


def _outcome(
    claim: Claim, was_run: bool, printed: Mapping[Trial, list[Any]], failed: Mapping[Trial, str]
) -> Outcome:
    if not was_run:
        return not_run(claim, "it sends packets; leave --plan-only out")
    if reasons := [failed[trial] for trial in claim.trials.values() if trial in failed]:
        return Outcome(claim, "not valid", None, tuple(reasons))
    return judged(claim, {name: printed[trial] for name, trial in claim.trials.items()})


def _run(trial: Trial, folder: Path, number: int, advance: Callable[[], None]) -> Iterable[Any]:
    """What each of its commands prints: an object, the only row where there are rows."""
    for place, (*before, command) in enumerate(trial.rounds):
        for makes in before:
            _printed(makes, folder)
        out = f" --out {RUNS}/{number:02d}-{place:02d}" if trial.needs_root else ""
        found = json.loads(_printed(f"{command} --json{out}", folder))
        advance()
        yield found[0] if isinstance(found, list) else found


def _printed(command: str, folder: Path) -> str:
    """Its standard output.  Raise TrialFailed if it ends otherwise than well, or than with an invalid row."""
    words = shlex.split(command)
    code, output, errors = (_run_apart if words[0] in NEED_ROOT else _run_here)(words, folder)
    if code not in (0, NOT_VALID):
        lines = errors.strip().splitlines() or [f"exit code {code}"]
        raise TrialFailed(f"{command}: {lines[-1].removeprefix('gradwire: ')}")
    return output


def _run_apart(words: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """In a process of its own, as what sends packets needs: exit code, standard output and error."""
    done = subprocess.run(
        python("gradwire.tools", *words), cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _run_here(words: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """In this process: nearly all of a small plan's time is Python that starts."""
    output, errors = StringIO(), StringIO()
    code = 0
    with chdir(folder), redirect_stdout(output), redirect_stderr(errors):
        try:
            main(words)
        except SystemExit as left:
            code = int(left.code or 0)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code, output.getvalue(), errors.getvalue()


def save(folder: Path, described: About, outcomes: Sequence[Outcome]) -> None:
    """`result.json` in the folder.  Raise OSError."""
    claims = [outcome.to_json() for outcome in outcomes]
    value = {"schema": REPRODUCTION, "about": asdict(described), "claims": claims}
    write_whole(folder / RESULT, json.dumps(value, indent=1) + "\n")


def print_outcomes(to: Console, paper: Paper, outcomes: Sequence[Outcome]) -> None:
    to.print(Text(f"{paper.title} ({paper.reference})", style="bold"))

    def cells(outcome: Outcome) -> tuple[Cell | str, ...]:
        claim = outcome.claim
        return (
            claim.says,
            claim.ours,
            or_nothing(outcome.figure, "{:.3g}".format),
            show_expected(claim),
            Cell(outcome.verdict, style=STYLES[outcome.verdict]),
        )

    heads = columns("the paper", "here", "#figure", "#expected", "verdict")
    to.print(rich_table(table_of(heads, outcomes, cells)))
    for outcome in outcomes:
        for reason in outcome.reasons if outcome.verdict != "not run" else ():
            to.print(Text(f"{outcome.verdict}: {outcome.claim.ours}: {reason}", style="dim"))
    if n_left := sum(outcome.verdict == "not run" for outcome in outcomes):
        to.print(
            f"not run: {show_count(n_left, 'claim')} that packets decide; leave --plan-only out", style="dim"
        )
    to.print("\nNot for a network laboratory to say:")
    for line in paper.cannot:
        to.print(Padding(Text(line), (0, 0, 0, 2), expand=False))


def show_expected(claim: Claim) -> str:
    low, high = claim.expected
    return f"{low:.3g} to {high:.3g}"


def write_page(path: Path, paper: Paper, outcomes: Sequence[Outcome]) -> None:
    """Write it whole or not at all.  Raise OSError."""
    templates = environment()
    templates.filters |= {"figure": lambda value: or_nothing(value, "{:.3g}".format)}
    page = templates.get_template("reproduction.html").render(
        title=paper.title, paper=paper, outcomes=outcomes, expected=show_expected, typed=COMMAND
    )
    write_whole(path, page)
