"""`gradwire demo`: the main job, on a shipped capture."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from emu.fabrics.spec import parse_fabric
from emu.options import RunOptions
from emu.project import PROJECT
from tools.carry import carry_out, check_page, default_folder, show
from tools.console import console
from tools.experiment import Cell, Job, planned
from tools.inspect_tables import print_analysis
from tools.needs import need_root_and_tools
from tools.options import HtmlOption, JsonOption, OutOption, RepeatOption, ScaleBytesOption, parse_factor
from traces.analysis.analysis import analyse
from traces.opening import open_trace
from traces.recognition.recognise import find_job, workload_of
from traces.units import parse_bps, show_bps

SAMPLE = Path("traces/samples/ddp_gloo_8_gpt_tso")
FABRICS = ("fat-tree:k=4,levels=2", "bigraph:n=4,m=2")
CHOICES = (  # algorithm, placement, routes
    ("as-captured", "linear", "ecmp"),
    ("halving-doubling", "linear", "ecmp"),
    ("halving-doubling", "random", "ecmp"),
    ("halving-doubling", "hdrm", "direct"),
)
SEED = 1


def demo(
    rate: Annotated[str, typer.Option(metavar="RATE", help="Rate of every link: 50M or 100M.")] = "100M",
    scale_bytes: ScaleBytesOption = "1/8",
    repeat: RepeatOption = 3,
    out: OutOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """One iteration of a captured GPT training job, on a fat-tree and on a BiGraph.

    Reads the shipped capture, shows what is in it, replays its allreduces as captured and by
    halving-doubling with hashed and with congestion-avoiding routes, and writes a report page.
    """
    need_root_and_tools("demo")
    check_page(html)
    rate_bps = parse_bps(rate)
    job = find_job(open_trace([PROJECT / SAMPLE]))
    workload = workload_of(job)
    iteration = workload.iterations[-1]
    chosen = Job(
        workload,
        str(SAMPLE),
        seed=SEED,
        iterations=(iteration,),
        scale=parse_factor(scale_bytes),
        compute=Fraction(0),
    )
    if not as_json:
        console().print(f"The capture, {SAMPLE}:\n")
        print_analysis(analyse(job))
    work = [
        (Cell(parse_fabric(f"{spec},rate={rate_bps}"), *choice), chosen)
        for spec in FABRICS
        for choice in CHOICES
    ]
    folder = out or default_folder()
    rows = carry_out(planned(work), RunOptions(repeat), folder, quiet=as_json)
    introduction = [
        f"Replayed: iteration {iteration} of {SAMPLE}, communication only (--compute none),",
        f"every size × {scale_bytes}, links at {show_bps(rate_bps)}, {repeat} repeats, seed {SEED}.",
    ]
    show(rows, folder, as_json, html or folder / "report.html", "gradwire demo", introduction)
