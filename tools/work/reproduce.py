"""Checks a paper's claims, for `gradwire reproduce`."""

import json
from pathlib import Path

import typer

from gradwire.tools.console import console
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.matrixrun import about, default_folder
from gradwire.tools.outputs import check_page
from gradwire.tools.reproducing import (
    check_folder,
    load_paper,
    print_outcomes,
    reproduced,
    save,
    write_page,
)
from gradwire.tools.thismachine import need_root_and_tools


def reproduce_paper(
    paper: str, *, plan_only: bool, out: Path | None, html: Path | None, as_json: bool
) -> None:
    """Print each claim with our figure, and write the page; leave with exit code 3 if one differs."""
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
