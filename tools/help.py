"""What `--help` prints: usage, what the command does, names and their texts in two columns, examples.

As wide as the terminal.  Typer's own page gives each option five columns, of which the last, its text, gets
what the widest names of the other four leave: a word a line in the worst case.  Here a long name has a line
of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.core
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradwire import COMMAND
from gradwire.tools.console import console
from gradwire.traces.units import did_you_mean

MOST_NAME = 28  # columns; a longer name has a line of its own
EXAMPLES = ("gradwire ", "sudo gradwire ")  # a paragraph that begins with one is command lines
SAMPLES = "traces/samples/"  # shipped in a wheel, too
Row = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that is said of a command, by `--help` and by its man page.

    `name` is what is typed: `gradwire plan`.  `sections` have names with their texts, by title.  `examples`
    are command lines, as they are typed here: in a checkout they begin with `./gradwire`.
    """

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    sections: Mapping[str, tuple[Row, ...]]
    examples: tuple[str, ...] = ()


class HelpCommand(typer.core.TyperCommand):
    """A command with this module's help page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page; Typer calls this for `--help`."""
        formatter.write(_shown(page_of(self, ctx)))


class HelpGroup(typer.core.TyperGroup):
    """A group of commands with this module's help page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page; Typer calls this for `--help`."""
        formatter.write(_shown(page_of(self, ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See TyperGroup; a name that is not there in our own words."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}{did_you_mean(name, self.commands)}")
        return super().resolve_command(ctx, args)


def page_of(command: Any, context: Any) -> Page:
    """What is said of a command, or of a group and its commands."""
    arguments: dict[str, list[Row]] = {"Arguments": []}
    options: dict[str, list[Row]] = {"Options": []}
    commands: dict[str, list[Row]] = {}
    words = [context.command_path, "[OPTIONS]"]
    for parameter in command.get_params(context):
        title = getattr(parameter, "rich_help_panel", None)
        if parameter.param_type_name == "argument":
            words.append(_argument(parameter))
            row = (_argument(parameter), parameter.help or "")
            arguments.setdefault(title or "Arguments", []).append(row)
        else:
            options.setdefault(title or "Options", []).append((_option(parameter), _text(parameter, context)))
    for name, each in getattr(command, "commands", {}).items():
        panel = getattr(each, "rich_help_panel", None) or "Commands"
        commands.setdefault(panel, []).append((name, each.help or ""))
    if commands:
        words.append("COMMAND …")
    sections = {title: tuple(rows) for title, rows in (arguments | options | commands).items() if rows}
    paragraphs = (command.help or "").split("\n\n")
    prose = tuple(" ".join(each.split()) for each in paragraphs if not each.startswith(EXAMPLES))
    examples = tuple(
        _as_typed(line) for each in paragraphs if each.startswith(EXAMPLES) for line in each.splitlines()
    )
    return Page(context.command_path, " ".join(words), prose, sections, examples)


def _as_typed(line: str) -> str:
    """A command line as it works here: in a checkout from its folder, in an installation from any."""
    if COMMAND.startswith("./"):
        return line.replace("gradwire", COMMAND, 1)
    return line.replace(SAMPLES, f"{Path(__file__).parents[1]}/{SAMPLES}")


def _shown(page: Page) -> str:
    """As a terminal shows it."""
    to = console()
    with to.capture() as captured:
        to.print(Text.assemble(("Usage: ", "yellow"), (page.usage, "bold")))
        for paragraph in page.paragraphs:
            to.print()
            to.print(Text(paragraph))
        _print_sections(to, page.sections)
        if page.examples:
            to.print()
            to.print(Text("Examples", style="yellow"))
            to.print(Padding(Text("\n".join(page.examples), style="cyan"), (0, 0, 0, 2)))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _print_sections(to: Console, sections: Mapping[str, Iterable[Row]]) -> None:
    """All with one width of the first column, so that the texts of a page begin below each other."""
    longest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
    width = min(longest, MOST_NAME, to.width // 3)
    for title, rows in sections.items():
        to.print()
        to.print(Text(title, style="yellow"))
        for name, text in rows:
            has_room = len(name) <= width
            if not has_room:
                to.print(Padding(Text(name, style="cyan"), (0, 0, 0, 2)))
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(width=width, style="cyan")
            table.add_column()
            table.add_row(name if has_room else "", Text(text))
            to.print(Padding(table, (0, 0, 0, 2)))


def _argument(parameter: Any) -> str:
    """`CAPTURE…`, `SPEC`, `[WORD…]`."""
    name: str = parameter.metavar or parameter.name.upper()
    if parameter.nargs == -1 and not name.endswith("…"):
        name += "…"
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    """`-n, --repeat N`."""
    spellings = sorted(parameter.opts, key=len)
    names = ", ".join(spellings) + "".join(f" / {name}" for name in parameter.secondary_opts)
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or 'N'}"


def _text(parameter: Any, context: Any) -> str:
    """The option's text; at the end of its first line what it may be, and a default that says something."""
    first, *others = (parameter.help or "").split("\n")
    notes = [*_bounds(parameter.min, parameter.max), *_default(parameter, context)]
    if parameter.required:
        notes.append("required")
    if notes:
        first = f"{first} [{'; '.join(notes)}]".strip()
    return "\n".join([first, *others])


def _bounds(least: float | None, most: float | None) -> Iterable[str]:
    if least is not None and most is not None:
        return [f"{least} to {most}"]
    if least is not None:
        return [f"{least} or more"] if least > 0 else []
    return [] if most is None else [f"at most {most}"]


def _default(parameter: Any, context: Any) -> Iterable[str]:
    value = parameter.get_default(context, call=False)
    if not parameter.show_default or value in (None, (), [], "") or value is False:
        return []
    if parameter.secondary_opts:
        return [f"default: {parameter.opts[0]}"]
    shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return [f"default: {shown}"]
