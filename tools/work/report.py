"""Shows the results of folders, for `gradwire report`."""

import json
from collections.abc import Sequence
from pathlib import Path

from gradwire.results.answer import answer_of_rows
from gradwire.results.matrixfile import Matrix, matrix_json
from gradwire.results.resultfolder import load_results, load_several
from gradwire.results.trustresult import Live, TrustMatrix, TrustRow
from gradwire.tools.console import console
from gradwire.tools.outputs import check_report, check_tables, print_outputs, write_frames, write_tables
from gradwire.tools.report.resultwords import about_words, missing_words
from gradwire.tools.report.rowtables import print_rows
from gradwire.tools.report.sidebyside import run_names, side_by_side
from gradwire.tools.table import rich_table
from gradwire.tools.trust.tables import print_matrix
from gradwire.tools.trust.tables import write_page as write_trust


def report_runs(
    runs: Sequence[Path],
    html: Path | None,
    parquet: Path | None,
    csv: Path | None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Print their tables, and write the page and the files that were asked for."""
    check_report(html)
    check_tables(parquet, csv)
    if len(runs) == 1 and isinstance(results := load_results(runs[0]), TrustMatrix):
        _write_trust(results, html, parquet, csv)
        _show_trust(results, runs[0], as_json=as_json)
        if not as_json:
            print_outputs(html, parquet, csv)
        return
    several = load_several(runs)
    if html:
        _write(html, several)
    write_tables(several, parquet, csv)
    if as_json:
        print(json.dumps([{"folder": str(each.folder), **matrix_json(each)} for each in several], indent=1))
        return
    to = console()
    if len(several) > 1:
        table = side_by_side(several)
        to.print(table.title, style="bold", soft_wrap=True)
        to.print(rich_table(table, dense=True))
    for each in several:
        if len(several) > 1:
            to.print(f"\n{each.folder}", style="bold", soft_wrap=True)
        for line in (*about_words(each), *each.about.introduction):
            to.print(line, soft_wrap=True)
        print_rows(to, each.rows, verbose)
        if sentence := answer_of_rows(each.rows):
            to.print(f"\n{sentence}")
    print_outputs(html, parquet, csv)


def _write_trust(matrix: TrustMatrix, html: Path | None, parquet: Path | None, csv: Path | None) -> None:
    if html:
        write_trust(html, matrix)
    if parquet or csv:
        from gradwire.traces.dataframes import frame  # pandas takes a while to import

        tables = {"rows": frame(TrustRow, matrix.rows), "live": frame(Live, matrix.live)}
        write_frames(tables, parquet, csv)


def _show_trust(matrix: TrustMatrix, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"folder": str(folder), **matrix.to_json()}], indent=1))
        return
    to = console()
    if words := missing_words(matrix):
        to.print(words)
    print_matrix(to, matrix)


def _write(html: Path, several: Sequence[Matrix]) -> None:
    from gradwire.tools.report.page import write_report  # the tables alone need not wait for it

    if len(several) == 1:
        (one,) = several
        introduction = (*one.about.introduction, *about_words(one))
        write_report(html, one.about.title or str(one.folder), introduction, one.rows)
        return
    write_report(
        html,
        f"{len(several)} sets of results side by side",
        [f"{each.folder}: {'; '.join(about_words(each))}" for each in several],
        [row for each in several for row in each.rows],
        runs=[name for name, each in zip(run_names(several), several, strict=True) for _ in each.rows],
        beside=side_by_side(several),
    )
