"""`gradwire docs`: the documentation as a site."""

import importlib.util
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradwire.emu.project import PROJECT
from gradwire.tools.cli import TABLE
from gradwire.tools.docsite import filled, gather, outside_requests

SITE = Path("build/site")


def docs(
    out: Annotated[
        Path | None,
        typer.Option("--site", metavar="DIR", help=f"Folder of the site. Default: {SITE} in the project."),
    ] = None,
) -> None:
    """Make the documentation as a site: README, docs/, labs/ and what --help says of every command.

    gradwire docs
    gradwire docs --site /tmp/site

    Needs no network: pages open from disk, search included, and load nothing
    from elsewhere. A link that leads nowhere, also to a heading, or a page
    that the navigation leaves out is an error.
    """
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        raise FileNotFoundError("MkDocs is not installed; run: ./gradwire setup --docs")
    site = (out or PROJECT / SITE).absolute()
    if site.exists() and not (site / "search" / "search_index.json").exists() and any(site.iterdir()):
        raise FileExistsError(
            f"--site {site}: this folder holds something other than a site; choose another folder"
        )
    build(site)
    print(f"site: {site / 'index.html'}")


def build(site: Path) -> None:
    """Make the site.  Raise ValueError if MkDocs warns, or a page loads something from elsewhere."""
    from mkdocs.commands.build import build as make
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    commands = [command.name for command in TABLE if command.exists]
    source = PROJECT / "build" / "docs"
    gather(PROJECT, source, commands)
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setLevel(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(to_stderr)
    try:
        config = load_config(
            str(PROJECT / "mkdocs.yml"), docs_dir=str(source), site_dir=str(site), strict=True
        )
        config.nav = filled(config.nav or [], source, commands)
        make(config)
    except Abort as error:
        raise ValueError("the site has links or pages that lead nowhere, see above") from error
    finally:
        logging.getLogger("mkdocs").removeHandler(to_stderr)
    if outside := outside_requests(site):
        raise ValueError(f"the site would load something from elsewhere: {outside[0]}")
