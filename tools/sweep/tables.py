"""The results of a study: a table of means over seeds, a page, and a Parquet file of all cells."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from gradwire.results.answer import without_valid_rows
from gradwire.results.row import REFUSED, Row
from gradwire.results.studyresults import CellResult, SeedSummary, summaries
from gradwire.tools.dygraphs import load_library
from gradwire.tools.labs.result import STYLES
from gradwire.tools.pageparts import as_script, environment
from gradwire.tools.plans.matrix import REFUSED_SHOWN
from gradwire.tools.report.charts import N_HUES
from gradwire.tools.sweep.charts import charts_json, seed_charts, study_charts
from gradwire.tools.sweep.study import Study
from gradwire.tools.table import NOTHING, Table, columns, rich_table, table_of
from gradwire.tools.table import Cell as TableCell
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_first, show_nbytes, show_s

PAGE = "study.html"
REASONS_SHOWN = 8  # why rows are not valid
NOT_VALID = "not all of these times are the fabric's: the rows of some seeds are not valid"


def study_table(results: Sequence[CellResult]) -> Table:
    """A row for each combination: the least, the mean and the longest time over its seeds, and of how many
    seeds the times count.
    """
    fabrics = {each.cell.fabric for each in results}
    several = len(fabrics) > 1
    jobs = any(each.job for each in results)
    heads = (
        *columns(*(["job"] if jobs else []), *(["fabric"] if several else []), wrap="never"),
        *columns("algorithm", "placement,\nroutes", wrap="never"),
        *columns("#size", "#valid" if is_sent(results) else "#planned"),
        *columns("#least", "#mean", "#longest", "#mean ÷\nbound"),
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
    planned = TableCell(
        f"{each.n_counted} of {each.n_seeds}",
        each.n_counted,
        hint="" if each.is_valid else NOT_VALID,
        style="" if each.is_valid else STYLES["not valid"],
    )
    if not each.times_s:
        return *names, size, planned, *(TableCell(NOTHING, ""),) * 4
    times_s = (min(each.times_s), each.mean_s, max(each.times_s))
    ratio = each.mean_s / each.bound_s if each.bound_s else None
    shown = NOTHING if ratio is None else TableCell(f"{ratio:.3f}", ratio)
    return *names, size, planned, *(TableCell(show_s(time_s), time_s) for time_s in times_s), shown


def answers_of_study(results: Sequence[CellResult]) -> list[str]:
    """Which combination takes the least time on average, of those that were planned with every seed, or whose
    rows are all valid: a sentence for each job.
    """
    full = [each for each in summaries(results) if each.n_counted == each.n_seeds]
    if not full and is_sent(results):
        rows = [each.row for each in results if each.row]
        return [sentence] if (sentence := without_valid_rows(rows)) else []
    jobs = dict.fromkeys(each.first.job for each in full)
    return [_answer([each for each in full if each.first.job == job]) for job in jobs]


def _answer(some: Sequence[SeedSummary]) -> str:
    largest = max(each.first.cell.bytes for each in some)
    some = [each for each in some if each.first.cell.bytes == largest]
    best = min(some, key=lambda each: float(f"{each.mean_s:.6g}"))  # of those that round alike the first
    job = f" of {best.first.job}" if best.first.job else ""
    what = f"Best{job}: {best.first.cell.name}" if len(some) > 1 else best.first.name
    return f"{what}: {show_s(best.mean_s)}, {show_span(best)}."


def show_span(each: SeedSummary) -> str:
    """`mean of 10 seeds, which take 2 s to 4 s`."""
    if each.n_seeds == 1:
        return "one seed"
    least, most = (show_s(time_s) for time_s in (min(each.times_s), max(each.times_s)))
    return f"mean of {each.n_seeds} seeds, which take {f'{least} to {most}' if least != most else 'the same'}"


def is_sent(results: Sequence[CellResult]) -> bool:
    """Whether packets were sent, or should have been."""
    return any(each.row or each.failed for each in results)


def refused(results: Sequence[CellResult]) -> dict[str, list[str]]:
    """The cells that are refused for each reason."""
    names: dict[str, list[str]] = {}
    for each in results:
        if each.refused is not None:
            names.setdefault(each.refused, []).append(f"{each.name}, seed {each.seed}")
    return names


def not_valid(results: Sequence[CellResult]) -> dict[str, list[str]]:
    """The cells whose rows are not valid, by the first reason of each."""
    names: dict[str, list[str]] = {}
    for each in results:
        if each.row and not each.row.valid:
            reason = each.row.reasons[0] if each.row.reasons else each.row.verdict
            names.setdefault(reason, []).append(f"{each.name}, seed {each.seed}")
    return names


def print_study(to: Console, results: Sequence[CellResult]) -> None:
    """The table, why cells are refused, and the answer."""
    table = study_table(results)
    to.print(Text(table.title, style="bold"))
    to.print(rich_table(table, dense=True))
    for reason, names in refused(results).items():
        to.print(Text(f"refused: {reason}: {show_first(names, REFUSED_SHOWN)}", style="dim"))
    doubted = not_valid(results)
    for reason, names in islice(doubted.items(), REASONS_SHOWN):
        to.print(Text(f"not valid: {reason}: {show_first(names, REFUSED_SHOWN)}", STYLES["not valid"]))
    if len(doubted) > REASONS_SHOWN:
        to.print(Text(f"and {len(doubted) - REASONS_SHOWN} more reasons; the page has them all", "dim"))
    for sentence in answers_of_study(results):
        to.print(sentence)


def write_study(folder: Path, study: Study, results: Sequence[CellResult]) -> list[Path]:
    """The page, and `rows.parquet` with a row for each cell and seed.  Raise OSError, also if
    curves are to be drawn and their library is not installed.
    """
    from gradwire.results.plantables import plan_tables  # pandas takes a while to import
    from gradwire.results.runtables import NESTED
    from gradwire.traces.dataframes import frame, write_parquet

    charts = study_charts(study, results)
    drawn = charts_json(charts)
    page = environment().get_template("study.html").render(
        title=study.title,
        answers=answers_of_study(results),
        table=study_table(results),
        panels=[(what, Markup(svg), n) for what, svg, n in seed_charts(summaries(results))],
        refused=refused(results),
        not_valid=not_valid(results),
        sent=is_sent(results),
        charts=charts,
        charts_json=as_script(drawn),
        library=load_library() if drawn else None,
        n_hues=N_HUES,
    )  # fmt: skip
    write_whole(folder / PAGE, page)
    if is_sent(results):
        rows = frame(Row, [_row_of(each) for each in results], NESTED)
        rows.insert(0, "cell", range(1, len(rows) + 1))
        del rows["seed"]
    else:
        rows = plan_tables([(each.cell, None) for each in results])["rows"]
    rows.insert(1, "job", [each.job for each in results])
    rows.insert(2, "seed", [each.seed for each in results])
    return [folder / PAGE, *write_parquet({"rows": rows}, folder)]


def _row_of(each: CellResult) -> Row:
    """Its row, or one that says why there is none."""
    cell = each.cell
    return each.row or Row(
        fabric=cell.fabric,
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        ranks=cell.ranks,
        bytes=cell.bytes,
        verdict=REFUSED if each.failed is None else "failed",
        seed=each.seed,
        reasons=(each.refused or "",),
    )
