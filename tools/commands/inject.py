"""`gradwire inject`: send a capture's packets again as they were."""

from fractions import Fraction
from typing import Annotated

import typer

from gradwire.emu.inject.options import PPS, RATE, RECORDED, STAR_RATE, TOPSPEED, Pace
from gradwire.tools.options.common import (
    FABRIC_HELP,
    CapturesArgument,
    JsonOption,
    OutOption,
    RankMapOption,
    RoutesOption,
    SwitchOption,
    complete_fabric,
    parse_factor,
)
from gradwire.traces.units import parse_bps

MAX_PPS = 10_000_000

InjectFabricOption = Annotated[
    str | None,
    typer.Option(
        "--fabric",
        metavar="SPEC",
        autocompletion=complete_fabric,
        help=f"{FABRIC_HELP}. Default: a star of the capture's hosts with links of {STAR_RATE}.",
        show_default=False,
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="ADDRESS=HOST",
        help="Put a host of the capture on a host of the fabric (10.77.0.1=h3), or leave it out "
        "(10.77.0.1=none). Repeatable. The others follow in the order of ranks, then of addresses.",
        show_default=False,
    ),
]
SpeedOption = Annotated[
    str | None,
    typer.Option(
        metavar="FACTOR", help="Multiply the recorded speed, e.g. 2 or 1/4. Default: 1.", show_default=False
    ),
]
PpsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_PPS,
        help="Send at this many packets per second, evenly, over all hosts together.",
        show_default=False,
    ),
]
RateOption = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Send at this rate in bit/s, over all hosts together, e.g. 500M; links keep their own.",
        show_default=False,
    ),
]
TopspeedOption = Annotated[bool, typer.Option("--topspeed", help="Send as fast as this machine can.")]
LoopOption = Annotated[int, typer.Option("--loop", metavar="N", min=1, help="Send all packets N times.")]
ExactMtuOption = Annotated[
    bool,
    typer.Option("--exact-mtu", help="Cut large captured segments (TSO) into packets of the fabric's MTU."),
]


def inject(  # noqa: PLR0913, PLR0917 - a parameter for each option
    captures: CapturesArgument,
    fabric: InjectFabricOption = None,
    map_: MapOption = None,
    speed: SpeedOption = None,
    pps: PpsOption = None,
    rate: RateOption = None,
    topspeed: TopspeedOption = False,
    loop: LoopOption = 1,
    exact_mtu: ExactMtuOption = False,
    routes: RoutesOption = "ecmp",
    rank_map: RankMapOption = None,
    switch: SwitchOption = "gradwire",
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a capture's packets again at their recorded times, whatever the network does with them.

    This is an open loop: nothing reacts. No host acknowledges, retransmits or
    slows down. If the fabric drops a packet, it is lost, and the next one leaves
    all the same. So `inject` shows what a fabric does to exactly this traffic:
    loss, delay, reordering. Use `replay` to see how the job itself would run on
    a fabric: it sends the same data over real TCP, and its sends wait for each
    other.

    Each packet is sent once, taken from the capture closest to its source, with
    the addresses of the fabric. Bytes that the snaplen cut off are sent as zeros.
    Give at most one of --speed, --pps, --rate and --topspeed.

    Exit code 3: the machine was too slow, or a capture lost packets.

    sudo gradwire inject traces/samples/ddp_gloo_8
    sudo gradwire inject traces/samples/ddp_gloo_8 --fabric star:hosts=9,rate=50M --speed 1/2
    """
    from gradwire.tools.work.inject import inject_captures

    inject_captures(
        captures,
        fabric,
        map_ or [],
        parse_pace(speed, pps, rate, topspeed),
        loop=loop,
        exact_mtu=exact_mtu,
        routes=routes,
        rank_map=rank_map,
        switch=switch,
        out=out,
        as_json=as_json,
    )


def parse_pace(speed: str | None, pps: int | None, rate: str | None, topspeed: bool) -> Pace:
    """Raise ValueError for more than one of them."""
    given = [
        name
        for name, value in (("--speed", speed), ("--pps", pps), ("--rate", rate), ("--topspeed", topspeed))
        if value
    ]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} cannot be used together: give one of them")
    if topspeed:
        return Pace(TOPSPEED)
    if pps:
        return Pace(PPS, Fraction(pps))
    if rate:
        rate_bps = parse_bps(rate)
        if not rate_bps:
            raise ValueError("--rate must be above 0")
        return Pace(RATE, Fraction(rate_bps))
    return Pace(RECORDED, parse_factor(speed) if speed else Fraction(1))
