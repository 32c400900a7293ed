"""An analysis as tables: pandas frames, and CSV files for spreadsheets.  An edge module: it writes files."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwire.traces.analysis.aggregations import AggregationHost
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import HostBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.bursts import Burstiness
from gradwire.traces.analysis.exposure import Exposure, Span, Straggler
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.incast import Incast
from gradwire.traces.analysis.percentiles import Percentiles
from gradwire.traces.analysis.traffic import Traffic
from gradwire.traces.analysis.transfers import AlgorithmUse, Iteration, Transfer
from gradwire.traces.files import whole_file
from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import COLUMNS, KIND_NAMES, Messages
from gradwire.traces.trace import CaptureFile

if TYPE_CHECKING:
    import pandas as pd

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]
_PARTS = tuple(field.name for field in fields(Percentiles))
_PERCENTILES = ("rtt_ns", "window_nbytes", "delay_ns")


def write_csv(analysis: Analysis, messages: Messages, folder: Path) -> tuple[Path, ...]:
    """Write every table of the analysis, and every message, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = _tables(analysis, messages)
    paths = tuple(folder / f"{name}.csv" for name in tables)
    for path, (names, rows) in zip(paths, tables.values(), strict=True):
        _write(path, names, rows)
    return paths


def frames(analysis: Analysis, messages: Messages) -> "dict[str, pd.DataFrame]":
    """The same tables by their names, one row for each record; what is not known is missing (NaN)."""
    import pandas as pd  # here, because it takes a while to import

    return {
        name: pd.DataFrame(list(rows), columns=list(names))
        for name, (names, rows) in _tables(analysis, messages).items()
    }


def _tables(analysis: Analysis, messages: Messages) -> dict[str, Table]:
    ranks = range(len(analysis.addresses))
    return {
        "transfers": _records(Transfer, analysis.transfers),
        "algorithms": _records(AlgorithmUse, analysis.algorithms),
        "iterations": _records(Iteration, analysis.iterations),
        "exposures": _records(Exposure, analysis.exposures),
        "spans": _records(Span, analysis.spans),
        "stragglers": _records(Straggler, analysis.stragglers),
        "matrix": (["src", *map(str, ranks)], ([r, *analysis.matrix_nbytes[r]] for r in ranks)),
        "messages": (COLUMNS, _message_rows(messages)),
        "flows": _flows(analysis.flows),
        "bounds": _records(Bound, analysis.bounds),
        "host_bounds": _records(HostBound, analysis.host_bounds),
        "burstiness": _records(Burstiness, analysis.burstiness),
        "rates": (("host", "direction", "window_ns", "start_ns", "bps"), _rate_rows(analysis)),
        "incasts": _records(Incast, analysis.incasts),
        "aggregations": _aggregation_hosts(analysis),
        "traffic": _records(Traffic, analysis.traffic),
        "files": _records(CaptureFile, analysis.files),
    }


def _records(kind: type[Any], records: Iterable[Any]) -> Table:
    names = [field.name for field in fields(kind)]
    return names, ([_cell(getattr(record, name)) for name in names] for record in records)


def _cell(value: Any) -> Any:
    """Numbers in one cell are separated by spaces; None is an empty cell."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _flows(flows: Iterable[FlowFigures]) -> Table:
    """Percentiles as columns of their own: `rtt_ns_p50`."""
    names = [field.name for field in fields(FlowFigures) if field.name not in _PERCENTILES]
    wide = [f"{name}_{part}" for name in _PERCENTILES for part in _PARTS]
    return [*names, *wide], (
        [getattr(flow, name) for name in names]
        + [
            None if found is None else getattr(found, part)
            for found in (getattr(flow, name) for name in _PERCENTILES)
            for part in _PARTS
        ]
        for flow in flows
    )


def _aggregation_hosts(analysis: Analysis) -> Table:
    """A row for each host of each job."""
    names, _ = _records(AggregationHost, ())
    return ["job", "udp_port", *names], (
        [job.job, job.udp_port, *(getattr(host, name) for name in names)]
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


def _message_rows(messages: Messages) -> Iterable[Sequence[Any]]:
    named = {
        "kind": [KIND_NAMES[MessageKind(kind)] for kind in messages.kind.tolist()],
        "operation": [messages.operations[number] for number in messages.operation.tolist()],
    }
    plain = {name: getattr(messages, name).tolist() for name in COLUMNS if name not in named}
    return zip(*((named | plain)[name] for name in COLUMNS), strict=True)


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
