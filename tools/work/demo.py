"""Inspects and replays the shipped capture, for `gradwire demo`."""

from pathlib import Path

from gradwire.emu.options import RunOptions
from gradwire.emu.project import PROJECT
from gradwire.planning.capturefabric import capture_fabric, rates_of
from gradwire.planning.experiment import Cell, Experiment
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.advice import advise
from gradwire.results.laboratory import planned
from gradwire.tools.console import console
from gradwire.tools.dygraphs import need_library
from gradwire.tools.inspection.tables import print_analysis
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.options.common import (
    parse_factor,
)
from gradwire.tools.outputs import check_page
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.analysis.analysis import analyse
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.units import parse_bps, show_bps, show_count

SAMPLE = Path("traces/samples/slow_ddp_8_mlp_leafspine50M")
AS_IT_WAS, HALVING, RANDOM, HDRM = (  # algorithm, placement, routes
    ("as-captured", "linear", "ecmp"),
    ("halving-doubling", "linear", "ecmp"),
    ("halving-doubling", "random", "ecmp"),
    ("halving-doubling", "hdrm", "direct"),
)
LEAF_SPINE = "leaf-spine:leaves=4,spines=1,hosts=2"  # of the capture, with uplinks of half the hosts' rate
CELLS = {
    LEAF_SPINE: (AS_IT_WAS, HALVING),
    "fat-tree:k=4,levels=2": (AS_IT_WAS, HALVING, RANDOM),
    "bigraph:n=4,m=2": (AS_IT_WAS, HALVING, HDRM),
}
ITERATIONS = 3
SEED = 1


def show_demo(
    line_rate: str,
    scale_bytes: str,
    repeat: int,
    out: Path | None,
    html: Path | None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Print what is in the capture, send it on three fabrics, and show the rows and their page."""
    need_root_and_tools("demo")
    check_page(html)
    need_library()
    rate_bps = parse_bps(line_rate)
    path = PROJECT / SAMPLE
    job = find_job(open_trace([path]))
    workload = workload_of(job)
    chosen = Experiment(
        workload,
        str(SAMPLE),
        seed=SEED,
        iterations=workload.iterations[-ITERATIONS:],
        scale=parse_factor(scale_bytes),
    )
    if not as_json:
        fabric = capture_fabric([path])
        analysis = analyse(job, None, rates_of(fabric) if fabric else None)
        console().print(f"The capture, {SAMPLE}:\n")
        print_analysis(analysis, advise(analysis, lambda: workload, fabric, [str(SAMPLE)]))
    work = [
        (Cell(_fabric(spec, rate_bps), *choice), chosen)
        for spec, choices in CELLS.items()
        for choice in choices
    ]
    folder = out or default_folder()
    first, *_, last = workload.iterations[-ITERATIONS:]
    introduction = (
        f"Replayed: iterations {first} to {last} of {SAMPLE}, which was captured on the leaf-spine, "
        f"hosts' links at {show_bps(rate_bps)}, every size × {scale_bytes}, "
        f"{show_count(repeat, 'repeat')}, seed {SEED}."
    )
    described = about("gradwire demo", [introduction])
    matrix = carry_out(planned(work), RunOptions(repeat), folder, described, quiet=as_json)
    show(matrix, as_json=as_json, html=html or folder / "report.html", verbose=verbose)


def _fabric(spec: str, rate_bps: int) -> Fabric:
    uplinks = f",uplink_rate={rate_bps // 2}" if spec == LEAF_SPINE else ""
    return parse_fabric(f"{spec},rate={rate_bps}{uplinks}")
