"""`gradwire demo`: inspect and replay a shipped capture, from start to end."""

from typing import Annotated

import typer

from gradwire.tools.options.common import (
    HtmlOption,
    JsonOption,
    OutOption,
    RepeatOption,
    ScaleBytesOption,
    VerboseOption,
)


def demo(
    line_rate: Annotated[
        str, typer.Option(metavar="RATE", help="Rate of the hosts' links in bit/s: 50M or 100M.")
    ] = "50M",
    scale_bytes: ScaleBytesOption = "1",
    repeat: RepeatOption = 3,
    out: OutOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Replay a training job that its network slowed down, on three fabrics, and compare them.

    The job comes from a shipped capture. The demo shows what is in the capture
    and what would speed it up, then replays three iterations on the original
    leaf-spine, on a fat-tree and on a BiGraph: with the captured algorithm and
    with halving-doubling, with hashed routes (ECMP) and with routes that avoid
    congestion. The report page is report.html in the --out folder, unless
    --html names another file. Exit code 3: a row is not valid.

    sudo gradwire demo
    sudo gradwire demo --line-rate 100M --html demo.html
    """
    from gradwire.tools.work.demo import show_demo

    show_demo(line_rate, scale_bytes, repeat, out, html, as_json=as_json, verbose=verbose)
