"""The page of a `trust` matrix: one HTML file that needs nothing else, in the report's style."""

from pathlib import Path
from typing import Any

from tools.report import environment
from tools.trustresult import Matrix
from tools.trusttables import row_name, sentences, show_share, show_spread
from traces.files import write_whole


def write_page(path: Path, matrix: Matrix) -> None:
    """Write it whole or not at all.  Raise OSError."""
    write_whole(path, page(matrix))


def page(matrix: Matrix) -> str:
    made = environment()
    made.filters |= {"share": show_share, "spread": show_spread, "row_name": row_name}
    return made.get_template("trust.html").render(
        title=f"{' beside '.join(matrix.jobs)}: live and replayed",
        matrix=matrix,
        grids=[_grid(matrix, job) for job in range(len(matrix.jobs))],
        sentences=list(sentences(matrix)),
    )


def _grid(matrix: Matrix, job: int) -> dict[str, Any]:
    """A job's table: its live times, and its rows by the fabric that they were captured on."""
    live = [each for each in matrix.live if each.job == job]
    rows = [row for row in matrix.rows if row.job == job]
    cells = [rows[first : first + len(live)] for first in range(0, len(rows), len(live))]
    return {"name": matrix.jobs[job], "live": live, "rows": cells}
