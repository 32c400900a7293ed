"""The report page: rows of results and their run folders as one HTML file that needs no other file."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gradwire.emu import disturbance, records
from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.fabrics.figures import figures
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.transport import payload_efficiency
from gradwire.results import verdict
from gradwire.results.answer import answer_of_rows
from gradwire.results.findings import findings
from gradwire.results.linktimes import MOST_WINDOWS
from gradwire.results.row import Row
from gradwire.results.runview import LinkUse, RunView, load_run
from gradwire.tools.drawing.bars import bars_svg
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.tools.dygraphs import load_library
from gradwire.tools.fabrictable import fabric_table
from gradwire.tools.pageparts import as_script, environment
from gradwire.tools.report.aggregationtables import aggregation_grids
from gradwire.tools.report.cells import ReportCell, fabrics_of, grids, short_specs, sizes_of
from gradwire.tools.report.charts import chart_data
from gradwire.tools.report.rownotes import settling_words
from gradwire.tools.table import Table
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_bps, show_count, show_first, show_nbytes

BROAD_HOSTS = 10  # the drawing of more hosts takes the whole width
ALL_WINDOWS, LEAST_WINDOWS = 6_000, 40  # of links over time: of all cells together, and of each
# Behind the name: the congestion control of the ranks' connections is the transport's.
REMARKS = {"net/ipv4/tcp_congestion_control": " (of loopback alone)"}
OF_ONE_CELL = ("plan_sha256", "schema")  # of the manifest: of no use side by side


def write_report(
    path: Path,
    title: str,
    introduction: Sequence[str],
    rows: Sequence[Row],
    *,
    runs: Sequence[str] = (),
    beside: Table | None = None,
) -> None:
    """Write the page whole or not at all; every measured row names the folder of its run.

    Of several sets of results `runs` names that of each row, and `beside` has them side by side.
    Raise OSError or ValueError, or BadPlan, for a folder that holds no whole run, and FileNotFoundError if
    the charts' library is not installed.
    """
    folders = [Path(row.folder) if row.folder else None for row in rows]
    windows = min(MOST_WINDOWS, max(LEAST_WINDOWS, ALL_WINDOWS // max(1, sum(map(bool, folders)))))
    views = [load_run(folder, windows) if folder else None for folder in folders]
    write_whole(path, page(title, introduction, rows, views, runs=runs, beside=beside))


def page(
    title: str,
    introduction: Sequence[str],
    rows: Sequence[Row],
    views: Sequence[RunView | None],
    *,
    runs: Sequence[str] = (),
    beside: Table | None = None,
) -> str:
    """The page's text; `views` has one for each row."""
    names = runs or [""] * len(rows)
    cells = [ReportCell(i, *each) for i, each in enumerate(zip(rows, views, names, strict=True), start=1)]
    busy = {
        (position, use.name): use.busy
        for position, view in enumerate(views)
        for use in (view.links if view else ())
    }
    charts, short = chart_data(cells), short_specs(fabrics_of(cells))
    environment_ = environment()
    environment_.filters |= {"drawing": drawing, "settling": settling_words}
    return environment_.get_template("report.html").render(
        title=title,
        introduction=introduction,
        findings=[] if runs else [*findings(rows, busy), *filter(None, [answer_of_rows(rows)])],
        beside=beside,
        cells=cells,
        grids=grids(cells),
        fabrics=_fabrics(cells),
        panels=list(_panels(cells, short)),
        aggregations=list(_aggregations(cells)),
        about=_about(cells),
        short=short,
        n_sizes=len(sizes_of(cells)),
        has_closed=any(row.closed_s is not None for row in rows),
        has_fidelity=any(row.fidelity is not None for row in rows),
        measured=[cell for cell in cells if cell.view],
        shown=_shown(cells),
        charts=charts,
        charts_json=as_script(charts),
        library=load_library() if charts else None,
        calibrations=calibrations(cells),
        facts=facts({cell.number: cell.view.manifest for cell in cells if cell.view}),
        efficiencies=efficiencies(cells),
        limits=disturbance,
        max_left_out=records.MAX_LEFT_OUT,
        goodput_band=verdict.GOODPUT_BAND,
        broad_hosts=BROAD_HOSTS,
    )  # fmt: skip


def _fabrics(cells: Sequence[ReportCell]) -> Table | None:
    """Those that were measured beside each other; a single one is described by its drawing."""
    measured: dict[str, Fabric] = {cell.row.fabric: cell.view.plan.fabric for cell in cells if cell.view}
    if len(measured) < 2:
        return None
    return fabric_table([(fabric, figures(fabric)) for fabric in measured.values()])


