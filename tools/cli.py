"""The table of commands, and the Typer application that runs the one that was typed.

A command is the function NAME in tools/commands/NAME.py.  Only the module of the command that was
typed is imported.  The others are listed from this table alone, so that no command waits for another's
libraries; and what its work needs is imported when it is carried out, so that no help page waits for it.
"""

import importlib
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

import gradwire
from gradwire import COMMAND
from gradwire.tools.console import plain
from gradwire.tools.exits import guarded
from gradwire.tools.help import HelpCommand, HelpGroup
from gradwire.traces.units import did_you_mean

USAGE = 2  # the exit code for a wrong command line, as Typer has it
PROGRAM = "gradwire"
COMPLETING = "_GRADWIRE_COMPLETE"  # set by a shell that completes a command line
FOLDER = Path(__file__).parent / "commands"

START = "Start here"
TRACES = "Captures of training jobs"
PLANS = "Fabrics and plans (no root needed)"
PAGE = "page"  # what `--watch` alone means
RUNS = "Real packets (root needed)"
RENAMED = {"--output": "--out"}  # by the names that options once had


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    panel: str
    does: str
    passes_on: bool = False  # options it does not know are somebody else's

    @property
    def exists(self) -> bool:
        return (FOLDER / f"{self.name}.py").exists()


TABLE = (
    Command("demo", START, "Inspect a shipped capture, replay it on three fabrics and compare them (root)."),
    Command("doctor", START, "Check what this machine has and what is missing, and how to fix that."),
    Command("test", START, "Run all checks and tests; with arguments, only pytest.", passes_on=True),
    Command("docs", START, "Make the documentation as a site, with links checked."),
    Command("help", START, "Describe a command and its options; write man pages."),
    Command("setup", START, "Install what is missing (root). ./gradwire does this by itself at first use."),
    Command("inspect", TRACES, "Show what a job sent, how long its iterations took and what slowed it."),
    Command("extract", TRACES, "Write what a captured job communicated to a workload file."),
    Command("make", PLANS, "Write the workload of a job that nobody captured, from a few numbers."),
    Command("fabric", PLANS, "Compare fabrics: hosts, switches, cables, bisection, oversubscription."),
    Command("plan", PLANS, "Decide every send, port and path of a run in advance, and predict its time."),
    Command(
        "sweep", PLANS, "Plan all cells of a study with every seed, keep them, and go on where it stopped."
    ),
    Command("audit", PLANS, "Show every link's load in a plan, and check a run's counters against its plan."),
    Command("runs", PLANS, "List the results in a folder: what was run, when, and what came out."),
    Command("report", PLANS, "Show results again, and make their page, from the folders that runs left."),
    Command("serve", PLANS, "Show a folder's results, pages and files in a browser, on loopback."),
    Command("compare", PLANS, "Compare two sets of results: which times differ by more than the noise?"),
    Command("controller", PLANS, "Run only the OpenFlow controller, for switches that you start elsewhere."),
    Command("replay", RUNS, "Send a job's traffic again over real TCP, on one fabric or several."),
    Command("bench", RUNS, "Measure a collective over a range of sizes, without a capture."),
    Command("inject", RUNS, "Send a capture's packets again at their recorded times."),
    Command("capture", RUNS, "Run a training job, capture its packets, and check them against its log."),
    Command("trust", RUNS, "Check replays against the job itself, trained live on the same fabrics."),
    Command("reproduce", RUNS, "Check what a paper claims about the network, claim by claim."),
    Command("run", RUNS, "Run labs: files that say what is sent, where, and what to expect."),
    Command("part", RUNS, "Carry a part of a fabric for another machine, which starts this by ssh."),
    Command("up", RUNS, "Start a fabric with its controller, and open Mininet's prompt."),
)


def main(arguments: Sequence[str]) -> None:
    """Run one command line; leaves by SystemExit."""
    typed = next((word for word in _words(arguments) if not word.startswith("-")), None)
    try:
        code = application(typed)(
            args=with_watched_page(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False
        )
    except TyperException as error:
        print(f"gradwire: {plain(usage_line(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(code or (0 if arguments else USAGE))


def _words(arguments: Sequence[str]) -> Sequence[str]:
    """The words after the program's name, also while a shell completes them (Typer's environment)."""
    if COMPLETING not in os.environ:
        return arguments
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def with_watched_page(arguments: Sequence[str]) -> list[str]:
    """A `--watch` without a value gets one: else the next word would be taken for it."""
    ours = list(arguments).index("--") if "--" in arguments else len(arguments)
    named = [f"--watch={PAGE}" if word == "--watch" else word for word in arguments[:ours]]
    return [*named, *arguments[ours:]]


def application(typed: str | None = None) -> typer.Typer:
    """The Typer application, in which only the command `typed` can really be called."""
    app = typer.Typer(
        name=PROGRAM,
        cls=HelpGroup,
        help="Read packet captures of distributed training, and replay them as real packets on emulated "
        "networks.\n\n"
        "gradwire plan --help\n"
        "gradwire inspect traces/samples/ddp_gloo_8\n"
        "sudo gradwire demo",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_frame)
    for command in TABLE:
        if not command.exists:
            continue
        function = guarded(load(command.name)) if command.name == typed else _only_listed
        unknown = {"ignore_unknown_options": True, "allow_interspersed_args": False}
        app.command(
            command.name,
            cls=HelpCommand,
            help=None if command.name == typed else command.does,
            rich_help_panel=command.panel,
            context_settings=unknown if command.passes_on else None,
        )(function)
    return app


def load(name: str) -> Callable[..., None]:
    """The function behind a command."""
    function: Callable[..., None] = getattr(importlib.import_module(f"gradwire.tools.commands.{name}"), name)
    return function


def _only_listed() -> None:
    raise AssertionError("a command that was not typed was called")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gradwire {gradwire.__version__}, Python {platform.python_version()}")
        raise typer.Exit


def _frame(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that come before the command."""


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
