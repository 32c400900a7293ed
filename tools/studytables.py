"""What the cells of a study come to: a table of means over seeds, a page, and a Parquet file of all cells."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from gradwire.results.studyresults import CellResult, SeedSummary, summaries
from gradwire.tools.pageparts import environment
from gradwire.tools.planmatrix import REFUSED_SHOWN
from gradwire.tools.seedchart import seed_chart
from gradwire.tools.table import NOTHING, Table, columns, rich_table, table_of
from gradwire.tools.table import Cell as TableCell
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_first, show_nbytes, show_s

PAGE = "study.html"


def study_table(results: Sequence[CellResult]) -> Table:
    """A row for each combination: the least, the mean and the longest predicted time over its seeds."""
    fabrics = {each.cell.fabric for each in results}
    several = len(fabrics) > 1
    jobs = any(each.job for each in results)
    heads = (
        *columns(*(["job"] if jobs else []), *(["fabric"] if several else []), wrap="never"),
        *columns("algorithm", "placement,\nroutes", wrap="never"),
        *columns("#size", "#planned", "#least", "#mean", "#longest", "#mean ÷\nbound"),
    )
    title = "All fabrics" if several else next(iter(fabrics))
    row = partial(_row, with_job=jobs, with_fabric=several)
    return table_of(heads, summaries(results), row, title=title)


def _row(each: SeedSummary, *, with_job: bool, with_fabric: bool) -> tuple[TableCell | str, ...]:
    cell = each.first.cell
    job = (each.first.job,) if with_job else ()
    fabric = (cell.fabric,) if with_fabric else ()
    names = (*job, *fabric, cell.algorithm, f"{cell.placement}, {cell.routes}")
    size = show_nbytes(cell.bytes) if cell.bytes else NOTHING
    planned = f"{len(each.times_s)} of {each.n_seeds}"
    if not each.times_s:
        return *names, size, planned, *(TableCell(NOTHING, ""),) * 4
    times_s = (min(each.times_s), each.mean_s, max(each.times_s))
    ratio = each.mean_s / each.bound_s if each.bound_s else None
    shown = NOTHING if ratio is None else TableCell(f"{ratio:.3f}", ratio)
    return *names, size, planned, *(TableCell(show_s(time_s), time_s) for time_s in times_s), shown


def answers_of_study(results: Sequence[CellResult]) -> list[str]:
    """Which combination takes the least time on average, of those that were planned with every seed: a
    sentence for each job.
    """
    full = [each for each in summaries(results) if len(each.times_s) == each.n_seeds]
    jobs = dict.fromkeys(each.first.job for each in full)
    return [_answer([each for each in full if each.first.job == job]) for job in jobs]


def _answer(some: Sequence[SeedSummary]) -> str:
    largest = max(each.first.cell.bytes for each in some)
    some = [each for each in some if each.first.cell.bytes == largest]
    best = min(some, key=lambda each: float(f"{each.mean_s:.6g}"))  # of those that round alike the first
    seeds = f"mean of {best.n_seeds} seeds" if best.n_seeds > 1 else "one seed"
    job = f" of {best.first.job}" if best.first.job else ""
    return f"Best{job}: {best.first.cell.name}: {show_s(best.mean_s)}, {seeds}."


def refused(results: Sequence[CellResult]) -> dict[str, list[str]]:
    """The cells that are refused for each reason."""
    names: dict[str, list[str]] = {}
    for each in results:
        if each.cell.refused is not None:
            names.setdefault(each.cell.refused, []).append(f"{each.name}, seed {each.seed}")
    return names


def print_study(to: Console, results: Sequence[CellResult]) -> None:
    """The table, why cells are refused, and the answer."""
    table = study_table(results)
    to.print(Text(table.title, style="bold"))
    to.print(rich_table(table, dense=True))
    for reason, names in refused(results).items():
        to.print(Text(f"refused: {reason}: {show_first(names, REFUSED_SHOWN)}", style="dim"))
    for sentence in answers_of_study(results):
        to.print(sentence)


def write_study(folder: Path, title: str, results: Sequence[CellResult]) -> list[Path]:
    """The page, and `rows.parquet` with a row for each cell and seed.  Raise OSError."""
    from gradwire.results.plantables import plan_tables  # pandas takes a while to import
    from gradwire.traces.frames import write_parquet

    page = environment().get_template("study.html").render(
        title=title,
        answers=answers_of_study(results),
        table=study_table(results),
        chart=Markup(seed_chart(summaries(results))),
        refused=refused(results),
    )  # fmt: skip
    write_whole(folder / PAGE, page)
    rows = plan_tables([(each.cell, None) for each in results])["rows"]
    rows.insert(1, "job", [each.job for each in results])
    rows.insert(2, "seed", [each.seed for each in results])
    return [folder / PAGE, *write_parquet({"rows": rows}, folder)]
