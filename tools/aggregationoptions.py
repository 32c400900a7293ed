"""Options of in-network aggregation, and what `--ina` means for the algorithms."""

from collections.abc import Sequence
from typing import Annotated

import typer

from planning.trees.tree import ELEMENTS, LEAST_SLOTS, MAX_SWITCH_SLOTS, mtu_needed
from tools.options import either
from traces.schedules.expand import INA, INA_LEAF

MAX_WINDOW = 8192  # for one tree: a window that no queue has room for is only sent again and again

_INA: dict[str, tuple[str, ...]] = {"off": (), "on": (INA,), "leaf": (INA_LEAF,)}

InaOption = Annotated[
    str,
    typer.Option(
        "--ina",
        metavar="off|on|leaf[,…]",
        help="In-network aggregation: as --algorithm says, or added up by the switches (the algorithm ina), "
        "or by the first switch only (ina:leaf). off,on compares both.",
    ),
]
SwitchSlotsOption = Annotated[
    int,
    typer.Option(
        "--switch-slots",
        min=1,
        max=MAX_SWITCH_SLOTS,
        help="Aggregation slots of each switch, for all jobs; a job that gets none is done by its hosts.",
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--slots",
        min=LEAST_SLOTS,
        max=MAX_WINDOW,
        help="Aggregation slots that a job's tree asks for: its window. Default: by the link rate.",
        show_default=False,
    ),
]
ElementsOption = Annotated[
    int,
    typer.Option(
        "--elements",
        help=f"Numbers in an aggregation packet: {either([*map(str, ELEMENTS)])}, which needs a fabric with "
        f"mtu={mtu_needed(ELEMENTS[-1])} at least.",
    ),
]


def with_ina(algorithms: Sequence[str], ina: str) -> list[str]:
    """The algorithms that `--ina` leaves (off) and adds (on, leaf)."""
    chosen: list[str] = []
    for word in ina.split(","):
        if word.strip() not in _INA:
            raise ValueError(f"--ina {ina}: {word!r} is none of off, on and leaf; off,on compares two")
        chosen += _INA[word.strip()] or algorithms
    return list(dict.fromkeys(chosen))
