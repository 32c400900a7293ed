"""An analysis of captures as tables of at most 100 columns."""

from rich.table import Table
from rich.text import Text

from tools.console import console
from traces.analysis.analysis import Analysis, Transfer
from traces.units import show_nbytes, show_s

MAX_ROWS = 40
MAX_MATRIX_RANKS = 10


def print_analysis(analysis: Analysis) -> None:
    to = console()
    tables = [_files(analysis), _matrix(analysis), _transfers(analysis), _iterations(analysis)]
    for title, table, left_out in tables:
        to.print(Text(title, style="bold"))
        to.print(table)
        if left_out:
            to.print(Text(f"and {left_out} more: see --json or --csv", style="dim"))
        to.print()
    to.print(Text(_losses(analysis)))
    for note in analysis.notes:
        to.print(Text(f"note: {note}", style="dim"))


def _table(left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _files(analysis: Analysis) -> tuple[str, Table, int]:
    table = _table(("file", "captured at"), ("packets", "bytes", "duration"))
    for file in analysis.files[:MAX_ROWS]:
        duration = show_s((file.last_ns - file.first_ns) / 1e9)
        where = file.host or "several hosts"
        if file.host in analysis.addresses:
            where = f"rank {analysis.addresses.index(file.host)} ({file.host})"
        table.add_row(file.path.name, where, f"{file.n_packets:,}", show_nbytes(file.nbytes), duration)
    title = f"{analysis.name}: {len(analysis.addresses)} ranks, {analysis.framing}"
    return title, table, len(analysis.files) - MAX_ROWS if len(analysis.files) > MAX_ROWS else 0


def _matrix(analysis: Analysis) -> tuple[str, Table, int]:
    ranks = range(len(analysis.addresses))
    name, unit = _unit(max(map(max, analysis.matrix_nbytes)))
    title = f"Payload from rank to rank, {name}"
    if len(ranks) <= MAX_MATRIX_RANKS:
        table = _table(("from \\ to",), tuple(map(str, ranks)))
        for src in ranks:
            table.add_row(str(src), *(_in_unit(nbytes, unit) for nbytes in analysis.matrix_nbytes[src]))
        return title, table, 0
    pairs = [(analysis.matrix_nbytes[src][dst], src, dst) for src in ranks for dst in ranks]
    pairs = sorted((pair for pair in pairs if pair[0]), reverse=True)
    table = _table((), ("from", "to", "payload"))
    for nbytes, src, dst in pairs[:MAX_ROWS]:
        table.add_row(str(src), str(dst), _in_unit(nbytes, unit))
    return f"{title}, largest first", table, max(0, len(pairs) - MAX_ROWS)


def _unit(largest: int) -> tuple[str, int]:
    units = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next(((name, size) for name, size in units if largest >= size), ("B", 1))


def _in_unit(nbytes: int, unit: int) -> str:
    """`·` for nothing; a trace of something shows as such beside much larger values."""
    if not nbytes:
        return "·"
    return f"{nbytes / unit:.3g}" if nbytes >= unit / 100 else "<0.01"


def _transfers(analysis: Analysis) -> tuple[str, Table, int]:
    right = ("tag", "messages", "bytes", "start", "time", "algbw", "busbw")
    table = _table(("iteration", "kind"), right)
    for transfer in analysis.transfers[:MAX_ROWS]:
        table.add_row(*_transfer(transfer))
    return "Collectives and messages", table, max(0, len(analysis.transfers) - MAX_ROWS)


def _transfer(transfer: Transfer) -> tuple[str, ...]:
    rates = (transfer.algbw_Bps, transfer.busbw_Bps)
    return (
        "set-up" if transfer.iteration < 0 else str(transfer.iteration),
        transfer.kind,
        str(transfer.tag),
        "" if transfer.algbw_Bps is not None else str(transfer.count),
        show_nbytes(transfer.nbytes),
        show_s(transfer.start_ns / 1e9),
        show_s(transfer.time_ns / 1e9),
        *("" if rate is None else f"{show_nbytes(rate)}/s" for rate in rates),
    )


def _iterations(analysis: Analysis) -> tuple[str, Table, int]:
    table = _table((), ("iteration", "start", "time", "transfers", "payload sent", "compute before"))
    for one in analysis.iterations[:MAX_ROWS]:
        times = (show_s(ns / 1e9) for ns in (one.start_ns, one.time_ns))
        nbytes = show_nbytes(one.payload_nbytes)
        table.add_row(str(one.iteration), *times, str(one.transfers), nbytes, show_s(one.gap_ns / 1e9))
    return "Iterations", table, max(0, len(analysis.iterations) - MAX_ROWS)


def _losses(analysis: Analysis) -> str:
    losses = analysis.losses
    unresolved, unseen = show_nbytes(losses.unresolved_nbytes), show_nbytes(losses.unseen_nbytes)
    return (
        f"{losses.data_packets:,} data packets, each counted once: {losses.retransmitted:,} retransmitted. "
        f"Preambles that the captures hide: {losses.recovered:,} recovered, {losses.unresolved:,} gaps "
        f"({unresolved}) unresolved. In no capture: {unseen}. "
        f"Rendezvous, left out: {analysis.rendezvous_packets:,} packets."
    )
