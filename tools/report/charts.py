"""What the charts of the report page draw, as one JSON value: bus bandwidth over size, links over time."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.plan import Plan
from gradwire.results.linktimes import LinkTimes
from gradwire.tools.report.cells import ReportCell, fabrics_of, sizes_of
from gradwire.traces.units import show_bps, show_nbytes

MOST_SERIES = 24  # of bus bandwidth: more lines nobody can tell apart
LEAST_QUEUE_NBYTES = 15_140  # of the scale: ten frames, less is no queue to speak of
N_HUES = 8  # the next series of a hue is dashed
HUES = tuple(f"hue{n}" for n in range(N_HUES))
COLOURS = ("ink", "dim", "line", "page", "ideal", "over", "bad", *HUES)  # of report.css


def chart_data(cells: Sequence[ReportCell]) -> dict[str, Any] | None:
    """Sizes in bytes, times in µs after the common start; None if there is nothing to draw."""
    curves = _curves(cells) if len(sizes_of(cells)) > 1 else None
    links = {cell.number: over_time for cell in cells if (over_time := _links(cell))}
    return {"colours": COLOURS, "curves": curves, "links": links} if curves or links else None


def _curves(cells: Sequence[ReportCell]) -> dict[str, Any] | None:
    """Bytes per second, the median with what the fastest and the slowest repeat reached."""
    series: defaultdict[str, list[ReportCell]] = defaultdict(list)
    some = [cell for cell in cells if cell.row.time_s and cell.row.busbw_Bps]
    has_fabrics, has_choices = len(fabrics_of(some)) > 1, len({cell.choice for cell in some}) > 1
    for cell in some:
        name = f"{cell.choice} on {cell.row.fabric}" if has_choices else cell.row.fabric
        series[name if has_fabrics else cell.choice].append(cell)
    drawn = list(series.items())[:MOST_SERIES]
    if not drawn:
        return None
    rates_bps = sorted(
        {cell.row.host_rates_bps[0] for _, some in drawn for cell in some if cell.row.host_rates_bps}
    )
    return {
        "sizes": sizes_of(cells),
        "series": [{"name": name, "points": [_point(cell) for cell in some]} for name, some in drawn],
        "left_out": len(series) - len(drawn),
        "rates": [[rate_bps / 8, f"hosts' links, {show_bps(rate_bps)}"] for rate_bps in rates_bps],
    }


def _point(cell: ReportCell) -> tuple[int, float, float, float, str, bool]:
    """Size, bus bandwidth of the slowest, the median and the fastest repeat, what a tooltip says, and whether
    it is not valid.
    """
    row, time_s, bus = cell.row, cell.row.time_s, cell.row.busbw_Bps
    assert time_s
    assert bus
    words = f"{show_nbytes(bus)}/s" + (f", {row.ratio:.2f} × bound" if row.ratio else "")
    words += "" if row.valid else f", {row.verdict}"
    slowest, fastest = (bus * time_s.median / each for each in (time_s.max, time_s.min))
    return row.bytes, slowest, bus, fastest, words, not row.valid


def _links(cell: ReportCell) -> dict[str, Any] | None:
    view = cell.view
    if view is None or view.times is None:
        return None
    drawn, worst = view.times.links, view.load.worst.egress
    return {
        "edges": [round(edge_s * 1e6) for edge_s in view.times.edges_s],
        "links": [_link(view.plan, one, one.egress == worst) for one in drawn],
        "most": max([LEAST_QUEUE_NBYTES, *(size or 0 for one in drawn for size in one.queue_nbytes)]),
        "failures": [
            [failure.cable, failure.down_s * 1e6, None if failure.up_s is None else failure.up_s * 1e6]
            for failure in cell.row.failures
        ],
    }


def _link(plan: Plan, one: LinkTimes, is_worst: bool) -> dict[str, Any]:
    """Loads in thousandths; queue and drops null where they were not read or were always 0, and null in the
    queue for a window in which it was not read.
    """
    return {
        "name": link_name(plan.fabric, one.egress),
        "rate": show_bps(plan.fabric.rates[one.egress]),
        "worst": is_worst,
        "load": [round(1000 * load) for load in one.load],
        "queue": list(one.queue_nbytes) if any(one.queue_nbytes) else None,
        "read": any(size is not None for size in one.queue_nbytes),
        "dropped": list(one.dropped) if any(one.dropped) else None,
    }
