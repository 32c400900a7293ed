"""Lists the results in a folder, for `gradwire runs`.

Which results a folder holds, as a table: for `gradwire runs`, and for the page of `gradwire serve`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gradwire.results.row import REFUSED
from gradwire.results.runlist import ListedRun, listed_runs
from gradwire.tools.console import console
from gradwire.tools.report.rowtables import VERDICT_STYLES
from gradwire.tools.table import NOTHING, Cell, columns, rich_table, table_of
from gradwire.traces.units import show_nbytes, show_s

MINUTES = len("2026-07-04 10:15")
HEADS = (
    *columns("folder"),
    *columns("began (UTC)", wrap="never"),
    *columns("command: job"),
    *columns("#cells", wrap="never"),
    *columns("verdicts", "best"),
    *columns("#on disk", wrap="never"),
)


def list_runs(folder: Path, *, as_json: bool) -> None:
    """Print a row for each result, and what is wrong with those that cannot be read."""
    found = listed_runs(folder)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    to = console()
    if not found:
        to.print(f"no results in {folder}", soft_wrap=True)
        return
    to.print(rich_table(table_of(HEADS, found, row_of), dense=True))
    for each in found:
        if each.problem:
            to.print(f"{each.folder}: {each.problem}", style="dim", soft_wrap=True)


def row_of(each: ListedRun) -> Sequence[Cell | str]:
    """Its cells below HEADS."""
    what = ": ".join(filter(None, (each.command, each.job))) or each.kind
    return (
        each.folder,
        each.began.replace("T", " ")[:MINUTES] or NOTHING,
        what,
        _cells(each),
        Cell(_verdicts(each), style=VERDICT_STYLES["not valid"] if each.not_valid else ""),
        _best(each),
        show_nbytes(each.nbytes),
    )


def _best(each: ListedRun) -> str:
    """With the cell's name, where there are several."""
    if each.best_s is None:
        return NOTHING
    return show_s(each.best_s) + (f", {each.best_cell}" if each.done > 1 else "")


def _cells(each: ListedRun) -> str:
    if each.n_cells is None:
        return NOTHING
    return f"{each.done}" if each.done == each.n_cells else f"{each.done} of {each.n_cells}"


def _verdicts(each: ListedRun) -> str:
    counts = (("valid", each.valid), ("not valid", each.not_valid), (REFUSED, each.refused))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts if count) or NOTHING