def _about(cells: Sequence[ReportCell]) -> str:
    """Ranks and size, if all cells have the same, and the seed."""
    parts = [
        show_first(sorted({show_count(cell.row.ranks, "rank") for cell in cells}), 3),
        _size(sizes_of(cells)),
        f"seed {show_first(sorted({cell.row.seed for cell in cells}), 3)}",
    ]
    return ", ".join(filter(None, parts)) + "."


def _size(sizes_nbytes: Sequence[int]) -> str:
    """What each rank has; nothing if nobody knows."""
    if len(sizes_nbytes) < 2:
        return "".join(f"{show_nbytes(nbytes)} each" for nbytes in sizes_nbytes)
    low, high = show_nbytes(min(sizes_nbytes)), show_nbytes(max(sizes_nbytes))
    return f"{len(sizes_nbytes)} sizes from {low} to {high} each"


def _aggregations(cells: Sequence[ReportCell]) -> Iterator[tuple[str, Table]]:
    """What switches added up, by fabric."""
    for spec in fabrics_of(cells):
        for grid in aggregation_grids([cell.row for cell in cells if cell.row.fabric == spec]):
            yield spec, grid


def _panels(cells: Sequence[ReportCell], short: Mapping[str, str]) -> Iterator[tuple[str, Markup]]:
    """A chart for each size: times of different sizes share no axis."""
    measured = [cell for cell in cells if cell.row.time_s]
    for nbytes in dict.fromkeys(cell.row.bytes for cell in measured):
        some = [cell for cell in measured if cell.row.bytes == nbytes]
        runs = {cell.number: cell.run for cell in some}
        bars = bars_svg([(cell.number, cell.row) for cell in some], short, runs)
        yield show_nbytes(nbytes), Markup(bars)


def _shown(cells: Sequence[ReportCell]) -> set[int]:
    """The cells that are open at first: nearest to its bound and farthest, of the valid ones if any."""
    measured = [cell for cell in cells if cell.view and cell.row.ratio]
    by_ratio = sorted(measured, key=lambda cell: cell.row.ratio or 0.0)
    by_ratio = [cell for cell in by_ratio if cell.row.valid] or by_ratio
    return {cell.number for cell in (*by_ratio[:1], *by_ratio[-1:])}


def drawing(view: RunView) -> Markup:
    """The fabric, hosts with their ranks, links in the shade of the share of the time they were busy."""
    plan = view.plan
    idle = {egress: f"{link_name(plan.fabric, egress)}: idle" for egress in plan.fabric.rates}
    svg = fabric_svg(
        plan.fabric,
        {use.egress: use.busy for use in view.links},
        {host: f"rank {rank}" for rank, host in enumerate(plan.placement)},
        "share of the time busy",
        idle | {use.egress: link_title(use) for use in view.links},
        worst=view.load.worst.egress,
        failed=tuple(plan.fabric.cables[failure.port] for failure in plan.failures),
    )
    return Markup(svg)


def link_title(use: LinkUse) -> str:
    """What a link's tooltip says."""
    flows = f"{show_count(use.n_flows, 'flow')}, {use.together} at once"
    return (
        f"{use.name}, {show_bps(use.rate_bps)}: busy {use.busy:.0%} of the time, {show_nbytes(use.nbytes)}, "
        + (flows if use.n_flows else "acknowledgements only")
    )


def efficiencies(cells: Sequence[ReportCell]) -> dict[int, float]:
    """The payload's share of full frames, by the MTUs of the fabrics that were measured."""
    mtus = {cell.view.plan.fabric.mtu_nbytes for cell in cells if cell.view}
    return {mtu_nbytes: payload_efficiency(mtu_nbytes) for mtu_nbytes in sorted(mtus)}


def calibrations(cells: Sequence[ReportCell]) -> dict[str, tuple[Calibration, float]]:
    """Those that were made, by fabric, and the payload's share of full frames there."""
    return {
        cell.row.fabric: (cell.view.calibration, payload_efficiency(cell.view.plan.fabric.mtu_nbytes))
        for cell in cells
        if cell.view and cell.view.calibration
    }


def facts(manifests: Mapping[int, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the manifests say: (name, value), with the numbers of the cells where they differ."""
    cells_by_value: dict[str, dict[str, list[int]]] = {}
    for number, manifest in manifests.items():
        for key, value in _flat("", manifest):
            cells_by_value.setdefault(key, {}).setdefault(value, []).append(number)
    lines = []
    for key, values in cells_by_value.items():
        for value, numbers in values.items():
            which = f" (cell{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))})"
            where = "" if len(numbers) == len(manifests) else which
            lines.append((key, value + where))
    return lines


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(f"{prefix}{key}: ", inner)
        elif prefix or key not in OF_ONE_CELL:
            yield f"{prefix}{key}".replace("_", " ") + REMARKS.get(key, ""), str(inner)
