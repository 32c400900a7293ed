"""What the tables of the analysis page say of the network and of the captures."""

from collections.abc import Callable
from functools import partial

from gradwire.tools.inspection.cells import (
    endpoint,
    made_table,
    number,
    rank_cell,
    time,
)
from gradwire.tools.table import NOTHING, Cell, Table, or_nothing
from gradwire.traces.analysis.aggregations import AggregationHost, AggregationJob
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bursts import Burstiness
from gradwire.traces.analysis.certainty import Statement, statements
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.percentiles import Percentiles
from gradwire.traces.analysis.traffic import Traffic
from gradwire.traces.trace import CaptureFile
from gradwire.traces.units import show_bps, show_count, show_nbytes


def flows_table(analysis: Analysis) -> Table:
    columns = (
        "from", "to", "#ranks", "framing", "#packets", "#payload", "#start", "#FCT", "#goodput",
        "#resent", "#reordered", "#RTT p50", "#p99", "#window p50", "#least", "#delay p50",
    )  # fmt: skip

    def row(flow: FlowFigures) -> tuple[Cell, ...]:
        ranks = f"{or_nothing(flow.src_rank, str)} → {or_nothing(flow.dst_rank, str)}"
        return (
            Cell(endpoint(flow.src, flow.sport)),
            Cell(endpoint(flow.dst, flow.dport)),
            Cell(ranks, -1 if flow.src_rank is None else flow.src_rank),
            Cell(flow.framing),
            number(flow.packets),
            number(
                flow.payload_nbytes,
                show_nbytes,
                f"{flow.payload_nbytes:,} bytes, {flow.wire_nbytes:,} on the wire",
            ),
            number(flow.start_ns, time),
            number(flow.duration_ns, time),
            number(flow.goodput_bps, show_bps),
            number(flow.retransmitted),
            number(flow.out_of_order),
            *(_part(flow.rtt_ns, name, time) for name in ("p50", "p99")),
            *(_part(flow.window_nbytes, name, show_nbytes) for name in ("p50", "min")),
            _part(flow.delay_ns, "p50", time),
        )

    some = sorted(analysis.flows, key=lambda flow: (not flow.training, -flow.payload_nbytes))
    n_training = sum(flow.training for flow in some)
    others = f"{len(some) - n_training:,} other"
    flows = show_count(n_training, "flow")
    caption = f"{flows} of the training, {others}: one direction of a connection each"
    return made_table(caption, columns, some, row, "No connection carried any payload.", "The largest")


def _part(percentiles: Percentiles | None, name: str, show: Callable[[float], str]) -> Cell:
    if percentiles is None:
        return Cell(NOTHING, "")
    values = (f"{part} {show(getattr(percentiles, part))}" for part in ("min", "p50", "p90", "p99", "max"))
    return number(getattr(percentiles, name), show, f"{', '.join(values)} of {percentiles.n:,}")


def aggregations_table(analysis: Analysis) -> Table:
    """A row for each aggregation job; the count of each kind of packets has their bytes as a hint."""
    kinds = ("contribution", "partial", "probe", "result", "status", "epoch")
    columns = (
        "#job", "#UDP port", "#hosts", "#chunks", "#elements", *(f"#{kind} packets" for kind in kinds),
        "#again", "#epochs", "#start", "#duration",
    )  # fmt: skip

    def row(job: AggregationJob) -> tuple[Cell, ...]:
        return (
            Cell(str(job.job), job.job),
            Cell(str(job.udp_port), job.udp_port),
            *(number(value) for value in (len(job.hosts), job.chunks, job.elements)),
            *(number(one.packets, hint=f"{one.payload_nbytes:,} bytes above UDP") for one in job.kinds),
            number(job.again),
            number(job.epochs, hint=f"the last is {job.last_epoch}"),
            number(job.first_ns, time),
            number(job.last_ns - job.first_ns, time),
        )

    caption = "Sums that switches made: one tree of switches each, its packets as often as they were seen"
    reason = "No packets of in-network aggregation."
    return made_table(caption, columns, analysis.aggregations, row, reason)


