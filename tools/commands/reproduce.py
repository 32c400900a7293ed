"""`gradwire reproduce`: a paper's claims, each with our figure beside it."""

from typing import Annotated

import typer

from gradwire.tools.options.common import HtmlOption, JsonOption, OutOption, either
from gradwire.tools.options.completing import completing
from gradwire.tools.papers import PAPERS


def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help=f"{either(PAPERS)}.", autocompletion=completing(PAPERS))
    ],
    plan_only: Annotated[
        bool,
        typer.Option(
            "--plan-only", help="Check only the claims that plans answer: no root, no packets, seconds."
        ),
    ] = False,
    out: OutOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check what a paper claims about the network: each claim, and our figure for it.

    A claim is checked by commands that you could type yourself; they are listed
    beside it. Most send packets; those about more hosts than one machine can
    emulate only plan. Claims that a network laboratory cannot check are listed
    too. The page is PAPER.html in the --out folder, unless --html names another
    file.

    Exit code 3: a figure is not as the closed form says, or a run is not valid.

    gradwire reproduce gossip --plan-only
    sudo gradwire reproduce gossip
    """
    from gradwire.tools.work.reproduce import reproduce_paper

    reproduce_paper(paper, plan_only=plan_only, out=out, html=html, as_json=as_json)
