"""The console that commands print their tables to."""

from rich.console import Console

MAX_COLUMNS = 100


def console(stderr: bool = False) -> Console:
    """As wide as the terminal but no wider than a report; a pipe gets the full width.

    Texts are printed as they are: names from captures and files are no markup.
    """
    made = Console(stderr=stderr, highlight=False, markup=False)
    made.width = min(made.width, MAX_COLUMNS) if made.is_terminal else MAX_COLUMNS
    return made
