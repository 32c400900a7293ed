"""Command lines as the parsers of their commands read them, and what is said of one that is refused."""

import shlex
from typing import Any

import pytest
import typer.main

from gradwire.tools import cli
from gradwire.tools.help import HelpGroup


def options_of(line: str) -> tuple[str, dict[str, Any]]:
    """The command that `sudo ./gradwire COMMAND …` names, and its options as its own parser reads them.

    Raise what Typer does for an option or an argument that the command does not have, and AssertionError for
    another program.
    """
    program, name, *words = shlex.split(line.removeprefix("sudo "))
    assert program == "./gradwire", line
    group = typer.main.get_command(cli.application(name))
    assert isinstance(group, HelpGroup)
    return name, group.commands[name].make_context(name, cli.with_watched_page(words)).params


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line on stderr with which this command line ends as its input or the machine is at fault."""
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said
