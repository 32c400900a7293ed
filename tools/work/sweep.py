"""Plans the cells of a study, or sends their packets, keeps each as it comes, and shows what they come to."""

import ctypes
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rich.text import Text

from gradwire.results.outcomes import Outcome, judged
from gradwire.results.studyplots import NUMBERS
from gradwire.results.studyresults import CellResult
from gradwire.tools.console import console
from gradwire.tools.dygraphs import need_library
from gradwire.tools.exits import NOT_EXPECTED, NOT_VALID
from gradwire.tools.labs.file import read_lab
from gradwire.tools.labs.result import print_outcomes
from gradwire.tools.live.view import LiveView, live_view
from gradwire.tools.sweep.cellfiles import CELLS, load_cell, n_kept, save_cell
from gradwire.tools.sweep.cellreplaying import CellReplays, plan_cell
from gradwire.tools.sweep.progress import Tell, sweep_progress
from gradwire.tools.sweep.study import Study, StudyCell, study_of
from gradwire.tools.sweep.tables import print_study, write_study
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.units import show_count

FOLDER = Path("sweeps")
RUNS = "runs"  # in the folder: those of cells whose packets were sent
AHEAD = 2  # cells handed to each process: one under way, one that waits
PR_SET_PDEATHSIG = 1  # linux/prctl.h
Worker = Callable[[Sequence[StudyCell], Tell], Generator[tuple[StudyCell, CellResult], None, None]]
"""Does cells, and gives each as it is done; meanwhile it says what it does."""


def run_study(
    path: Path,
    out: Path | None,
    processes: int | None,
    *,
    ray: str | None = None,
    watch: str | None = None,
    retry: bool = False,
    as_json: bool,
) -> int:
    """The exit code; with `ray`, the address of a cluster, that does the cells.  With `retry` those whose
    rows are not valid are done again.

    Raise BadLab, OSError, ValueError for `processes` where packets are sent, and KeyboardInterrupt that says
    what is kept.
    """
    study = study_of(read_lab(path))
    if study.sends and processes is not None:
        raise ValueError(f"--processes: {path} sends packets, one cell at a time; leave --processes out")
    if any(plot.x in NUMBERS for plot in study.lab.plots):
        need_library()
    folder = out or FOLDER / path.stem
    with live_view(watch, study.title) as view:
        work = _worker(study, folder, processes, ray, view)
        results = work_out(study.cells, folder, work, view, retry=retry, quiet=as_json)
    outcomes = _outcomes(study, results)
    written = write_study(folder, study, results)
    code = _exit_code(outcomes, results)
    if as_json:
        print(json.dumps(_json(study, folder, results, outcomes, code), indent=1))
        return code
    to = console()
    print_study(to, results)
    print_outcomes(to, outcomes)
    for each in written:
        to.print(Text(f"written: {each}"), soft_wrap=True)
    return code


def _worker(
    study: Study, folder: Path, processes: int | None, ray: str | None, view: LiveView | None
) -> Worker:
    if ray is not None:
        from gradwire.tools.sweep.raycluster import on_cluster

        return partial(on_cluster, address=ray)
    if study.sends:
        return partial(_one_after_the_other, runs=folder / RUNS, view=view)
    return partial(in_processes, n_processes=processes or len(os.sched_getaffinity(0)))


def work_out(
    cells: Sequence[StudyCell],
    folder: Path,
    work: Worker,
    view: LiveView | None = None,
    *,
    retry: bool = False,
    quiet: bool,
) -> list[CellResult]:
    """All cells in their order: those kept in the folder, and the others done and kept there.

    A cell that cannot be planned is refused.  With `retry` those whose rows are not valid are done again.
    """
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    made = {each.key: found for each in cells if (found := load_cell(folder, each, retry=retry))}
    todo = list({each.key: each for each in cells if each.key not in made}.values())
    if made and not quiet:
        console(stderr=True).print(f"{show_count(len(made), 'cell')} of this study kept from before")
    with _naming_what_is_kept(folder), sweep_progress(len(todo), view, quiet=quiet) as progress:
        for known in made.values():
            progress.count(known)
        with closing(work(todo, progress.doing)) as done:
            for each, result in done:
                save_cell(folder, each, result)
                made[each.key] = result
                progress.done(result, each.name)
    return [replace(made[each.key], job=each.job) for each in cells]


