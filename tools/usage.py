"""What is wrong with a command line, in one line."""

from typing import Any

from typer.exceptions import TyperException

from gradwire import COMMAND
from gradwire.traces.units import did_you_mean

RENAMED = {"--output": "--out"}  # by the names that options once had


class UsageError(TyperException):
    """A wrong command line that only the command itself can see, as where one of two things must be given."""

    exit_code = 2

    def __init__(self, message: str, context: Any) -> None:
        super().__init__(message)
        self.ctx = context


def usage_line(error: TyperException) -> str:
    """What a person did wrong, and where to read more."""
    context: Any = getattr(error, "ctx", None)
    if context is None:
        return _sentence(error.format_message())
    name = context.command_path.partition(" ")[2]
    known = [option for parameter in context.command.params for option in parameter.opts]
    option = getattr(error, "option_name", "") if hasattr(error, "possibilities") else ""  # of a NoSuchOption
    text = _no_option(name, option, known) if option else _sentence(error.format_message())
    more = f"{COMMAND} help {name}" if name else f"{COMMAND} help"
    return f"{text}; see {more}"


def _no_option(command: str, option: str, known: list[str]) -> str:
    new = RENAMED.get(option)
    if new in known:
        return f"{option} is now called {new}"
    return f"{command or 'gradwire'} has no option {option}{did_you_mean(option, known)}"


def _sentence(text: str) -> str:
    """As the end of a line: in one line, without a capital and a full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line[:1].lower() + line[1:]
