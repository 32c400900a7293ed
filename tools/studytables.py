"""What the cells of a study come to: a table of means over seeds, a page, and a Parquet file of all cells."""

from functools import partial
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from gradwire.results.seedsummary import Seeded, SeedSummary, summaries
from gradwire.tools.pageparts import environment
from gradwire.tools.planmatrix import REFUSED_SHOWN
from gradwire.tools.seedchart import seed_chart
from gradwire.tools.table import NOTHING, Table, columns, rich_table, table_of
from gradwire.tools.table import Cell as TableCell
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_first, show_nbytes, show_s

PAGE = "study.html"


def study_table(seeded: Seeded) -> Table:
    """A row for each combination: the least, the mean and the longest predicted time over its seeds."""
    fabrics = {cell.fabric for _, cell in seeded}
    several = len(fabrics) > 1
    heads = (
        *columns(*(["fabric"] if several else []), "algorithm", "placement,\nroutes", wrap="never"),
        *columns("#size", "#planned", "#least", "#mean", "#longest", "#mean ÷\nbound"),
    )
    title = "All fabrics" if several else next(iter(fabrics))
    return table_of(heads, summaries(seeded), partial(_row, with_fabric=several), title=title)


def _row(each: SeedSummary, *, with_fabric: bool) -> tuple[TableCell | str, ...]:
    cell = each.first
    fabric = (cell.fabric,) if with_fabric else ()
    names = (*fabric, cell.algorithm, f"{cell.placement}, {cell.routes}")
    size = show_nbytes(cell.bytes) if cell.bytes else NOTHING
    planned = f"{len(each.times_s)} of {each.n_seeds}"
    if not each.times_s:
        return *names, size, planned, *(TableCell(NOTHING, ""),) * 4
    times_s = (min(each.times_s), each.mean_s, max(each.times_s))
    ratio = each.mean_s / each.bound_s if each.bound_s else None
    shown = NOTHING if ratio is None else TableCell(f"{ratio:.3f}", ratio)
    return *names, size, planned, *(TableCell(show_s(time_s), time_s) for time_s in times_s), shown


def answer_of_study(seeded: Seeded) -> str:
    """Which combination takes the least time on average, of those that were planned with every seed."""
    full = [each for each in summaries(seeded) if len(each.times_s) == each.n_seeds]
    largest = max((each.first.bytes for each in full), default=0)
    some = [each for each in full if each.first.bytes == largest]
    if not some:
        return ""
    best = min(some, key=lambda each: float(f"{each.mean_s:.6g}"))  # of those that round alike the first
    seeds = f"mean of {best.n_seeds} seeds" if best.n_seeds > 1 else "one seed"
    return f"Best: {best.first.name}: {show_s(best.mean_s)}, {seeds}."


def refused(seeded: Seeded) -> dict[str, list[str]]:
    """The cells that are refused for each reason."""
    names: dict[str, list[str]] = {}
    for seed, cell in seeded:
        if cell.refused is not None:
            names.setdefault(cell.refused, []).append(f"{cell.name}, seed {seed}")
    return names


def print_study(to: Console, seeded: Seeded) -> None:
    """The table, why cells are refused, and the answer."""
    table = study_table(seeded)
    to.print(Text(table.title, style="bold"))
    to.print(rich_table(table, dense=True))
    for reason, names in refused(seeded).items():
        to.print(Text(f"refused: {reason}: {show_first(names, REFUSED_SHOWN)}", style="dim"))
    if sentence := answer_of_study(seeded):
        to.print(sentence)


def write_study(folder: Path, title: str, seeded: Seeded) -> list[Path]:
    """The page, and `rows.parquet` with a row for each cell and seed.  Raise OSError."""
    from gradwire.results.plantables import plan_tables  # pandas takes a while to import
    from gradwire.traces.frames import write_parquet

    page = environment().get_template("study.html").render(
        title=title,
        answer=answer_of_study(seeded),
        table=study_table(seeded),
        chart=Markup(seed_chart(summaries(seeded))),
        refused=refused(seeded),
    )  # fmt: skip
    write_whole(folder / PAGE, page)
    rows = plan_tables([(cell, None) for _, cell in seeded])["rows"]
    rows.insert(1, "seed", [seed for seed, _ in seeded])
    return [folder / PAGE, *write_parquet({"rows": rows}, folder)]
