"""An analysis of captures as tables of at most 100 columns."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from rich.console import Console
from rich.text import Text

from gradwire.results.advice import Advice, Proposal
from gradwire.tools.console import console
from gradwire.tools.table import Record, Table, columns, print_left_out, rich_table, table_of
from gradwire.traces.analysis.aggregations import AggregationJob
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import HostBound
from gradwire.traces.analysis.bursts import Burstiness
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.summary import sentences
from gradwire.traces.analysis.transfers import Iteration, Transfer
from gradwire.traces.recognition.shape import taxonomy_of
from gradwire.traces.trace import CaptureFile
from gradwire.traces.units import show_bps, show_count, show_nbytes, show_s

MAX_ROWS = 40
MAX_FLOWS = 12
MAX_MATRIX_RANKS = 10


def print_analysis(analysis: Analysis, advice: Advice | None = None) -> None:
    """The summary first, then what to do next, then the tables that have rows."""
    to = console()
    to.print(Text(_title(analysis), style="bold"))
    if analysis.shape is not None:
        to.print(Text(f"taxonomy: {taxonomy_of(analysis.shape)}", style="dim"))
    for sentence in sentences(analysis):
        to.print(Text(sentence))
    to.print()
    if advice is not None:
        _print_advice(to, advice)
    tables = [_files(analysis)]
    if analysis.addresses:
        tables += [_matrix(analysis), _transfers(analysis), _iterations(analysis)]
    tables += [_host_bounds(analysis), _aggregations(analysis), _flows(analysis), _bursts(analysis)]
    for table in tables:
        if not table.rows:
            continue
        to.print(Text(table.title, style="bold"))
        to.print(rich_table(table))
        print_left_out(to, table.left_out, "; --html, --json and --csv have all")
        to.print()
    to.print(Text(_losses(analysis)))
    for note in analysis.notes:
        to.print(Text(f"note: {note}", style="dim"))


def _print_advice(to: Console, advice: Advice) -> None:
    """The commands are not broken into lines, so that they can be pasted."""
    to.print(Text("What to do next", style="bold"))
    if advice.changes:
        numbered = list(enumerate(advice.changes, start=1))
        titles = ("", "change", "#iteration takes", "#saves", "#")
        to.print(rich_table(_table("", titles, numbered, _change)))
        to.print(Text("to try them:", style="dim"))
        for number, change in numbered:
            to.print(Text(f"{number}  {change.command}"), soft_wrap=True)
    to.print(Text(advice.summary))
    for sentence in advice.not_said:
        to.print(Text(f"{sentence}.", style="dim"))
    to.print()


def _change(numbered: tuple[int, Proposal]) -> tuple[str, ...]:
    number, change = numbered
    low, high = (show_s(ns / 1e9) for ns in (change.saved_low_ns, change.saved_high_ns))
    takes, saves = show_s(change.time_ns / 1e9), f"{low} to {high}"
    return str(number), change.what, takes, saves, f"{change.saved_share:.0%}"


def _title(analysis: Analysis) -> str:
    if analysis.missing:
        return f"{analysis.name}: no training recognised"
    return f"{analysis.name}: {len(analysis.addresses)} ranks, {analysis.framing}"


def _table(
    title: str,
    titles: Sequence[str],
    records: Sequence[Record],
    row: Callable[[Record], Iterable[str]],
    most: int = MAX_ROWS,
) -> Table:
    """A table that no terminal breaks within a cell."""
    return table_of(columns(*titles, wrap="never"), records, row, most, title)


def _files(analysis: Analysis) -> Table:
    def row(file: CaptureFile) -> tuple[str, ...]:
        duration = show_s((file.last_ns - file.first_ns) / 1e9)
        where = file.host or "several hosts"
        if file.host in analysis.addresses:
            where = f"rank {analysis.addresses.index(file.host)} ({file.host})"
        kept = str(file.snaplen) if file.snaplen else "none"
        return file.path.name, where, f"{file.n_packets:,}", show_nbytes(file.nbytes), duration, kept

    titles = ("file", "captured at", "#packets", "#bytes", "#duration", "#snaplen")
    return _table("Captures", titles, analysis.files, row)


def _matrix(analysis: Analysis) -> Table:
    ranks = range(len(analysis.addresses))
    name, unit = _unit(max(map(max, analysis.matrix_nbytes)))
    title = f"Payload from rank to rank, {name}"
    if len(ranks) <= MAX_MATRIX_RANKS:

        def row(src: int) -> tuple[str, ...]:
            return str(src), *(_in_unit(nbytes, unit) for nbytes in analysis.matrix_nbytes[src])

        return _table(title, ("from \\ to", *(f"#{dst}" for dst in ranks)), ranks, row)
    pairs = [(analysis.matrix_nbytes[src][dst], src, dst) for src in ranks for dst in ranks]
    pairs = sorted((pair for pair in pairs if pair[0]), reverse=True)

    def pair_row(pair: tuple[int, int, int]) -> tuple[str, ...]:
        nbytes, src, dst = pair
        return str(src), str(dst), _in_unit(nbytes, unit)

    return _table(f"{title}, largest first", ("#from", "#to", "#payload"), pairs, pair_row)


def _unit(largest: int) -> tuple[str, int]:
    units = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next(((name, size) for name, size in units if largest >= size), ("B", 1))


def _in_unit(nbytes: int, unit: int) -> str:
    """`·` for nothing; a trace of something shows as such beside much larger values."""
    if not nbytes:
        return "·"
    return f"{nbytes / unit:.3g}" if nbytes >= unit / 100 else "<0.01"


def _transfers(analysis: Analysis) -> Table:
    figures = ("#tag", "#messages", "#bytes", "#start", "#time", "#algbw", "#busbw")
    titles = ("iteration", "kind", "algorithm", *figures)
    return _table("Collectives and messages", titles, analysis.transfers, _transfer)


def _transfer(transfer: Transfer) -> tuple[str, ...]:
    rates = (transfer.algbw_Bps, transfer.busbw_Bps)
    return (
        "set-up" if transfer.iteration < 0 else str(transfer.iteration),
        transfer.kind,
        transfer.algorithm,
        "" if transfer.tag < 0 else str(transfer.tag),
        "" if transfer.algbw_Bps is not None else str(transfer.count),
        show_nbytes(transfer.nbytes),
        show_s(transfer.start_ns / 1e9),
        show_s(transfer.time_ns / 1e9),
        *("" if rate is None else f"{show_nbytes(rate)}/s" for rate in rates),
    )


def _iterations(analysis: Analysis) -> Table:
    def row(one: Iteration) -> tuple[str, ...]:
        times = (show_s(ns / 1e9) for ns in (one.start_ns, one.time_ns))
        nbytes = show_nbytes(one.payload_nbytes)
        return str(one.iteration), *times, str(one.transfers), nbytes, show_s(one.gap_ns / 1e9)

    titles = ("#iteration", "#start", "#time", "#transfers", "#payload sent", "#compute before")
    return _table("Iterations", titles, analysis.iterations, row)


def _host_bounds(analysis: Analysis) -> Table:
    """Nothing where no host shows a rate."""

    def row(one: HostBound) -> tuple[str, ...]:
        by = {"link": "a link on its way", "share": f"its share of the link at {one.limited_at}"}
        rate = show_bps(one.rate_bps) if one.rate_bps is not None else ""
        return one.host, by.get(one.bound, "unknown"), rate, f"{one.held_share:.0%}"

    bounded = [one for one in analysis.host_bounds if one.bound != "none"]
    return _table("What bounded each host", ("host", "bounded by", "#of rate", "#held"), bounded, row)


def _aggregations(analysis: Analysis) -> Table:
    packets = ("#sent", "#again", "#results", "#statuses", "#epochs")
    titles = ("#job", "#hosts", "#chunks", "#elements", *packets, "#time", "#goodput")
    title = "In-network aggregation; goodput of the median host's contributions"
    return _table(title, titles, analysis.aggregations, _aggregation)


def _aggregation(job: AggregationJob) -> tuple[str, ...]:
    packets = {one.kind: one.packets for one in job.kinds}
    rates = [host.goodput_bps for host in job.hosts if host.goodput_bps]
    return (
        *(str(value) for value in (job.job, len(job.hosts))),
        *(f"{value:,}" for value in (job.chunks, job.elements, packets["contribution"], job.again)),
        *(f"{value:,}" for value in (packets["result"], packets["status"], job.epochs)),
        show_s((job.last_ns - job.first_ns) / 1e9),
        show_bps(median(rates)) if rates else "",
    )


def _flows(analysis: Analysis) -> Table:
    titles = ("from", "to", "#payload", "#FCT", "#goodput", "#resent", "#RTT p50", "#p99")
    flows = sorted(analysis.flows, key=lambda flow: (not flow.training, -flow.payload_nbytes))
    return _table("Flows, the largest", titles, flows, _flow, MAX_FLOWS)


def _flow(flow: FlowFigures) -> tuple[str, ...]:
    rtt = [] if flow.rtt_ns is None else [show_s(ns / 1e9) for ns in (flow.rtt_ns.p50, flow.rtt_ns.p99)]
    return (
        f"{flow.src}:{flow.sport}",
        f"{flow.dst}:{flow.dport}",
        show_nbytes(flow.payload_nbytes),
        show_s(flow.duration_ns / 1e9),
        "" if flow.goodput_bps is None else show_bps(flow.goodput_bps),
        str(flow.retransmitted),
        *(rtt or ("", "")),
    )


def _bursts(analysis: Analysis) -> Table:
    """The host with the highest peak in each window."""
    highest: dict[int, Burstiness] = {}
    for one in analysis.burstiness:
        if one.window_ns not in highest or one.peak_to_mean > highest[one.window_ns].peak_to_mean:
            highest[one.window_ns] = one

    def row(one: Burstiness) -> tuple[str, ...]:
        rates = (show_bps(one.mean_bps), show_bps(one.peak_bps))
        return show_s(one.window_ns / 1e9), one.host, one.direction, *rates, f"{one.peak_to_mean:.1f}"

    titles = ("window", "host", "direction", "#mean", "#peak", "#peak to mean")
    shown = [highest[window_ns] for window_ns in sorted(highest)]
    return _table("Burstiness, the burstiest host", titles, shown, row)


def _losses(analysis: Analysis) -> str:
    losses = analysis.losses
    unresolved, unseen = show_nbytes(losses.unresolved_nbytes), show_nbytes(losses.unseen_nbytes)
    gaps = show_count(losses.unresolved, "gap")
    return (
        f"{losses.data_packets:,} data packets, each counted once: {losses.retransmitted:,} retransmitted. "
        f"Preambles that the captures hide: {losses.recovered:,} recovered, {gaps} "
        f"({unresolved}) unresolved. In no capture: {unseen}. "
        f"Rendezvous, left out: {show_count(analysis.rendezvous_packets, 'packet')}. "
        f"Incast episodes: {len(analysis.incasts):,}."
    )
