"""What runs a folder holds: of each sub-folder when it was made, by what, and what came out."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from pydantic import TypeAdapter

from gradwire.emu.inject.options import REQUEST, RUN_FOLDER
from gradwire.planning.capturefabric import MANIFEST
from gradwire.planning.runfiles import INCOMPLETE, BadRun, check_folder
from gradwire.results.matrixfile import RESULT, About, Matrix, checked_value, read_result
from gradwire.results.resultfolder import results_of
from gradwire.results.row import REFUSED, Row

Kind = Literal["runs", "trust", "reproduction", "injection", "capture", "unknown"]
REPRODUCTION = "gradwire.reproduction/1"
INJECTION_REQUEST = Path(RUN_FOLDER, REQUEST)  # what `inject` leaves in the folder of its results
PLANS = "*/plan.json"  # of the runs in a folder, also of those that are not complete


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A folder with results.  `began` is in UTC, empty where nobody noted it, as `command` and `job` are.

    `done` of `n_cells` cells have a row; `n_cells` is None where there are none.  `best_s` is the shortest
    time of a valid one of the largest size, `best_cell` which that is.  `nbytes` are on disk.  `problem` says
    why the results cannot be read, in one line; empty if they can.
    """

    folder: str
    kind: Kind
    began: str = ""
    command: str = ""
    job: str = ""
    n_cells: int | None = None
    done: int = 0
    valid: int = 0
    not_valid: int = 0
    refused: int = 0
    best_s: float | None = None
    best_cell: str | None = None
    nbytes: int = 0
    problem: str = ""


def listed_runs(folder: Path) -> list[ListedRun]:
    """The sub-folders with results or parts of them, by name.  Raise BadRun, or OSError."""
    check_folder(folder, "name the folder that holds the runs' folders")
    folders = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink()]
    return [listed for each in folders if (listed := _listed(each))]


def _listed(folder: Path) -> ListedRun | None:
    """None for a folder in which no command left results."""
    try:
        found = _results(folder) if (folder / RESULT).is_file() else _others(folder)
    except (BadRun, OSError) as error:
        found = ListedRun(folder.name, "unknown", problem=str(error))
    return found and replace(found, nbytes=sum(_sizes(folder)))


def _others(folder: Path) -> ListedRun | None:
    """Of a folder without a result of its own."""
    if (folder / INJECTION_REQUEST).is_file():
        return ListedRun(folder.name, "injection")
    if (folder / MANIFEST).exists() and any(folder.glob("*.pcap*")):
        return ListedRun(folder.name, "capture")
    if folder.name.endswith(INCOMPLETE) or any(folder.glob(PLANS)):
        return ListedRun(folder.name, "runs", problem="no cell is done")
    return None


def _results(folder: Path) -> ListedRun:
    value = read_result(folder)
    if value.get("schema") == REPRODUCTION:
        made = checked_value(folder / RESULT, _ABOUT, value.get("about"))
        return ListedRun(folder.name, "reproduction", made.began, _command(made), made.title)
    results = results_of(folder, value)
    verdicts = Counter(row.verdict for row in results.rows)
    best = _best(results) if isinstance(results, Matrix) else None
    return ListedRun(
        folder=folder.name,
        kind="runs" if isinstance(results, Matrix) else "trust",
        began=results.about.began,
        command=_command(results.about),
        job=results.about.title if isinstance(results, Matrix) else results.job,
        n_cells=results.n_cells if isinstance(results, Matrix) else results.n_rows or len(results.rows),
        done=len(results.rows),
        valid=verdicts["valid"],
        not_valid=verdicts["not valid"],
        refused=verdicts[REFUSED],
        best_s=best.time_s.median if best and best.time_s else None,
        best_cell=best.name if best else None,
    )


def _command(made: About) -> str:
    return made.command[0] if made.command else ""


def _best(matrix: Matrix) -> Row | None:
    """The fastest valid row of the largest size; None if no row is valid."""
    valid = [row for row in matrix.rows if row.valid and row.time_s]
    largest = max((row.bytes for row in valid), default=0)
    same = [row for row in valid if row.bytes == largest]
    return min(same, key=lambda row: row.time_s.median if row.time_s else 0.0, default=None)


def _sizes(folder: Path) -> Iterator[int]:
    """Of every file below it.  What goes while it is counted, as files of a run under way do, is left out."""
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.lstat()
            if S_ISREG(status.st_mode):
                yield status.st_size


_ABOUT = TypeAdapter(About)
