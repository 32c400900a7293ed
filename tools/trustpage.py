"""The page of a `trust` matrix: one HTML file that needs nothing else, in the report's style."""

from pathlib import Path

from tools.report import environment
from tools.trustresult import Matrix
from tools.trusttables import sentences, show_share, show_spread
from traces.files import write_whole


def write_page(path: Path, matrix: Matrix) -> None:
    """Write it whole or not at all.  Raise OSError."""
    write_whole(path, page(matrix))


def page(matrix: Matrix) -> str:
    made = environment()
    made.filters |= {"share": show_share, "spread": show_spread}
    n_fabrics = len(matrix.live)
    return made.get_template("trust.html").render(
        title=f"{matrix.job}, {matrix.ranks} ranks: live and replayed",
        matrix=matrix,
        grid=[matrix.rows[first : first + n_fabrics] for first in range(0, len(matrix.rows), n_fabrics)],
        sentences=list(sentences(matrix)),
    )
