"""Options that several commands share, and the functions that read their values."""

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.options import CONTROLLERS, OS_KEN, RYU, SWITCHES
from gradwire.planning.fabrics.spec import FAMILIES, family_names
from gradwire.planning.placement import placement_names
from gradwire.planning.routing.policies import policy_names
from gradwire.tools.options.completing import completing
from gradwire.traces.schedules.names import CHOICES, algorithm_names

MAX_ITERATIONS = 100_000
ENGINES = MODEL, SIMGRID, PACKETS = "model", "simgrid", "packets"  # what can say how long a plan takes

_FACTOR = re.compile(r"[x×]?(\d{1,9}(?:\.\d{1,9})?)(?:/(\d{1,9}))?", re.ASCII)
_SLOW = re.compile(r"(\d{1,4})=(.{1,32})", re.ASCII)
_ITERATIONS = re.compile(r"(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", re.ASCII)


def either(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _fabric_help() -> str:
    """An example of every family, and the keys that need not be given."""
    own = [
        f"{key}=N ({name} only; default {default})"
        for name, family in FAMILIES.items()
        for key, default in family.sizes.items()
        if default is not None
    ]
    links = (
        "rate=50M (hosts' links in bit/s; of a mesh or torus the links between switches; default 100M)",
        "uplink_rate=25M (links between switches; default: as rate)",
        "host_rate=100M (mesh and torus only: hosts' links; default 4 × rate)",
        "rate@h0=800M (one host's link) or rate@leaf0-spine1=40M (the link between two switches)",
        "queue=100KB (per port; default auto)",
        "delay=10us (per cable; default 0)",
        "mtu=9000 (bytes; default 1500)",
    )
    of_packages = [f"{name}:… (of a package)" for name in family_names() if name not in FAMILIES]
    examples = either([*(family.example for family in FAMILIES.values()), *of_packages])
    return f"Fabric: {examples}, or a YAML file. Optional keys, after commas: {', '.join([*own, *links])}"


FABRIC_HELP = _fabric_help()
MEANINGS = {  # of the choices' names; docs/collectives.md and docs/policies.md say more
    "as-captured": "as recognised in the capture; gloo's ring where none was recognised",
    "ring": "reduce-scatter, then all-gather, in 2(p−1) steps",
    "halving-doubling": "partners at distance 1, 2, 4, …, then back; 2 log₂ p steps",
    "halving-doubling:far": "the same with the farthest partner first, at distance p/2",
    "recursive-doubling": "the whole buffer with partners at distance 1, 2, 4, …; log₂ p steps",
    "all-pairs": "each rank adds up one p-th for all others; two steps",
    "tree:flat": "up to rank 0 and back; every other rank is a child of rank 0",
    "tree:binomial": "the same along a binomial tree, in ⌈log₂ p⌉ steps each way",
    "tree:in-order-binomial": "a binomial tree whose subtrees are of neighbouring ranks",
    "tree:chain": "each rank is the child of the one before",
    "tree:binary": "two children for each rank",
    "tree:chains": "four chains side by side",
    "double-binary-tree": "two trees, each rank a leaf of one; half of the buffer through each, in pieces",
    "hierarchical": "a ring of the ranks on each first switch (a host's own), then rings across them",
    "hierarchical:grid": "the same with the rows of a grid of the ranks in place of switches",
    "2d-ring": "on a grid: rings along its rows and its columns, a quarter of the buffer in each direction",
    "multitree": "a tree from each rank, grown along the fabric's free links step by step",
    "multitree:reference": "the same with the authors' rule for when a step ends",
    "ps:LAYOUT": "parameter servers: central, servers=K, colocated, hierarchical; more: docs/collectives.md",
    "topk:RHO": "every rank sends its RHO largest numbers, as pairs of index and value: topk:1%",
    "gtopk:RHO": "ranks merge their RHO largest two by two, up a tree; what is left goes to all",
    "hitopk:RHO": "each first switch's ranks add up shards, whose RHO largest numbers go between switches",
    "ina": "in-network aggregation: switches add the gradients up",
    "ina:leaf": "each rank's first switch adds; a ring of hosts does the rest",
    "pairwise": "alltoall: each block straight to its rank, all posted at once",
    "bruck": "alltoall: blocks handed on by partners at distance …, 4, 2, 1; ⌈log₂ p⌉ steps",
    "linear": "rank r on host r",
    "random": "hosts drawn from the seed",
    "hdrm": "EFLOPS' rank map for halving-doubling on a BiGraph",
    "alternating": "for a ring on a BiGraph: ranks on its two layers in turn, a link for each flow",
    "by-leaf": "ranks that follow each other share a leaf, whatever the hosts' numbers",
    "cyclic": "one rank on each leaf in turn, so that ranks that follow each other share none",
    "snake": "for a ring on a torus or a mesh: row after row, every other row backwards",
    "ecmp": "equal-cost multipath: a hash of the 5-tuple chooses the path",
    "dmodk": "the destination's number chooses the way up",
    "direct": "a BiGraph's only path between its halves",
    "planned": "spreads flows that the schedule has active at the same time",
    "adaptive": "ecmp, until the controller moves large flows off full links",
}


def _choices_help(does: str, names: Sequence[str]) -> str:
    """A line for what the option does, and one for each name; of what other packages add the name alone."""
    return "\n".join([does, *(f"{name}: {MEANINGS[name]}" if name in MEANINGS else name for name in names)])


ALGORITHMS = tuple(dict.fromkeys((*CHOICES, *algorithm_names())))
ALGORITHM_HELP = _choices_help(
    "Algorithm for every allreduce; in a job without allreduces, for its only kind of collective. p: number "
    "of ranks.",
    ALGORITHMS,
)
PLACEMENT_HELP = _choices_help("How ranks are placed on hosts.", placement_names())
ROUTES_HELP = _choices_help("How flows are routed.", policy_names())
complete_fabric = completing([family.example for family in FAMILIES.values()])
complete_algorithm = completing(ALGORITHMS, MEANINGS)
complete_placement = completing(placement_names(), MEANINGS)
complete_routes = completing(policy_names, MEANINGS)
REPEATABLE = "Repeatable."

CapturesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="CAPTURE",
        help="Capture files (pcap or pcapng) of one job, or their folder; - is standard input.",
        show_default=False,
    ),
]
JobArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="CAPTURE|WORKLOAD|PLAN",
        help="Capture files of one job or their folder, a *.workload.json, or a plan.json; - is standard "
        "input.",
        show_default=False,
    ),
]
RoutesOption = Annotated[
    str, typer.Option("--routes", metavar="NAME", help=ROUTES_HELP, autocompletion=complete_routes)
]
RankMapOption = Annotated[
    Path | None,
    typer.Option(
        "--rank-map",
        metavar="FILE",
        help="YAML file with the rank of each address, if the captures do not show it: "
        "`ranks: {10.0.0.1: 0, ...}`.",
        show_default=False,
    ),
]
ScaleBytesOption = Annotated[
    str,
    typer.Option(
        "--scale-bytes", metavar="FACTOR", help="Multiply the size of every message by this, e.g. 1/8."
    ),
]
ComputeOption = Annotated[
    str,
    typer.Option(
        "--compute",
        metavar="keep|none|FACTOR",
        help="Compute times between sends: as captured (keep), left out (none), or multiplied (e.g. 0.5).",
    ),
]
RepeatOption = Annotated[
    int,
    typer.Option(
        "--repeat", "-n", metavar="N", min=1, help="Number of measurements of each row; the median counts."
    ),
]
ControllerOption = Annotated[
    str,
    typer.Option(
        autocompletion=completing(CONTROLLERS),
        metavar="LIBRARY",
        help=f"OpenFlow library of the controller: {OS_KEN}, or {RYU} (Ryu 4.34; after setup --ryu).",
    ),
]
SwitchOption = Annotated[
    str,
    typer.Option(
        autocompletion=completing(SWITCHES),
        metavar="KIND",
        help=f"Software switch: {SWITCHES[0]} (our own, tc-BPF) or {SWITCHES[1]} (Open vSwitch, for low "
        "rates).",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Folder for the results; each run gets a folder inside it. Default: runs/DATE-TIME.",
        show_default=False,
    ),
]
WorkloadOutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="PATH",
        help="Workload file to write: NAME.workload.json.",
        show_default=False,
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write a report to this file: one HTML page that needs no other file."
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="DIR",
        help="Also write all tables to this folder, as CSV files (docs/schemas.md).",
        show_default=False,
    ),
]
ParquetOption = Annotated[
    Path | None,
    typer.Option(
        "--parquet",
        metavar="DIR",
        help="Also write all tables to this folder, as Parquet files with a type for each column "
        "(docs/schemas.md).",
        show_default=False,
    ),
]
CapturesOption = Annotated[
    bool, typer.Option("--captures", help="Capture packets at every host, into the run's folder.")
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print all notes below a table; without it, no more lines of them than the table has.",
    ),
]
MachinesOption = Annotated[
    Path | None,
    typer.Option(
        "--machines",
        metavar="FILE",
        help="Spread the fabric over the machines in this YAML file, which are reached by ssh "
        "(docs/machines.md).",
        show_default=False,
    ),
]
WatchOption = Annotated[
    str | None,
    typer.Option(
        "--watch",
        metavar="[=PORT|terminal]",
        help="Show live what goes on: links coloured by load, queues, drops, how far each rank is, what "
        "the controller does. In a browser, by a page on this machine's loopback at port 8470 or PORT (0: "
        "any free one), or in the terminal.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON (docs/schemas.md).")]


