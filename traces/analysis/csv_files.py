"""An analysis as CSV files, for spreadsheets and pandas.  An edge module: it writes files."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from traces.analysis.analysis import Analysis, Iteration, Transfer
from traces.files import whole_file
from traces.framing.frames import Kind
from traces.framing.messages import COLUMNS, KIND_NAMES, Messages


def write_csv(analysis: Analysis, messages: Messages, folder: Path) -> tuple[Path, ...]:
    """Write `transfers.csv`, `iterations.csv`, `matrix.csv` and `messages.csv`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = range(len(analysis.addresses))
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]] = {
        "transfers": (_names(Transfer), map(astuple, analysis.transfers)),
        "iterations": (_names(Iteration), map(astuple, analysis.iterations)),
        "matrix": (["src", *map(str, ranks)], ([r, *analysis.matrix_nbytes[r]] for r in ranks)),
        "messages": (COLUMNS, _message_rows(messages)),
    }
    paths = tuple(folder / f"{name}.csv" for name in tables)
    for path, (names, rows) in zip(paths, tables.values(), strict=True):
        _write(path, names, rows)
    return paths


def _names(record: type[Transfer] | type[Iteration]) -> list[str]:
    return [field.name for field in fields(record)]


def _message_rows(messages: Messages) -> Iterable[Sequence[Any]]:
    named = {
        "kind": [KIND_NAMES[Kind(kind)] for kind in messages.kind.tolist()],
        "operation": [messages.operations[number] for number in messages.operation.tolist()],
    }
    plain = {name: getattr(messages, name).tolist() for name in COLUMNS if name not in named}
    return zip(*((named | plain)[name] for name in COLUMNS), strict=True)


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
