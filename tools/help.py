"""What `--help` prints: usage, what the command does, and two columns, names and their texts.

As wide as the terminal, 100 columns where there is none.  Typer's own page gives each option five columns, of
which the last, its text, gets what the widest names of the other four leave: a word a line in the worst case.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import typer.core
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradwire.tools.console import console

LEAST_TEXT = 40  # columns; on a narrower terminal long names are broken instead
EXAMPLE = "gradwire "  # paragraphs that begin with it are command lines, which stay as they are
Row = tuple[str, str]


class HelpCommand(typer.core.TyperCommand):
    """A command with this module's help page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page; Typer calls this for `--help`."""
        formatter.write(_page(self, ctx, {}))


class HelpGroup(typer.core.TyperGroup):
    """A group of commands with this module's help page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page; Typer calls this for `--help`."""
        sections: dict[str, list[Row]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(panel, []).append((name, command.help or ""))
        formatter.write(_page(self, ctx, sections))


def _page(command: Any, context: Any, sections: dict[str, list[Row]]) -> str:
    arguments, options = {"Arguments": list[Row]()}, {"Options": list[Row]()}
    words = [context.command_path, "[OPTIONS]"]
    for parameter in command.get_params(context):
        title = getattr(parameter, "rich_help_panel", None)
        if parameter.param_type_name == "argument":
            words.append(_argument(parameter))
            row = (_argument(parameter), parameter.help or "")
            arguments.setdefault(title or "Arguments", []).append(row)
        else:
            options.setdefault(title or "Options", []).append((_option(parameter), _text(parameter, context)))
    if sections:
        words.append("COMMAND …")
    to = console()
    with to.capture() as captured:
        to.print(Text.assemble(("Usage: ", "yellow"), (" ".join(words), "bold")))
        for paragraph in _paragraphs(command.help or ""):
            to.print()
            to.print(paragraph)
        _print_sections(to, arguments | options | sections)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _paragraphs(text: str) -> Iterator[RenderableType]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(EXAMPLE):
            yield Padding(Text(paragraph, style="cyan"), (0, 0, 0, 2))
        else:
            yield Text(" ".join(paragraph.split()))


def _print_sections(to: Console, sections: dict[str, list[Row]]) -> None:
    """All with one width of the first column, so that the texts of a page begin below each other."""
    names = [name for rows in sections.values() for name, _ in rows]
    width = min(max(map(len, names), default=0), max(to.width - LEAST_TEXT, 10))
    for title, rows in sections.items():
        if not rows:
            continue
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=width, style="cyan", overflow="fold")
        table.add_column()
        for name, text in rows:
            table.add_row(name, Text(text))
        to.print()
        to.print(Text(title, style="yellow"))
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
