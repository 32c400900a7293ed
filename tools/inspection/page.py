"""The analysis page: what captures show of a job, as one HTML file that needs nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwire.results.advice import Advice
from gradwire.tools.dygraphs import load_library
from gradwire.tools.inspection import jobtables, wiretables
from gradwire.tools.inspection.charts import chart_data, chart_notes
from gradwire.tools.pageparts import as_script, environment
from gradwire.tools.table import Table
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.summary import sentences
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_bps, show_count, show_first, show_nbytes, show_s

MOST_IN_CELLS, MOST_IN_SHADES = 16, 128  # ranks of a traffic matrix with figures, and of one without
SECTIONS = (
    ("next", "what to do next"),
    ("time", "timeline"),
    ("collectives", "collectives"),
    ("matrix", "matrix"),
    ("aggregation", "aggregation"),
    ("flows", "flows"),
    ("bursts", "bursts"),
    ("kept", "capture and losses"),
    ("sure", "how sure"),
)
SOURCES = {
    "told": "as given",
    "fabric": "of the capture's fabric",
    "measured": "measured: what packets show",
}


@dataclass(frozen=True, slots=True)
class Tile:
    title: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shade:
    """A cell of the heat map; `shade` from 0 to 1."""

    text: str
    hint: str
    shade: float


@dataclass(frozen=True, slots=True)
class TrafficMatrix:
    """Without rows if there are too many ranks for a drawing, or none."""

    rows: tuple[tuple[Shade, ...], ...] = ()
    unit: str = ""
    total: str = ""
    dense: bool = False


def write_page(analysis: Analysis, path: Path, advice: Advice | None = None) -> None:
    """Write the page whole or not at all."""
    write_whole(path, page(analysis, advice))


def page(analysis: Analysis, advice: Advice | None = None) -> str:
    """The page's text. Raise FileNotFoundError if the charts' library is not installed."""
    library = load_library()
    data = chart_data(analysis)
    filled = tables(analysis) | {"advice": jobtables.advice_table(advice)}
    absent = {"next"} if advice is None else set()
    absent |= set() if analysis.aggregations else {"aggregation"}
    values: dict[str, Any] = {
        "title": f"{title(analysis)}: what it did to the network",
        "name": title(analysis),
        "what": what(analysis),
        "summary": sentences(analysis),
        "tiles": list(_tiles(analysis)),
        "sections": [each for each in SECTIONS if each[0] not in absent],
        "advice": advice,
        "data": data,
        "data_json": as_script(data),
        "chart_notes": chart_notes(analysis),
        "spans_missing": _spans_missing(analysis),
        "tables": filled,
        "matrix": heat_map(analysis),
        "losses": losses(analysis),
        "made": f"Times count from the first {'packet' if analysis.missing else 'byte of the training'}. "
        "Every figure is also in what inspect --json and --csv write.",
        "library": library,
    }
    return environment().get_template("inspect.html").render(values)


def tables(analysis: Analysis) -> dict[str, Table]:
    """All tables of the page by name."""
    return {
        "iterations": jobtables.iterations_table(analysis),
        "exposures": jobtables.exposures_table(analysis),
        "stragglers": jobtables.stragglers_table(analysis),
        "transfers": jobtables.transfers_table(analysis),
        "pairs": jobtables.pairs_table(analysis),
        "incasts": jobtables.incasts_table(analysis),
        "aggregations": wiretables.aggregations_table(analysis),
        "aggregation_hosts": wiretables.aggregation_hosts_table(analysis),
        "flows": wiretables.flows_table(analysis),
        "bursts": wiretables.bursts_table(analysis),
        "files": wiretables.files_table(analysis),
        "traffic": wiretables.traffic_table(analysis),
        "statements": wiretables.statements_table(analysis),
    }


def title(analysis: Analysis) -> str:
    """The folder's name, or the first file's and how many there are besides."""
    names = [file.path.name for file in analysis.files]
    return show_first(names, 1) if analysis.name == names[0] else analysis.name


def what(analysis: Analysis) -> str:
    """One line: how much was captured, and of what kind of job."""
    packets = sum(file.n_packets for file in analysis.files)
    files = show_count(len(analysis.files), "file")
    captured = f"{show_count(packets, 'packet')} in {files}, {show_s(analysis.duration_ns / 1e9)}"
    if analysis.missing:
        return captured
    shape = analysis.shape
    kind = ""
    if shape is not None:
        kind = f", {shape.kind.replace('-', ' ')}"
        if shape.servers:
            kind += f" with {show_count(len(shape.servers), 'server')}"
        if shape.synchronous is not None and shape.kind == "parameter-server":
            kind += ", synchronous" if shape.synchronous else ", asynchronous"
    return f"{len(analysis.addresses)} ranks, {analysis.framing}{kind}; {captured}"


def losses(analysis: Analysis) -> str:
    """What was resent, what the captures hide, and what is in none of them."""
    lost = analysis.losses
    cut = sum(file.truncated for file in analysis.files)
    dropped_counts = [file.dropped for file in analysis.files if file.dropped is not None]
    dropped = (
        f"says that it dropped {show_count(sum(dropped_counts), 'packet')}"
        if dropped_counts
        else "does not say what it dropped"
    )
    files = show_count(len(analysis.files), "file")
    whose = "data packets" if analysis.missing else "data packets of the training"
    parts = [
        f"{lost.data_packets:,} {whose}, each counted once:",
        f"{lost.retransmitted:,} sent again. The capture {dropped};",
        f"{show_nbytes(lost.unseen_nbytes)} of the streams are in no file.",
        f"Headers of messages that the snaplen hides: {lost.recovered:,} recovered,",
        f"{show_count(lost.unresolved, 'gap')} ({show_nbytes(lost.unresolved_nbytes)}) unresolved.",
        f"Cut off at their end: {cut} of {files}." if cut else "No file is cut off at its end.",
    ]
    return " ".join(parts)


def _spans_missing(analysis: Analysis) -> str:
    if analysis.missing:
        return f"No timeline of ranks: {analysis.missing}."
    return "No timeline of ranks: no iterations were recognised in what was sent."


def _tiles(analysis: Analysis) -> Iterator[Tile]:
    """The figures of the summary, to be seen at a glance."""
    if (shares := analysis.shares) is not None:
        yield Tile("iteration", show_s(shares.time_ns / 1e9), f"median of {shares.n_iterations}")
    if shares is not None and not analysis.shares_refused:
        left = f", without {show_count(len(shares.long), 'long iteration')}" if shares.long else ""
        yield Tile("exposed communication", f"{shares.exposed:.0%}", f"of the ranks' time{left}")
        yield Tile("waiting", f"{shares.wait:.0%}", "for a later rank")
    late = max(analysis.stragglers, key=lambda one: (one.times_last, one.mean_late_ns), default=None)
    if late is not None and late.times_last:
        counted = sum(one.times_last for one in analysis.stragglers)
        note = f"last in {late.times_last} of {counted}, by {show_s(late.mean_late_ns / 1e9)}"
        yield Tile("latest", f"rank {late.rank}", note)
    if analysis.line_rate is not None:
        yield Tile("line rate", show_bps(analysis.line_rate.bps), SOURCES[analysis.line_rate.source])
    if analysis.job_bound.bound == "link" and analysis.job_bound.rate_bps is not None:
        held = f"held {analysis.job_bound.held_share:.0%} of the time in flight at {analysis.job_bound.host}"
        yield Tile("bounded by a link of", show_bps(analysis.job_bound.rate_bps), held)
    finest = [
        one for one in analysis.burstiness if one.window_ns == min(b.window_ns for b in analysis.burstiness)
    ]
    if worst := max(finest, key=lambda one: one.peak_to_mean, default=None):
        window = show_s(worst.window_ns / 1e9)
        yield Tile(
            "peak to mean", f"{worst.peak_to_mean:.0f}×", f"in {window}, {worst.direction} at {worst.host}"
        )
    data = analysis.losses.data_packets
    if data:
        yield Tile("sent again", f"{analysis.losses.retransmitted / data:.2%}", f"of {data:,} data packets")


def heat_map(analysis: Analysis) -> TrafficMatrix:
    """The traffic matrix as shades, with figures if there is room for them."""
    rows = analysis.matrix_nbytes
    largest = max((max(row) for row in rows), default=0)
    if not largest or len(rows) > MOST_IN_SHADES:
        return TrafficMatrix()
    units = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))
    unit, size = next((name, size) for name, size in units if largest >= size)

    def shade(src: int, dst: int, nbytes: int) -> Shade:
        if not nbytes:
            return Shade("·", f"rank {src} to rank {dst}: nothing", 0)
        text = f"{nbytes / size:.3g}" if nbytes >= size / 100 else "<0.01"
        return Shade(
            text, f"rank {src} to rank {dst}: {nbytes:,} bytes", round(max(nbytes / largest, 0.03), 3)
        )

    return TrafficMatrix(
        rows=tuple(tuple(shade(s, d, nbytes) for d, nbytes in enumerate(row)) for s, row in enumerate(rows)),
        unit=unit,
        total=show_nbytes(sum(map(sum, rows))),
        dense=len(rows) > MOST_IN_CELLS,
    )