def _one_after_the_other(
    todo: Sequence[StudyCell], tell: Tell, runs: Path, view: LiveView | None
) -> Generator[tuple[StudyCell, CellResult], None, None]:
    """Each cell with its packets sent, as two runs at a time would disturb each other.  Raise PermissionError
    without root, FileNotFoundError without the tools.
    """
    for each in {each.run: each for each in todo}.values():
        assert each.run
        need_root_and_tools("sweep", each.run.switch, each.run.captures, each.run.controller)
    replays = CellReplays(runs, tell, view)
    yield from ((each, replays.result(each)) for each in todo)


def in_processes(
    todo: Sequence[StudyCell], tell: Tell, n_processes: int
) -> Generator[tuple[StudyCell, CellResult], None, None]:
    """Each cell as it is done.  Raise what planning raises for a bug, and OSError for a process that died."""
    tell(f"planning in {show_count(min(n_processes, len(todo)), 'process')}")
    if n_processes == 1 or len(todo) < 2:
        yield from ((each, plan_cell(each)) for each in todo)
        return
    fork = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(
        min(n_processes, len(todo)), mp_context=fork, initializer=_end_with, initargs=(os.getpid(),)
    )
    try:
        waiting = iter(todo)
        running: dict[Future[CellResult], StudyCell] = {}
        while True:
            for each in islice(waiting, AHEAD * n_processes - len(running)):
                running[pool.submit(plan_cell, each)] = each
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                each = running.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool as error:
                    raise OSError(
                        f"a planning process was killed (out of memory?), with {each.name} or another cell "
                        "in progress; the cells that are done are kept: run the same command again, with "
                        "fewer --processes"
                    ) from error
                yield each, result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with(parent: int) -> None:
    """A process of the pool ends when the command is killed, which could not end it itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def _naming_what_is_kept(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{show_count(n_kept(folder), 'cell')} in {folder}; the same command goes on from there"
        ) from None


def _outcomes(study: Study, results: Sequence[CellResult]) -> list[Outcome]:
    """Of each expectation one for all seeds with which it holds, and one for each other seed, by name."""
    of_seeds: list[tuple[int, list[Outcome]]] = []
    for seed in study.works:
        subjects = study.check(seed, [each.result for each in results if each.seed == seed])
        of_seeds.append((seed, [judged(each, subjects) for each in study.lab.expect]))
    found = []
    for number in range(len(study.lab.expect)):
        outcomes = [(seed, some[number]) for seed, some in of_seeds]
        held = [outcome for _, outcome in outcomes if outcome.verdict == "holds"]
        if held:
            found.append(replace(held[0], found=tuple(chain.from_iterable(each.found for each in held))))
        found += [
            replace(each, expectation=f"{each.expectation}, seed {seed}")
            for seed, each in outcomes
            if each.verdict != "holds"
        ]
    return found


def _exit_code(outcomes: Sequence[Outcome], results: Sequence[CellResult]) -> int:
    if any(outcome.verdict == "fails" for outcome in outcomes):
        return NOT_EXPECTED
    is_doubtful = any(each.failed or (each.row and not each.row.valid) for each in results)
    return NOT_VALID if is_doubtful or all(each.refused for each in results) else 0


def _json(
    study: Study,
    folder: Path,
    results: Sequence[CellResult],
    outcomes: Sequence[Outcome],
    code: int,
) -> dict[str, Any]:
    """As docs/schemas.md, "sweep --json", says."""
    return {
        "schema": "gradwire.study/1",
        "file": str(study.lab.path),
        "name": study.lab.name,
        "folder": str(folder),
        "sends": study.sends,
        "cells": [_cell_json(each) for each in results],
        "expectations": [outcome.to_json() for outcome in outcomes],
        "exit_code": code,
    }


def _cell_json(each: CellResult) -> dict[str, Any]:
    row = each.row and each.row.to_json()
    return {"job": each.job, "seed": each.seed, **asdict(each.cell), "row": row, "failed": each.failed}
