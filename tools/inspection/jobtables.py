"""What the tables of the analysis page say of the job: iterations, collectives, who waits for whom."""

from collections import defaultdict
from statistics import median

from gradwire.results.advice import Advice, Proposal
from gradwire.tools.inspection.cells import (
    iteration_cell,
    largest,
    made_table,
    number,
    rank_cell,
    rate,
    share_bar,
    time,
)
from gradwire.tools.table import NOTHING, Cell, Table
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.exposure import Exposure, Straggler
from gradwire.traces.analysis.incast import Incast
from gradwire.traces.analysis.transfers import Iteration, Transfer
from gradwire.traces.units import show_bps, show_count, show_nbytes

NO_JOB = "Nothing to show: no training was recognised in these captures."


def advice_table(advice: Advice | None) -> Table:
    """The commands are cells, as they are to be pasted."""

    def row(one: Proposal) -> tuple[Cell, ...]:
        times = (number(ns, time) for ns in (one.time_ns, one.saved_ns, one.saved_low_ns, one.saved_high_ns))
        return (Cell(one.what), *times, share_bar(one.saved_share), Cell(one.command))

    columns = ("change", "#iteration takes", "#saves", "#from", "#to", "#of an iteration", "command")
    return made_table("", columns, advice.changes if advice else (), row, "")


def iterations_table(analysis: Analysis) -> Table:
    columns = (
        "#iteration", "#begins", "#time", "#compute", "#exposed", "#exposed share", "#wait", "#overlapped",
        "#transfers", "#payload sent",
    )  # fmt: skip
    by_iteration: defaultdict[int, list[Exposure]] = defaultdict(list)
    for exposure in analysis.exposures:
        by_iteration[exposure.iteration].append(exposure)

    def row(one: Iteration) -> tuple[Cell, ...]:
        some = by_iteration[one.iteration]
        times = [
            median(getattr(exposure, name) for exposure in some) if some else None
            for name in ("time_ns", "compute_ns", "exposed_ns", "wait_ns", "overlapped_ns")
        ]
        shares = [exposure.exposed_ns / exposure.time_ns for exposure in some if exposure.time_ns]
        cells = [number(ns, time) for ns in times]
        return (
            iteration_cell(one.iteration),
            number(one.start_ns, time),
            *cells[:3],
            share_bar(median(shares) if shares else None),
            *cells[3:],
            number(one.transfers),
            number(one.payload_nbytes, show_nbytes),
        )

    caption = "Iterations: the median rank's times, and what all ranks sent"
    return made_table(caption, columns, analysis.iterations, row, "No iterations were recognised.")


def exposures_table(analysis: Analysis) -> Table:
    columns = (
        "#iteration",
        "#rank",
        "#time",
        "#compute",
        "#exposed",
        "#exposed share",
        "#overlapped",
        "#wait",
        "waits for",
    )

    def row(one: Exposure) -> tuple[Cell, ...]:
        return (
            iteration_cell(one.iteration),
            rank_cell(analysis, one.rank),
            *(number(ns, time) for ns in (one.time_ns, one.compute_ns, one.exposed_ns)),
            share_bar(one.exposed_ns / one.time_ns if one.time_ns else None),
            *(number(ns, time) for ns in (one.overlapped_ns, one.wait_ns)),
            rank_cell(analysis, one.waits_for),
        )

    caption = "Iterations, rank by rank"
    return made_table(caption, columns, analysis.exposures, row, "No iterations were recognised.")


def stragglers_table(analysis: Analysis) -> Table:
    def row(one: Straggler) -> tuple[Cell, ...]:
        address = Cell(analysis.addresses[one.rank])
        return (
            rank_cell(analysis, one.rank),
            address,
            number(one.times_last),
            number(one.mean_late_ns, time),
        )

    some = sorted(analysis.stragglers, key=lambda one: -one.times_last)
    columns = ("#rank", "address", "#times last", "#late by, mean")
    return made_table("Who was waited for", columns, some, row, "No rank is known to wait for another.")


def transfers_table(analysis: Analysis) -> Table:
    columns = (
        "#iteration", "kind", "#tag", "algorithm", "#sure", "#messages", "#bytes",
        "#start", "#time", "#algbw", "#busbw", "#of line rate",
    )  # fmt: skip

    def row(one: Transfer) -> tuple[Cell, ...]:
        return (
            iteration_cell(one.iteration),
            Cell(one.kind),
            number(one.tag, str) if one.tag >= 0 else Cell(NOTHING, ""),
            Cell(one.algorithm),
            number(one.confidence, "{:.0%}".format),
            number(one.count) if one.algbw_Bps is None else Cell(NOTHING, ""),
            number(one.nbytes, show_nbytes, f"{one.nbytes:,} bytes"),
            *(number(ns, time) for ns in (one.start_ns, one.time_ns)),
            *(number(Bps, rate) for Bps in (one.algbw_Bps, one.busbw_Bps)),
            share_bar(one.line_share),
        )

    some = largest(analysis.transfers, lambda one: one.nbytes)
    shown = "The largest, in the order of time"
    return made_table("Each collective, and messages that belong together", columns, some, row, NO_JOB, shown)


def pairs_table(analysis: Analysis) -> Table:
    pairs = [
        (nbytes, src, dst)
        for src, row in enumerate(analysis.matrix_nbytes)
        for dst, nbytes in enumerate(row)
        if nbytes
    ]

    def row(pair: tuple[int, int, int]) -> tuple[Cell, ...]:
        nbytes, src, dst = pair
        return (rank_cell(analysis, src), rank_cell(analysis, dst), number(nbytes, show_nbytes))

    some = sorted(pairs, reverse=True)
    caption = "Payload from rank to rank, the largest first"
    return made_table(caption, ("#from", "#to", "#payload"), some, row, NO_JOB, "The largest")


def incasts_table(analysis: Analysis) -> Table:
    columns = ("to", "#senders", "ranks", "#start", "#time", "#bytes", "#mean rate")

    def row(one: Incast) -> tuple[Cell, ...]:
        ranks = ", ".join(map(str, one.senders))
        return (
            rank_cell(analysis, one.dst_rank, one.dst),
            number(len(one.senders)),
            Cell(ranks),
            *(number(ns, time) for ns in (one.start_ns, one.duration_ns)),
            number(one.nbytes, show_nbytes),
            number(one.mean_bps, show_bps),
        )

    some = largest(analysis.incasts, lambda one: one.nbytes)
    caption = show_count(len(some), "episode")
    reason = (
        NO_JOB
        if analysis.missing
        else "None: at no time did messages of two ranks or more go to the same rank."
    )
    return made_table(caption, columns, some, row, reason, "The largest, in the order of time")
