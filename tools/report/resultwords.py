"""Words about results: which command left them, and what is missing of them."""

import shlex
from collections.abc import Iterator

from gradwire.results.matrixfile import Matrix
from gradwire.results.trustresult import TrustMatrix


def missing_words(results: Matrix | TrustMatrix) -> str:
    """That the command was interrupted, or still runs; empty if it is complete."""
    if results.is_complete:
        return ""
    total = results.n_cells if isinstance(results, Matrix) else results.n_rows
    return f"incomplete: {len(results.rows)} of {total} cells done"


def about_words(matrix: Matrix) -> Iterator[str]:
    """A line for each: which command, when, and what is missing."""
    about = matrix.about
    if about.command:
        when = about.began.replace("T", " ").replace("Z", " UTC")
        yield f"gradwire {shlex.join(about.command)} ({when}, version {about.version})"
    if words := missing_words(matrix):
        yield words
