"""How a command ends: an error as one line and an exit code, or a bug with its traceback.

The kind of the exception says what is at fault.  `ValueError`, `OSError` and every exception
class of our own packages describe input or machine, in a text meant for people.  Everything else
nobody has thought of: it is a bug and keeps its traceback.
"""

import os
import select
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

import typer
from typer.exceptions import TyperException

from gradwire import COMMAND
from gradwire.tools.console import plain
from gradwire.traces.plugins import bug_of, whose
from gradwire.traces.shortages import NO_MEMORY, advice, advised, is_lack_of_memory, unmapped_library

MISSING = f"sudo {COMMAND} setup" if COMMAND != "gradwire" else "pip install 'gradwire[emulation,tools]'"
FAULT = 1  # the input or the machine
NOT_VALID = 3  # it ran, but a result cannot be relied on, or is not as it should be
NOT_EXPECTED = 4  # it ran, and something is not as a lab expects it
INTERRUPTED = 130
NOBODY_READS = 1  # as Rich leaves when its output breaks
SHOW_TRACEBACK = "GRADWIRE_TRACEBACK"
P = ParamSpec("P")


class UsageError(TyperException):
    """A wrong command line that only the command itself can see, as where one of two things must be given."""

    exit_code = 2

    def __init__(self, message: str, context: Any) -> None:
        super().__init__(message)
        self.ctx = context


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """`command`, which leaves with an exit code instead of an exception.

    It must wrap the command itself: Typer ends every EPIPE silently, and one of a socket between
    two of our processes is an error that somebody must see.
    """

    @wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # the last stop before the shell
            raise typer.Exit(report(error)) from error

    return call


def report(error: BaseException) -> int:
    """Tell the person at stderr what happened; return the exit code."""
    if _nobody_reads_stdout():
        _discard_stdout()
        return NOBODY_READS
    match error:
        case KeyboardInterrupt():
            _tell("; ".join(["interrupted", *map(str, error.args)]))
            return INTERRUPTED
        case SystemExit() if plugin := whose(error):
            _tell(f"the {plugin} ended gradwire, as if by sys.exit: show its authors this line")
            return FAULT
        case SystemExit():
            return _exit_code(error)
        case _ if (library := unmapped_library(error)) and _is_noexec(library):
            how = "mount it without noexec, or put gradwire elsewhere"
            _tell(f"{library}: its file system is mounted noexec, so it cannot be loaded: {how}")
            return FAULT
        case _ if is_lack_of_memory(error):
            _tell(NO_MEMORY)
            return FAULT
    _report_fault(error)
    return FAULT


def _is_noexec(path: str) -> bool:
    """Whether the file system with this file lets no program be run from it; False if that is not known."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except (OSError, ValueError):
        return False


def _report_fault(error: BaseException) -> None:
    plugin = whose(error)
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if plugin is None and missing.partition(".")[0] not in ("", "gradwire"):
        _tell(f"the Python package {missing} is missing: run: {MISSING}")
        return
    is_bug = not is_for_people(error) and not _is_shortage(error)
    if is_bug or os.environ.get(SHOW_TRACEBACK):
        _print_traceback(error)
    if not is_bug:
        _tell(advised(line_for_people(error)))
    elif plugin is None:
        _tell("this is a bug in gradwire; please report it with the lines above")
    else:
        _tell(bug_of(plugin))


def is_for_people(error: BaseException) -> bool:
    ours = type(error).__module__.startswith("gradwire.")
    return ours or isinstance(error, ValueError | OSError)


def _is_shortage(error: BaseException) -> bool:
    """Whether a limit was reached for which Python raises a bare RuntimeError (`can't start new thread`)."""
    return type(error) is RuntimeError and bool(advice(str(error)))


def line_for_people(error: BaseException) -> str:
    """`one_line`, after the name of what it came through of another package."""
    plugin = whose(error)
    return one_line(error) if plugin is None else f"{plugin}: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """The error's text, without Python's brackets round an error number and without line breaks."""
    if isinstance(error, OSError) and error.strerror:
        where = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*where, error.strerror])
    elif type(error).__module__.partition(".")[0].startswith("pydantic"):
        from gradwire.traces.complaints import complaint  # pydantic may be what is not installed

        text = f"the input is not valid: {complaint(cast(Any, error))}"
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def _tell(text: str) -> None:
    print(f"gradwire: {plain(text)}", file=sys.stderr, flush=True)


def _print_traceback(error: BaseException) -> None:
    print(plain("".join(traceback.format_exception(error))), end="", file=sys.stderr, flush=True)


def _exit_code(error: SystemExit) -> int:
    if isinstance(error.code, str):
        _tell(error.code)
        return FAULT
    return error.code or 0


def _nobody_reads_stdout() -> bool:
    """Whether stdout is a pipe whose reader has gone, as in `gradwire inspect … | head -3`."""
    try:
        stdout = select.poll()
        stdout.register(sys.stdout.fileno(), 0)
        return any(events & select.POLLERR for _, events in stdout.poll(0))
    except (OSError, ValueError):  # no real stdout, as under a test
        return False


def _discard_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere, or it complains about the pipe again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
