"""Lists the results in a folder, for `gradwire runs`."""

import json
from dataclasses import asdict
from pathlib import Path

from gradwire.results.runlist import listed_runs
from gradwire.tools.console import console
from gradwire.tools.runstable import HEADS, row_of
from gradwire.tools.table import rich_table, table_of


def list_runs(folder: Path, *, as_json: bool) -> None:
    """Print a row for each result, and what is wrong with those that cannot be read."""
    found = listed_runs(folder)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    to = console()
    if not found:
        to.print(f"no results in {folder}", soft_wrap=True)
        return
    to.print(rich_table(table_of(HEADS, found, row_of), dense=True))
    for each in found:
        if each.problem:
            to.print(f"{each.folder}: {each.problem}", style="dim", soft_wrap=True)
