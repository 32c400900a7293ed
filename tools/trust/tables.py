"""The results of `trust`: a table of at most 100 columns, the lines below it, and a page.

The page is one file that needs nothing else.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gradwire.results.trustresult import (
    MUCH_WAITED,
    Live,
    Summary,
    TrustMatrix,
    TrustRow,
)
from gradwire.tools.pageparts import environment
from gradwire.tools.report.rowtables import VERDICT_STYLES
from gradwire.tools.table import NOTHING, Cell, columns, or_nothing, rich_table, table_of
from gradwire.traces.files import write_whole
from gradwire.traces.iterationtimes import FIRST_WARM, IterationTime
from gradwire.traces.units import show_s


def print_matrix(to: Console, matrix: TrustMatrix) -> None:
    to.print(Text(f"{' beside '.join(matrix.jobs)}: an iteration live and replayed", style="bold"))
    fabrics = dict.fromkeys(live.fabric for live in matrix.live)
    numbers = {fabric: number for number, fabric in enumerate(fabrics, start=1)}
    for fabric, number in numbers.items():
        to.print(f"  {number}  {fabric}", soft_wrap=True)

    def cells(row: TrustRow) -> tuple[Cell | str, ...]:
        return (
            f"{numbers[row.captured_on]} → {numbers[row.replayed_on]}{beside(row)}",
            show_spread(row.live),
            show_spread(row.replay),
            or_nothing(row.predicted_s or None, show_s),
            Cell(show_share(row.error), style="" if row.is_within else "bold red"),
            show_share(row.predicted_error),
            or_nothing(row.fidelity, "{:.2f}".format),
            Cell(row.verdict, style=VERDICT_STYLES.get(row.verdict, "")),
        )

    figures = ("#live", "#replay", "#plan", "#error", "#of plan", "#fidelity")
    heads = columns("captured on\n→ replayed on", *figures, "verdict")
    to.print(rich_table(table_of(heads, matrix.rows, cells)))
    for line in notes(matrix):
        to.print(Text(line, style="dim"))
    for line in sentences(matrix):
        to.print(line)


def beside(one: TrustRow | Live) -> str:
    """The end of its name for a job beside the first one."""
    return f", beside-{one.job}" if one.job else ""


def row_name(row: TrustRow) -> str:
    return f"{row.captured_on} → {row.replayed_on}{beside(row)}"


def live_name(live: Live) -> str:
    return f"{live.fabric}{beside(live)}"


def show_share(share: float | None) -> str:
    return or_nothing(share, "{:+.1%}".format)


def show_spread(time: IterationTime | None) -> str:
    """The median, and half of what lies between the 10th and the 90th percentile."""
    return NOTHING if time is None else f"{show_s(time.median)} ±{time.spread:.0%}"


def notes(matrix: TrustMatrix) -> Iterator[str]:
    for row in matrix.rows:
        name = row_name(row)
        for reason in row.reasons:
            yield f"{row.verdict}: {name}: {reason}"
        for warning in row.warnings:
            yield f"note: {name}: {warning}"
    yield from live_notes(matrix.live)


def live_notes(lives: Sequence[Live]) -> Iterator[str]:
    """What there is to know of the trainings themselves."""
    for live in lives:
        if len(live.trainings) > 1:
            times = ", ".join(show_s(each.time.median) for each in live.trainings)
            yield f"note: {live_name(live)}: median iterations of {len(live.trainings)} trainings: {times}"
    for live in lives:
        if live.waited is not None and live.waited > MUCH_WAITED:
            yield (
                f"note: {live_name(live)}: a rank's threads waited for a processor for {live.waited:.0%} of "
                "the training, because all ranks share this machine's processors; replays compute nothing, "
                "so they wait less and may be shorter"
            )


def sentences(matrix: TrustMatrix) -> Iterator[str]:
    """The summary in lines."""
    summary = matrix.summary
    if summary.mean_error is None or summary.worst_error is None:
        yield "mean |error|: no valid row"
    else:
        worst = max((row for row in matrix.rows if row.is_valid), key=_size)
        yield (
            f"mean |error| of the valid rows {summary.mean_error:.1%}, worst {summary.worst_error:+.1%} "
            f"({row_name(worst)})"
        )
    yield _counts(summary)
    outside = [row for row in matrix.rows if row.is_valid and not row.is_within]
    for row in outside:
        yield f"beyond its error bar of ±{row.error_bar:.1%}: {row_name(row)}: {show_share(row.error)}"
    if matrix.beside:
        yield "Of jobs beside each other only what they did while all of them trained is compared."
    yield (
        f"An iteration is the median of those from {FIRST_WARM} on, start to start; ± is half of the range "
        "from the 10th to the 90th percentile."
    )


def _size(row: TrustRow) -> float:
    return abs(row.error or 0.0)


def _counts(summary: Summary) -> str:
    share = f"{summary.valid / summary.rows:.0%}" if summary.rows else NOTHING
    line = f"valid: {summary.valid} of {summary.rows} rows ({share}); refused: {summary.refused}"
    if summary.excused:
        line += f"; not counted: {summary.excused} refused where the live job itself is unsteady"
    return line


def write_page(path: Path, matrix: TrustMatrix) -> None:
    """Write it whole or not at all.  Raise OSError."""
    write_whole(path, page(matrix))


def page(matrix: TrustMatrix) -> str:
    templates = environment()
    templates.filters |= {"share": show_share, "spread": show_spread, "row_name": row_name}
    return templates.get_template("trust.html").render(
        title=f"{' beside '.join(matrix.jobs)}: live and replayed",
        matrix=matrix,
        grids=[_grid(matrix, job) for job in range(len(matrix.jobs))],
        sentences=list(sentences(matrix)),
    )


def _grid(matrix: TrustMatrix, job: int) -> dict[str, Any]:
    """A job's table: its live times, its rows by the fabric that they were captured on, and notes."""
    live = [each for each in matrix.live if each.job == job]
    rows = [row for row in matrix.rows if row.job == job]
    cells = [rows[first : first + len(live)] for first in range(0, len(rows), len(live))]
    return {
        "name": matrix.jobs[job],
        "live": live,
        "rows": cells,
        "notes": list(live_notes(live)),
    }
