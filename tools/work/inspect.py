"""Analyses captures, for `gradwire inspect`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.progress import Progress

from gradwire.planning.capturefabric import (
    capture_fabric,
    had_company,
    manifest_notes,
    rates_of,
)
from gradwire.results.advice import Step, advise
from gradwire.tools.console import plain
from gradwire.tools.inspection.tables import print_analysis
from gradwire.tools.outputs import check_file, check_report, check_tables
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.stdin import with_stdin
from gradwire.traces.analysis.analysis import analyse_trace, to_json
from gradwire.traces.analysis.perfetto import write_perfetto
from gradwire.traces.analysis.tables import frames, write_csv
from gradwire.traces.dataframes import write_parquet
from gradwire.traces.reader import capture_paths, open_captures
from gradwire.traces.recognition.recognise import workload_of
from gradwire.traces.units import parse_bps


def inspect_captures(  # noqa: PLR0913 - a parameter for each option
    captures: Sequence[Path],
    *,
    html: Path | None,
    csv: Path | None,
    parquet: Path | None,
    perfetto: Path | None,
    line_rate: str | None,
    verified: int | None,
    rank_map: Path | None,
    as_json: bool,
) -> None:
    """Print what is in the captures and what would help, and write the files that were asked for."""
    captures = with_stdin(captures)
    line_rate_bps = None if line_rate is None else _positive_bps(line_rate)
    check_tables(parquet, csv)
    check_report(html)
    check_file("--perfetto", perfetto)
    if verified is not None:
        from gradwire.traces.packets.verify import verify_files

        verify_files(capture_paths(captures), verified)
    trace = open_captures(captures, rank_map)
    fabric = capture_fabric(captures, trace.files)
    analysis, job = analyse_trace(trace, line_rate_bps, rates_of(fabric) if fabric else None)
    analysis = replace(analysis, notes=(*manifest_notes(captures, trace.files), *analysis.notes))
    advice = None
    if job is not None:
        with trying(quiet=as_json) as step:
            advice = advise(
                analysis,
                partial(workload_of, job),
                fabric,
                words_of(captures, rank_map),
                step,
                had_company=fabric is not None and had_company(captures),
            )
    written: list[Path] = []
    if csv is not None:
        written += write_csv(analysis, trace.messages, csv)
    if parquet is not None:
        written += write_parquet(frames(analysis, trace.messages), parquet)
    if perfetto is not None:
        write_perfetto(analysis, trace.messages, perfetto)
        written.append(perfetto)
    if html is not None:
        from gradwire.tools.inspection.page import write_page

        write_page(analysis, html, advice)
        written.append(html)
    if as_json:
        print(to_json(analysis, advice=advice))
        return
    print_analysis(analysis, advice)
    for path in written:
        print(plain(f"wrote {path}"))


def _positive_bps(text: str) -> int:
    rate_bps = parse_bps(text)
    if rate_bps <= 0:
        raise ValueError(f"--line-rate {text}: a line rate must be above 0: write it like 10G")
    return rate_bps


def words_of(captures: Sequence[Path], rank_map: Path | None) -> list[str]:
    """What names the same captures in another command."""
    return [*map(str, captures), *(() if rank_map is None else ("--rank-map", str(rank_map)))]


@contextmanager
def trying(quiet: bool) -> Iterator[Step]:
    """A bar from the first step on."""
    with ExitStack() as stack:
        begun: list[Progress] = []

        def step(done: int, total: int) -> None:
            if not begun:
                begun.append(stack.enter_context(progress_bar(quiet=quiet)))
                begun[0].add_task("trying what would help", total=total)
            begun[0].update(begun[0].task_ids[0], completed=done)

        yield step
