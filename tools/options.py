"""Options that several commands share, and what their texts mean."""

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.options import SWITCHES
from gradwire.planning.fabrics.spec import FAMILIES
from gradwire.planning.placement import PLACEMENTS
from gradwire.planning.routing.policies import policy_names
from gradwire.traces.schedules.expand import ALGORITHMS

MAX_ITERATIONS = 100_000

_FACTOR = re.compile(r"[x×]?(\d{1,9}(?:\.\d{1,9})?)(?:/(\d{1,9}))?", re.ASCII)
_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,9})?)(%?)", re.ASCII)
_SLOW = re.compile(r"(\d{1,4})=(.{1,32})", re.ASCII)
_ITERATIONS = re.compile(r"(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", re.ASCII)


def either(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _fabric_help() -> str:
    """An example of every family, and the keys that need not be given."""
    own = [
        f"{key}= ({name}, {default} unless given)"
        for name, family in FAMILIES.items()
        for key, default in family.sizes.items()
        if default is not None
    ]
    keys = ", ".join([*own, "rate=100M", "uplink_rate=", "queue=auto or 100KB", "delay=10us", "mtu=9000"])
    return f"{either([family.example for family in FAMILIES.values()])}; may add {keys}; or a YAML file"


FABRIC_HELP = _fabric_help()
ALGORITHM_HELP = f"How allreduces are done: {either(ALGORITHMS)}"
PLACEMENT_HELP = f"Ranks to hosts: {either(tuple(PLACEMENTS))}"
ROUTES_HELP = f"Paths of flows: {either(policy_names())}"
REPEATABLE = "Repeatable."

CapturesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="CAPTURE", help="Capture files of one job, or a folder of them.", show_default=False
    ),
]
JobArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="TRACE|WORKLOAD|PLAN",
        help="Captures (files, or a folder of them), a *.workload.json, or a plan.json.",
        show_default=False,
    ),
]
RoutesOption = Annotated[str, typer.Option("--routes", metavar="NAME", help=f"{ROUTES_HELP}.")]
RanksFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ranks",
        metavar="FILE",
        help="YAML that says who is which rank, if the captures do not tell: `ranks: {10.0.0.1: 0, ...}`.",
        show_default=False,
    ),
]
ScaleBytesOption = Annotated[
    str, typer.Option("--scale-bytes", metavar="FACTOR", help="Multiply every size, e.g. 1/8.")
]
ComputeOption = Annotated[
    str,
    typer.Option(
        "--compute",
        metavar="keep|none|FACTOR",
        help="Computing: as captured, left out, or times a factor.",
    ),
]
RepeatOption = Annotated[
    int, typer.Option("--repeat", "-n", min=1, help="Measure each cell so often; the median counts.")
]
SwitchOption = Annotated[
    str,
    typer.Option(
        metavar="KIND", help=f"{' or '.join(SWITCHES)}: ours (tc-BPF), or Open vSwitch for low rates."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder in which every run leaves a folder of its own. Default: runs/DATE-TIME. "
        "(A single file is written with --output FILE.)",
        show_default=False,
    ),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained report page.")
]
CapturesOption = Annotated[
    bool, typer.Option("--captures", help="Capture at every host, into the run's folder.")
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
            raise ValueError(f"{text!r} names no slow rank: write it like 3=×2")
        found[int(match[1])] = parse_factor(match[2])
    return found


def parse_percent(text: str) -> Fraction:
    """`10%` or `0.1`, as a share from 0 on."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a share: write it like 10% or 0.1")
    return Fraction(match[1]) / (100 if match[2] else 1)


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
            raise ValueError(f"{text!r} names no iterations: write the lower number first")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))
