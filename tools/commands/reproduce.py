"""`gradwire reproduce`: a paper's claims, each with our figure beside it."""

import json
from typing import Annotated

import typer

from gradwire.tools.completing import completing
from gradwire.tools.console import console
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.machine import need_root_and_tools
from gradwire.tools.matrixrun import about, default_folder
from gradwire.tools.options import HtmlOption, JsonOption, OutOption, either
from gradwire.tools.outputs import check_page
from gradwire.tools.reproducing import (
    PAPERS,
    check_folder,
    load_paper,
    print_outcomes,
    reproduced,
    save,
    write_page,
)


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
    """
    chosen = load_paper(paper)
    check_page(html)
    if not plan_only and any(claim.needs_root for claim in chosen.claims):
        if out:
            check_folder(out)
        need_root_and_tools("reproduce")
    described = about(chosen.title)
    folder = out or default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = reproduced(chosen, folder, plan_only=plan_only, quiet=as_json)
    save(folder, described, outcomes)
    page = html or folder / f"{paper}.html"
    write_page(page, chosen, outcomes)
    if as_json:
        print(json.dumps([outcome.to_json() for outcome in outcomes], indent=1))
    else:
        to = console()
        print_outcomes(to, chosen, outcomes)
        to.print(f"\nreport: {page}", soft_wrap=True)
    if any(outcome.verdict in ("differs", "not valid") for outcome in outcomes):
        raise typer.Exit(NOT_VALID)