def aggregation_hosts_table(analysis: Analysis) -> Table:
    ranks = {address: rank for rank, address in enumerate(analysis.addresses)}
    columns = ("#job", "#rank", "host", "#contributions", "#again", "#elements", "#start", "#end", "#goodput")

    def row(record: tuple[int, AggregationHost]) -> tuple[Cell, ...]:
        job, host = record
        return (
            Cell(str(job), job),
            rank_cell(analysis, ranks.get(host.address)),
            Cell(host.address),
            number(host.contributions),
            number(host.again),
            number(host.nbytes, show_nbytes),
            number(host.first_ns, time),
            number(host.last_ns, time),
            number(host.goodput_bps, show_bps),
        )

    some = [(job.job, host) for job in analysis.aggregations for host in job.hosts]
    caption = "What each host contributed, each chunk's elements once"
    return made_table(caption, columns, some, row, "No host contributed.")


def bursts_table(analysis: Analysis) -> Table:
    columns = ("#rank", "host", "direction", "#window", "#mean", "#peak", "#peak to mean", "#at")
    ranks = {address: rank for rank, address in enumerate(analysis.addresses)}

    def row(one: Burstiness) -> tuple[Cell, ...]:
        return (
            rank_cell(analysis, ranks.get(one.host)),
            Cell(one.host),
            Cell(one.direction),
            number(one.window_ns, time),
            *(number(bps, show_bps) for bps in (one.mean_bps, one.peak_bps)),
            number(one.peak_to_mean, "{:.1f}".format),
            number(one.peak_at_ns, time),
        )

    some = sorted(analysis.burstiness, key=lambda one: (one.window_ns, -one.peak_to_mean))
    reason = "No host's packets were seen, so its rates are unknown."
    return made_table("The busiest window of each length, over the mean", columns, some, row, reason)


def files_table(analysis: Analysis) -> Table:
    columns = (
        "file",
        "captured at",
        "#packets",
        "#bytes on the wire",
        "#duration",
        "#snaplen",
        "#cut by it",
        "#dropped",
        "end",
    )

    def row(file: CaptureFile) -> tuple[Cell, ...]:
        where = file.host or "several hosts"
        if file.host in analysis.addresses:
            where = f"rank {analysis.addresses.index(file.host)} ({file.host})"
        return (
            Cell(file.path.name, hint=str(file.path)),
            Cell(where),
            number(file.n_packets),
            number(file.nbytes, show_nbytes),
            number(file.last_ns - file.first_ns, time),
            number(file.snaplen) if file.snaplen else Cell("none", 0),
            number(file.snapped),
            Cell("unknown", "") if file.dropped is None else number(file.dropped),
            Cell("cut off" if file.truncated else "whole"),
        )

    return made_table("Capture files", columns, analysis.files, row, "No files.")


def traffic_table(analysis: Analysis) -> Table:
    columns = ("taken for", "training", "#connections", "#packets", "#payload", "why")

    def row(one: Traffic) -> tuple[Cell, ...]:
        return (
            Cell(one.framing),
            Cell("yes" if one.training else "no"),
            number(one.connections or None),
            number(one.packets),
            number(one.payload_nbytes, show_nbytes),
            Cell(one.evidence),
        )

    return made_table(
        "All packets with payload, by what they were taken for",
        columns,
        analysis.traffic,
        row,
        "No payload.",
    )


def statements_table(analysis: Analysis) -> Table:
    percent = partial("{:.0%}".format)

    def row(one: Statement) -> tuple[Cell, ...]:
        return (Cell(one.what), number(one.confidence, percent), Cell(one.evidence))

    return made_table("", ("statement", "#sure", "why"), statements(analysis), row, "Nothing was said.")
