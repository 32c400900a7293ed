"""The command line's frame: which commands there are, and what each is for.

A command is the function NAME in tools/commands/NAME.py.  Only the module of the command that was
typed is imported: the others are told of by this table alone, so that none waits for another's libraries.
"""

import importlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import gradwire
from gradwire.tools.exits import guarded

FOLDER = Path(__file__).parent / "commands"

START = "Start here"
TRACES = "Captures of training jobs"
PLANS = "Fabrics and plans, no root needed"
RUNS = "Real packets, as root"


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
    Command("demo", START, "The main job on a shipped capture: a fat-tree against a BiGraph (root)."),
    Command("doctor", START, "What this machine has and lacks for all of this."),
    Command("test", START, "The whole test suite; with arguments, pytest with those.", passes_on=True),
    Command("setup", START, "Install what is missing; also happens by itself at first use (root)."),
    Command("inspect", TRACES, "What a training job did to the network."),
    Command("extract", TRACES, "Captures into a workload file."),
    Command("fabric", PLANS, "Hosts, switches, cables and bisection of fabrics, side by side."),
    Command("plan", PLANS, "Decide everything of a run beforehand, and predict its time."),
    Command("audit", PLANS, "Every link's load in a plan, and whether a run's counters agree with it."),
    Command("compare", PLANS, "Two runs of a matrix: which cells differ by more than their noise."),
    Command("controller", PLANS, "The controller alone, for switches that are started elsewhere."),
    Command("replay", RUNS, "Send a job's traffic again, on a fabric or on many."),
    Command("bench", RUNS, "A collective over a range of sizes, without a capture."),
    Command("inject", RUNS, "Send a capture's packets again at their recorded times."),
    Command("capture", RUNS, "Run a training job and capture what it sends, with its own log to check by."),
    Command("trust", RUNS, "Replays judged by the job itself, trained live on the same fabrics."),
    Command("up", RUNS, "A fabric with its controller, and Mininet's prompt."),
)


def main(arguments: Sequence[str]) -> None:
    """Run one command line; leaves by SystemExit."""
    typed = next((word for word in arguments if not word.startswith("-")), None)
    application(typed)(args=list(arguments), prog_name="gradwire")


def application(typed: str | None = None) -> typer.Typer:
    """The Typer application, in which only the command `typed` can really be called."""
    app = typer.Typer(
        name="gradwire",
        help="Replay captured distributed training, as real packets, on emulated fabrics.",
        no_args_is_help=True,
        add_completion=False,
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
        typer.Option(
            "--version", help="Print the version and leave.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that stand before the command."""
