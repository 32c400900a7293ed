"""The documentation as a site: the repository's Markdown, and a page for each command, made by MkDocs."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gradwire.tools.help import Page
from gradwire.tools.manpages import page_named

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
FOLDERS = ("docs", "labs")
OURS = ("iframe-worker.js", "site.css")  # of tools/site; the theme's own files MkDocs finds there
COMMANDS = "commands"
_LOADING = {"img": "src", "script": "src", "iframe": "src", "link": "href", "source": "src"}
_CODE = re.compile(r"(`[^`\n]+`)")
_MARKS = re.compile(r"([\\`*_\[\]<>&#|~])")


def gather(project: Path, to: Path, commands: Sequence[str]) -> None:
    """Put together what the site is made of, in the repository's own folders.  Raise OSError."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for name in PAGES:
        shutil.copy(project / name, to)
    for name in FOLDERS:
        shutil.copytree(project / name, to / name)
    for name in OURS:
        shutil.copy(project / "tools" / "site" / name, to)
    (to / COMMANDS).mkdir()
    for name in commands:
        (to / COMMANDS / f"{name}.md").write_text(command_page(page_named(name)), encoding="utf-8")


def filled(nav: Sequence[Any], source: Path, commands: Sequence[str]) -> list[Any]:
    """The sections of mkdocs.yml, with the labs' pages and the commands' in theirs."""
    labs = sorted(path.relative_to(source).as_posix() for path in (source / "labs").rglob("*.md"))
    pages = {name: f"{COMMANDS}/{name}.md" for name in commands}
    sections: dict[str, list[Any]] = {title: list(entries) for each in nav for title, entries in each.items()}
    sections["Labs"] += sorted(labs, key=lambda path: (path.count("/"), path))
    sections["Reference"] = [
        {"Commands": [{name: page} for name, page in pages.items()]}
        if "Commands" in _titles(entry)
        else entry
        for entry in sections["Reference"]
    ]
    return [{title: entries} for title, entries in sections.items()]


def _titles(entry: Any) -> Sequence[str]:
    return list(entry) if isinstance(entry, Mapping) else []


def command_page(page: Page) -> str:
    """Everything that `--help` says, as Markdown."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield from (f"# {page.name}", "", "```", page.usage, "```", "")
    for paragraph in page.paragraphs:
        yield from (_plain(paragraph), "")
    for title, rows in page.sections.items():
        yield from (f"## {title}", "")
        for name, text in rows:
            yield f"`{name}`"
            first, *others = text.split("\n")
            yield f":   {_plain(first) or '–'}" + "".join(f"<br>{_plain(line)}" for line in others)
            yield ""
    if page.examples:
        yield from ("## Examples", "", "```sh", *page.examples, "```", "")


def _plain(text: str) -> str:
    """Text in which nothing but `code` is markup."""
    parts = _CODE.split(text)
    return "".join(part if _CODE.fullmatch(part) else _MARKS.sub(r"\\\1", part) for part in parts)


def outside_requests(site: Path) -> list[str]:
    """What pages of a site would load from elsewhere, as `page: address`; links that are clicked are none."""
    return [
        f"{path.relative_to(site)}: {address}"
        for path in sorted(site.rglob("*.html"))
        for address in _loaded(path.read_text(encoding="utf-8"))
        if address.startswith(("http:", "https:", "//"))
    ]


def _loaded(html: str) -> list[str]:
    reader = _Loaded()
    reader.feed(html)
    return reader.addresses


class _Loaded(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        if (address := dict(attrs).get(_LOADING.get(tag, ""))) is not None:
            self.addresses.append(address)
