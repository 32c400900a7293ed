"""`gradwire inspect`: what a training job did to the network."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tools.fabricrates import fabric_rates
from tools.inspect_tables import print_analysis
from tools.inspectpage.dygraphs import need_library
from tools.options import CapturesArgument, JsonOption, RanksFileOption
from tools.plaintext import plain
from traces.analysis.analysis import Analysis, analyse, analyse_flows, to_json
from traces.analysis.csv_files import write_csv
from traces.analysis.linerate import FabricRates
from traces.analysis.perfetto import write_perfetto
from traces.opening import capture_paths, open_captures
from traces.packets.verify import verify_files
from traces.recognition.ranks import BadTrace
from traces.recognition.recognise import find_job
from traces.trace import Trace
from traces.units import parse_bps


def inspect(
    captures: CapturesArgument,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a self-contained page: verdict, timeline, collectives, flows, bursts.",
            show_default=False,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="DIR",
            help="Also write the tables, and every message, as CSV into this folder.",
            show_default=False,
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Also write Chrome's JSON trace events: open it in ui.perfetto.dev.",
            show_default=False,
        ),
    ] = None,
    line_rate: Annotated[
        str | None,
        typer.Option(
            "--line-rate",
            metavar="RATE",
            help="Of the hosts' links, e.g. 10G. Else the manifest's, or what packets show.",
            show_default=False,
        ),
    ] = None,
    verified: Annotated[
        int | None,
        typer.Option(
            "--verify",
            metavar="N",
            help="First compare N packets of each file, field by field, with what tshark (pyshark) reads.",
            min=1,
            show_default=False,
        ),
    ] = None,
    ranks: RanksFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who talked to whom, which collectives and iterations there were, how fast, and what was lost."""
    line_rate_bps = None if line_rate is None else _positive_bps(line_rate)
    if html is not None:
        need_library()
    if verified is not None:
        verify_files(capture_paths(captures), verified)
    trace = open_captures(captures, ranks)
    analysis = _analysed(trace, line_rate_bps, fabric_rates(captures))
    written: list[Path] = []
    if csv is not None:
        written += write_csv(analysis, trace.messages, csv)
    if perfetto is not None:
        write_perfetto(analysis, trace.messages, perfetto)
        written.append(perfetto)
    if html is not None:
        from tools.inspectpage.page import write_page

        write_page(analysis, html)
        written.append(html)
    if as_json:
        print(json.dumps(to_json(analysis)))
        return
    print_analysis(analysis)
    for path in written:
        print(plain(f"wrote {path}"))


def _positive_bps(text: str) -> int:
    rate_bps = parse_bps(text)
    if rate_bps <= 0:
        raise ValueError(f"--line-rate {text}: a link carries more than nothing: write it like 10G")
    return rate_bps


def _analysed(trace: Trace, line_rate_bps: int | None, rates: FabricRates | None) -> Analysis:
    """All that can be said: of captures without a whole training job, what is on the wire."""
    if not len(trace.messages):
        return analyse_flows(trace, trace.notes[0].removeprefix(f"{trace.name}: "), line_rate_bps, rates)
    try:
        job = find_job(trace)
    except BadTrace as error:
        return analyse_flows(trace, str(error).removeprefix(f"{trace.name}: "), line_rate_bps, rates)
    return analyse(job, line_rate_bps, rates)
