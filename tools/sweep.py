"""Plans the cells of a study in several processes, keeps each as it comes, and shows what they come to."""

import ctypes
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.text import Text

from gradwire.results.outcomes import Outcome, judged
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.studyresults import CellResult
from gradwire.tools.cellplanning import plan_cell
from gradwire.tools.console import console
from gradwire.tools.exits import NOT_EXPECTED, NOT_VALID
from gradwire.tools.labfile import read_lab
from gradwire.tools.labrun import print_outcomes
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.study import Study, StudyCell, study_of
from gradwire.tools.studytables import print_study, write_study
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_count, show_s

FOLDER = Path("sweeps")
CELLS = "cells"
SCHEMA = "gradwire.cell/1"
AHEAD = 2  # cells handed to each process: one under way, one that waits
PR_SET_PDEATHSIG = 1  # linux/prctl.h
MAX_CELL_NBYTES = 1 << 20
Planner = Callable[[Sequence[StudyCell]], Generator[tuple[StudyCell, CellResult], None, None]]
"""Plans cells, and gives each as it is done."""


def run_study(
    path: Path, out: Path | None, processes: int | None, *, ray: str | None = None, as_json: bool
) -> int:
    """The exit code; with `ray`, the address of a cluster, that plans the cells.

    Raise BadLab, OSError, and KeyboardInterrupt that says what is kept.
    """
    study = study_of(read_lab(path))
    folder = out or FOLDER / path.stem
    plan = partial(_in_processes, n_processes=processes or len(os.sched_getaffinity(0)))
    if ray is not None:
        from gradwire.tools.raycluster import on_cluster

        plan = partial(on_cluster, address=ray)
    results = work_out(study.cells, folder, plan, quiet=as_json)
    outcomes = _outcomes(study, results)
    written = write_study(folder, f"Study {study.lab.name}", results)
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


def work_out(cells: Sequence[StudyCell], folder: Path, plan: Planner, *, quiet: bool) -> list[CellResult]:
    """All cells in their order: those kept in the folder, and the others planned and kept there.

    A cell that cannot be planned is refused.
    """
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    made = {each.key: found for each in cells if (found := load_cell(folder, each))}
    todo = list({each.key: each for each in cells if each.key not in made}.values())
    if made and not quiet:
        console(stderr=True).print(f"{show_count(len(made), 'cell')} of this study kept from before")
    with _naming_what_is_kept(folder), progress_bar(quiet=quiet) as progress:
        task = progress.add_task("planning", total=len(todo))
        with closing(plan(todo)) as done:
            for each, result in done:
                save_cell(folder, each, result)
                made[each.key] = result
                progress.update(task, advance=1, description=f"planned {each.name}{_best(made.values())}")
    return [replace(made[each.key], job=each.job) for each in cells]


def _in_processes(
    todo: Sequence[StudyCell], n_processes: int
) -> Generator[tuple[StudyCell, CellResult], None, None]:
    """Each cell as it is done.  Raise what planning raises for a bug, and OSError for a process that died."""
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


def _best(results: Iterable[CellResult]) -> str:
    times_s = [result.time_s for result in results if result.time_s is not None]
    return f", best so far {show_s(min(times_s))}" if times_s else ""


@contextmanager
def _naming_what_is_kept(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        n_kept = len(list((folder / CELLS).glob("*.json")))
        raise KeyboardInterrupt(
            f"{show_count(n_kept, 'cell')} in {folder}; the same command goes on from there"
        ) from None


@cache
def _adapter() -> TypeAdapter[PlannedCell]:
    return TypeAdapter(PlannedCell)


def save_cell(folder: Path, each: StudyCell, result: CellResult) -> None:
    """As docs/schemas.md, "Cells of a study", says.  Raise OSError."""
    value = {"schema": SCHEMA, "key": each.key, "seed": each.seed, "cell": asdict(result.cell)}
    write_whole(folder / CELLS / f"{each.key}.json", json.dumps(value, indent=1) + "\n")


def load_cell(folder: Path, each: StudyCell) -> CellResult | None:
    """None for a cell that is not there, or is not as this version writes it: it is planned again."""
    path = folder / CELLS / f"{each.key}.json"
    if not path.is_file() or path.stat().st_size > MAX_CELL_NBYTES:
        return None
    try:
        value = json.loads(path.read_text())
        if value["schema"] != SCHEMA or value["key"] != each.key:
            return None
        return CellResult(each.job, each.seed, _adapter().validate_python(value["cell"]))
    except (ValueError, KeyError, TypeError, ValidationError):
        return None


def _outcomes(study: Study, results: Sequence[CellResult]) -> list[Outcome]:
    """Of each expectation one for all seeds with which it holds, and one for each other seed, by name."""
    of_seeds: list[tuple[int, list[Outcome]]] = []
    for seed in study.works:
        subjects = study.check(seed, [each.cell for each in results if each.seed == seed])
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
    return NOT_VALID if all(each.cell.refused for each in results) else 0


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
        "cells": [{"job": each.job, "seed": each.seed, **asdict(each.cell)} for each in results],
        "expectations": [outcome.to_json() for outcome in outcomes],
        "exit_code": code,
    }