def parse_factor(text: str) -> Fraction:
    """`1/8`, `0.125`, `2` or `×2`: a number above 0."""
    match = _FACTOR.fullmatch(text.strip())
    if match is None or not int(match[2] or 1) or not Fraction(match[1]):
        raise ValueError(f"{text!r} is not a factor above 0: write it like 1/8 or 0.5")
    return Fraction(match[1]) / int(match[2] or 1)


def parse_compute(text: str) -> Fraction:
    """The factor on computing: `keep` is 1, `none` is 0."""
    words = {"keep": Fraction(1), "none": Fraction(0)}
    return words[text] if text in words else parse_factor(text)


def parse_slow(texts: Sequence[str] | None) -> dict[int, Fraction]:
    """Factors by rank, from texts such as `3=×2`, `3=x2` or `3=2`."""
    found: dict[int, Fraction] = {}
    for text in texts or ():
        match = _SLOW.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} does not name a slow rank: write it like 3=×2")
        found[int(match[1])] = parse_factor(match[2])
    return found


def parse_iterations(texts: Sequence[str] | None) -> tuple[int, ...] | None:
    """The iterations that `3` or `2..5` name; None for all."""
    if not texts:
        return None
    chosen: set[int] = set()
    for text in texts:
        match = _ITERATIONS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not an iteration: write it like 3 or 2..5")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MAX_ITERATIONS:
            raise ValueError(
                f"{text!r}: write the lower number first, and at most {MAX_ITERATIONS:,} iterations"
            )
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))
