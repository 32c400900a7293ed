"""An analysis as tables: pandas frames, and CSV files for spreadsheets.  An edge module: it writes files.

All their times have one base: ns from the analysis' `origin_ns`, which is in the table of files.  Of times
since 1970 a spreadsheet, and whatever else computes in float64, would round the last digits away.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwire.traces.analysis.aggregations import AggregationHost
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import HostBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.bursts import Burstiness, WindowRates
from gradwire.traces.analysis.exposure import Exposure, Span, Straggler
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.incast import Incast
from gradwire.traces.analysis.traffic import Traffic
from gradwire.traces.analysis.transfers import AlgorithmUse, Iteration, Transfer
from gradwire.traces.dataframes import TEXT, Column, columns_of, typed
from gradwire.traces.files import whole_file
from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import COLUMNS, KIND_NAMES, Messages
from gradwire.traces.trace import CaptureFile

if TYPE_CHECKING:
    import pandas as pd

Table = tuple[Sequence[Column], Iterable[Sequence[Any]]]
_MESSAGE_TYPES = {"kind": TEXT, "operation": TEXT, "whole": "bool", "recovered": "bool"}  # the others: int64
_MESSAGE_TIMES = ("first_ns", "last_ns", "received_ns")


@dataclass(frozen=True)
class ListedFile(CaptureFile):
    """A capture file with its times from `origin_ns`, which itself counts from 1970."""

    origin_ns: int = 0


def write_csv(analysis: Analysis, messages: Messages, folder: Path) -> tuple[Path, ...]:
    """Write every table of the analysis, and every message, each file whole or not at all.

    Raise OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = _tables(analysis, messages)
    paths = tuple(folder / f"{name}.csv" for name in tables)
    for path, (columns, rows) in zip(paths, tables.values(), strict=True):
        _write(path, [column.name for column in columns], rows)
    return paths


def frames(analysis: Analysis, messages: Messages) -> "dict[str, pd.DataFrame]":
    """The same tables by their names, one row for each record."""
    return {name: typed(*table) for name, table in _tables(analysis, messages).items()}


def _tables(analysis: Analysis, messages: Messages) -> dict[str, Table]:
    ranks = range(len(analysis.addresses))
    return {
        "transfers": _records(Transfer, analysis.transfers),
        "algorithms": _records(AlgorithmUse, analysis.algorithms),
        "iterations": _records(Iteration, analysis.iterations),
        "exposures": _records(Exposure, analysis.exposures),
        "spans": _records(Span, analysis.spans),
        "stragglers": _records(Straggler, analysis.stragglers),
        "matrix": (
            [Column(name, "int64") for name in ("src", *map(str, ranks))],
            ([r, *analysis.matrix_nbytes[r]] for r in ranks),
        ),
        "messages": (
            [Column(name, _MESSAGE_TYPES.get(name, "int64")) for name in COLUMNS],
            _message_rows(messages, analysis.origin_ns),
        ),
        "flows": _records(FlowFigures, analysis.flows),
        "bounds": _records(Bound, analysis.bounds),
        "host_bounds": _records(HostBound, analysis.host_bounds),
        "burstiness": _records(Burstiness, analysis.burstiness),
        "rates": ((*columns_of(WindowRates, ["bps"]), Column("bps", "float64")), _rate_rows(analysis)),
        "incasts": _records(Incast, analysis.incasts),
        "aggregations": _aggregation_hosts(analysis),
        "traffic": _records(Traffic, analysis.traffic),
        "files": _records(ListedFile, (_listed(file, analysis.origin_ns) for file in analysis.files)),
    }


def _records(kind: type[Any], records: Iterable[Any]) -> Table:
    columns = columns_of(kind)
    return columns, ([column.of(record) for column in columns] for record in records)


def _listed(file: CaptureFile, origin_ns: int) -> ListedFile:
    same = {field.name: getattr(file, field.name) for field in fields(file)}
    times = {name: same[name] - origin_ns for name in ("first_ns", "last_ns")}
    return ListedFile(**{**same, **times}, origin_ns=origin_ns)


def _aggregation_hosts(analysis: Analysis) -> Table:
    """A row for each host of each job."""
    jobs = (Column("job", "int64"), Column("udp_port", "int64"))
    hosts = columns_of(AggregationHost)
    return (*jobs, *hosts), (
        [job.job, job.udp_port, *(column.of(host) for column in hosts)]
        for job in analysis.aggregations
        for host in job.hosts
    )


def _rate_rows(analysis: Analysis) -> Iterator[Sequence[Any]]:
    """A row for every window in which anything was sent."""
    for rates in analysis.rates:
        for number, bps in enumerate(rates.bps):
            if bps:
                start_ns = rates.start_ns + number * rates.window_ns
                yield rates.host, rates.direction, rates.window_ns, start_ns, bps


def _message_rows(messages: Messages, origin_ns: int) -> Iterable[Sequence[Any]]:
    columns = {
        "kind": [KIND_NAMES[MessageKind(kind)] for kind in messages.kind.tolist()],
        "operation": [messages.operations[number] for number in messages.operation.tolist()],
        **{name: (getattr(messages, name) - origin_ns).tolist() for name in _MESSAGE_TIMES},
    }
    columns |= {name: getattr(messages, name).tolist() for name in COLUMNS if name not in columns}
    return zip(*(columns[name] for name in COLUMNS), strict=True)


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
