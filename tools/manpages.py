"""Man pages of all commands, made of what `--help` says (man-pages(7), groff_man(7))."""

from collections.abc import Iterator
from pathlib import Path

import typer.main

import gradwire
from gradwire.tools.help import Page, page_of
from gradwire.traces.files import write_whole

SECTION = 1
EXIT_CODES = (  # as in README.md
    ("0", "It is done."),
    ("1", "The input or the machine is at fault; one line on standard error says what to do."),
    ("2", "The command line is wrong."),
    ("3", "It ran, but a result is not valid, or not as it should be."),
    ("4", "It ran, and something is not as a lab expects it."),
    ("130", "It was interrupted, and everything was taken down."),
)


def write_man_pages(folder: Path, names: list[str]) -> list[Path]:
    """`gradwire.1`, and `gradwire-NAME.1` of each of these commands.  Raise OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in (None, *names):
        page = page_named(name)
        path = folder / f"{page.name.replace(' ', '-')}.{SECTION}"
        others = [page.name.split()[0]] if name else [f"gradwire-{each}" for each in names]
        write_whole(path, man_page(page, others))
        written.append(path)
    return written


def page_named(name: str | None) -> Page:
    """What is said of the command of this name, or without one of gradwire and its commands."""
    from gradwire.tools.cli import application

    group = typer.main.get_command(application(name))
    assert isinstance(group, typer.core.TyperGroup)
    context = typer.Context(group, info_name="gradwire")
    if name is None:
        return page_of(group, context)
    command = group.commands[name]
    return page_of(command, typer.Context(command, info_name=name, parent=context))


def man_page(page: Page, others: list[str]) -> str:
    """The page's source; `others` are the pages that it names at its end."""
    return "".join(f"{line}\n" for line in _lines(page, others))


def _lines(page: Page, others: list[str]) -> Iterator[str]:
    title = page.name.replace(" ", "-")
    does = page.paragraphs[0].rstrip(".") if page.paragraphs else ""
    yield f'.TH {_escaped(title).upper()} {SECTION} "" "gradwire {gradwire.__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"{_escaped(title)} \\- {_escaped(does)}"
    yield ".SH SYNOPSIS"
    command, _, rest = page.usage.partition(" [")
    yield f".B {_escaped(command)}"
    yield _escaped(f"[{rest}")
    yield ".SH DESCRIPTION"
    for paragraph in page.paragraphs:
        yield from (".PP", _escaped(paragraph))
    for heading, rows in page.sections.items():
        yield f'.SH "{_escaped(heading).upper()}"'
        for name, text in rows:
            yield from _row(name, text)
    yield '.SH "EXIT STATUS"'
    for code, text in EXIT_CODES:
        yield from _row(code, text)
    if page.examples:
        yield from (".SH EXAMPLES", ".nf", *map(_escaped, page.examples), ".fi")
    yield '.SH "SEE ALSO"'
    yield ",\n".join(f".BR {_escaped(each)} ({SECTION})" for each in others)


def _row(name: str, text: str) -> Iterator[str]:
    """A name, and its text below it; each of the text's own lines begins a line."""
    yield ".TP"
    yield f".B {_escaped(name)}"
    first, *lines = text.split("\n")
    yield _escaped(first)
    for line in lines:
        yield ".br"
        yield _escaped(line)


def _escaped(text: str) -> str:
    """Hyphens stay what was typed, and no line begins a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
