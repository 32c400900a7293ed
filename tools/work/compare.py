"""Compares the results of two runs, for `gradwire compare`."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gradwire.results.comparison import (
    COMPARISON_SCHEMA,
    CONFIDENCE,
    MIN_REPEATS,
    NOT_VALID,
    ComparedCell,
    compared,
    named,
)
from gradwire.results.resultfolder import load_results
from gradwire.tools.console import console
from gradwire.tools.report.resultwords import missing_words
from gradwire.tools.report.sidebyside import without_shared
from gradwire.tools.table import NOTHING, Cell, columns, or_nothing, rich_table, table_of
from gradwire.traces.units import show_count, show_s

_STYLE = {"slower": "bold red", "faster": "green"}


def compare_results(before: Path, after: Path, *, as_json: bool) -> None:
    """Print each cell of both with the difference of its medians and that one's interval."""
    pairs = [(folder, load_results(folder)) for folder in (before, after)]
    cells = compared(*(named(results.cells) for _, results in pairs))
    if as_json:
        value = {
            "schema": COMPARISON_SCHEMA,
            "before": str(before),
            "after": str(after),
            "incomplete": [str(folder) for folder, results in pairs if not results.is_complete],
            "confidence": CONFIDENCE,
            "cells": [asdict(cell) for cell in cells],
        }
        print(json.dumps(value, indent=1))
        return
    to = console()
    shared, names = without_shared([cell.cell for cell in cells])
    if shared:
        to.print(shared.removeprefix(": "), style="bold", soft_wrap=True)
    rows = [replace(cell, cell=name) for cell, name in zip(cells, names, strict=True)]
    heads = columns("cell", "#before", "#after", "#difference", f"#{CONFIDENCE:.0%} interval", "change")
    to.print(rich_table(table_of(heads, rows, _row)))
    for line in _sentences(cells):
        to.print(line, soft_wrap=True)
    for folder, results in pairs:
        if words := missing_words(results):
            to.print(f"{folder}: {words}", soft_wrap=True)


def _row(cell: ComparedCell) -> tuple[Cell | str, ...]:
    return (
        cell.cell,
        _time(cell.before_s, cell.before_repeats),
        _time(cell.after_s, cell.after_repeats),
        or_nothing(cell.difference, "{:+.1%}".format),
        NOTHING if cell.low is None else f"{cell.low:+.1%} to {cell.high:+.1%}",
        Cell(cell.change, style=_STYLE.get(cell.change, "")),
    )


def _time(seconds: float | None, repeats: int) -> str:
    return NOTHING if seconds is None else f"{show_s(seconds)} ({repeats}×)"


def _sentences(cells: Sequence[ComparedCell]) -> list[str]:
    counts = Counter(cell.change for cell in cells)
    changes = ", ".join(f"{count:,} {change}" for change, count in counts.items())
    lines = [f"{show_count(len(cells), 'cell')}: {changes}"]
    lines += [
        f"verdict: {cell.cell}: {cell.before} before, {cell.after} now"
        for cell in cells
        if cell.before and cell.after and cell.before != cell.after
    ]
    if counts["too few repeats"]:
        lines.append(f"too few repeats: both sides need {MIN_REPEATS} or more: --repeat {MIN_REPEATS}")
    if counts[NOT_VALID]:
        lines.append("not valid: such times may be the machine's own, so no change is claimed")
    return lines
