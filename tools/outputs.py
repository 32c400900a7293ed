"""Where a command writes its results, its page and its tables, checked before it begins."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.tools.console import plain
from gradwire.tools.dygraphs import need_library

if TYPE_CHECKING:  # commands that have no results of runs need not wait for it
    import pandas as pd

    from gradwire.results.matrixfile import Matrix

RUNS = "runs"  # where results go, below the current folder


def check_file(option: str, file: Path | None) -> None:
    """Raise OSError before anything is run, rather than when the result is there and cannot be written."""
    if file and not file.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"{option} {file}: there is no folder {file.absolute().parent}; make it first"
        )
    if file and file.is_dir():
        raise IsADirectoryError(f"{option} {file} is a folder; name a file in it")


def check_page(html: Path | None) -> None:
    """The same for a page."""
    check_file("--html", html)


def check_report(html: Path | None) -> None:
    """As `check_page`; raise FileNotFoundError if the library of the report's charts is missing as well."""
    check_page(html)
    if html:
        need_library()


def check_tables(parquet: Path | None, csv: Path | None = None) -> None:
    """The same for the folders of tables, which need not be there yet."""
    for option, folder in (("--parquet", parquet), ("--csv", csv)):
        if folder and folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{option} {folder} is a file; name a folder")


def write_tables(several: "Sequence[Matrix]", parquet: Path | None, csv: Path | None = None) -> None:
    """The tables of these results, where they are asked for.  Raise BadRun, OSError."""
    if parquet or csv:
        from gradwire.results.runtables import Results  # pandas takes a while to import

        write_frames(Results(tuple(several)).tables, parquet, csv)


def write_frames(frames: "Mapping[str, pd.DataFrame]", parquet: Path | None, csv: Path | None) -> None:
    """In both forms that are asked for.  Raise OSError."""
    from gradwire.traces.dataframes import write_csv, write_parquet

    if parquet:
        write_parquet(frames, parquet)
    if csv:
        write_csv(frames, csv)


def print_outputs(html: Path | None, parquet: Path | None, csv: Path | None = None) -> None:
    """A line for each that was written."""
    for name, path in (("report", html), ("tables", parquet), ("tables", csv)):
        if path:
            print(plain(f"{name}: {path}"))
