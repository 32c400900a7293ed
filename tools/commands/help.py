"""`gradwire help`: what a command does and takes, and man pages of all."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.cli import TABLE, main
from gradwire.tools.manpages import write_man_pages
from gradwire.tools.options.completing import completing

NAMES = [command.name for command in TABLE if command.exists]


def help(  # noqa: A001 - a command's name
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMAND",
            help="Command to describe. Default: list all commands.",
            show_default=False,
            autocompletion=completing(NAMES),
        ),
    ] = None,
    man: Annotated[
        Path | None,
        typer.Option(
            "--man",
            metavar="DIR",
            help="Write man pages of all commands to this folder, e.g. ~/.local/share/man/man1.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Describe a command and its options, as its --help does; or list all commands.

    gradwire help plan
    gradwire help --man ~/.local/share/man/man1
    """
    if man is not None:
        for path in write_man_pages(man, NAMES):
            print(path)
        return
    main([*([command] if command else []), "--help"])
