"""The report page: rows of results and their run folders as one HTML file that needs no other file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gradwire.emu import disturbance, records
from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.transport import payload_efficiency
from gradwire.results import verdict
from gradwire.results.answer import answer_of_rows
from gradwire.results.findings import findings
from gradwire.results.row import Row
from gradwire.results.runview import LinkUse, RunView, load_run
from gradwire.tools.aggregationtables import aggregation_grids
from gradwire.tools.bars import bars_svg, iterations_svg
from gradwire.tools.draw import fabric_svg
from gradwire.tools.linkrates import show_rates
from gradwire.tools.table import Table
from gradwire.tools.tables import iteration_words, settling_words
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_bps, show_count, show_nbytes, show_s

TEMPLATES = Path(__file__).with_name("templates")
MOST_LINKS = 10  # of a cell's table; the drawing shows them all
BROAD_HOSTS = 10  # the drawing of more hosts takes the whole width
OF_ONE_CELL = ("plan_sha256", "schema")  # of the manifest: of no use side by side


@dataclass(frozen=True)
class ReportCell:
    """A row of the report with what its run left; a refused one has no `view`.  `run` is the folder of the
    results that it is from, where there are several.
    """

    number: int
    row: Row
    view: RunView | None
    run: str = ""

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def links(self) -> list[LinkUse]:
        """The busiest links, and the worst link if it is not one of them (it may be idle in other phases)."""
        uses = self.view.links if self.view else ()
        bounding = [use for use in uses[MOST_LINKS:] if self.bounds(use)]
        return [*uses[: MOST_LINKS - len(bounding)], *bounding]

    def bounds(self, use: LinkUse) -> bool:
        return self.view is not None and use.egress == self.view.load.worst.egress

    @property
    def iterations(self) -> Markup:
        return Markup(iterations_svg(self.row, self.view.repeat) if self.view else "")

    @property
    def iteration_words(self) -> str:
        return iteration_words(self.row)

    @property
    def folder(self) -> str:
        return Path(self.row.folder or "").name


@dataclass(frozen=True, slots=True)
class FabricCells:
    """The cells of one fabric, in the table."""

    spec: str
    cells: tuple[ReportCell, ...]

    @property
    def grids(self) -> list[Table]:
        return list(aggregation_grids([cell.row for cell in self.cells]))

    @property
    def rates(self) -> str:
        row = self.cells[0].row
        return show_rates(row.host_rates_bps, row.inner_rates_bps)


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
    Raise OSError or ValueError, or BadPlan, for a folder that holds no whole run.
    """
    views = [load_run(Path(row.folder)) if row.folder else None for row in rows]
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
    return environment().get_template("report.html").render(
        title=title,
        introduction=introduction,
        findings=[] if runs else [*findings(rows, busy), *filter(None, [answer_of_rows(rows)])],
        beside=beside,
        panels=list(_panels(cells)),
        fabrics=list(_fabrics(cells)),
        grids=[(each.spec, grid) for each in _fabrics(cells) for grid in each.grids],
        n_sizes=len({row.bytes for row in rows if row.time_s}),
        has_fidelity=any(row.fidelity is not None for row in rows),
        measured=[cell for cell in cells if cell.view],
        shown=_shown(cells),
        calibrations=calibrations(cells),
        facts=facts({cell.number: cell.view.manifest for cell in cells if cell.view}),
        efficiencies=efficiencies(cells),
        limits=disturbance,
        max_left_out=records.MAX_LEFT_OUT,
        goodput_band=verdict.GOODPUT_BAND,
        broad_hosts=BROAD_HOSTS,
    )  # fmt: skip


def environment() -> Environment:
    """For all pages: templates of this folder, and filters for sizes, times and shares."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "bytes": show_nbytes,
        "seconds": show_s,
        "percent": lambda share: f"{share:.0%}",
        "drawing": _drawing,
        "settling": settling_words,
    }
    environment.filters |= filters
    return environment


def _panels(cells: Sequence[ReportCell]) -> Iterator[tuple[str, Markup]]:
    """A chart for each size: times of different sizes share no axis."""
    measured = [cell for cell in cells if cell.row.time_s]
    for nbytes in dict.fromkeys(cell.row.bytes for cell in measured):
        some = [(cell.number, cell.row) for cell in measured if cell.row.bytes == nbytes]
        yield show_nbytes(nbytes), Markup(bars_svg(some))


def _fabrics(cells: Sequence[ReportCell]) -> Iterator[FabricCells]:
    """Fabrics in the order in which they first come."""
    for spec in dict.fromkeys(cell.row.fabric for cell in cells):
        yield FabricCells(spec, tuple(cell for cell in cells if cell.row.fabric == spec))


def _shown(cells: Sequence[ReportCell]) -> set[int]:
    """The cells whose details are open at first: the fastest and the slowest."""
    valid = [cell for cell in cells if cell.row.valid and cell.row.ratio]
    by_ratio = sorted(valid, key=lambda cell: cell.row.ratio or 0.0)
    return {cell.number for cell in (*by_ratio[:1], *by_ratio[-1:])}


def _drawing(view: RunView) -> Markup:
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
            yield f"{prefix}{key}".replace("_", " "), str(inner)
