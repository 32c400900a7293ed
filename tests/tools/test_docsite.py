"""The documentation as a site: all pages are in it, all links lead somewhere, nothing is from elsewhere."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from gradwire.tools import cli
from gradwire.tools.commands import docs
from gradwire.tools.docsite import FOLDERS, OURS, PAGES, command_page, outside_requests
from gradwire.tools.help import Page
from tests.browser import CHROMIUM, browser

BUILDS = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="MkDocs is not installed: ./gradwire setup --docs"
)
OTHER = "# Other\n\n## Here\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    with pytest.raises(SystemExit) as left:
        cli.main(["docs", "--site", str(made)])
    assert left.value.code == 0
    return made


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project whose site has no fault; of commands it has `runs` alone."""
    home = tmp_path / "home"
    for name in FOLDERS:
        (home / name).mkdir(parents=True)
    for name in PAGES:
        (home / name).write_text("# A page\n")
    (home / "README.md").write_text("# Small\n\n[there](docs/other.md#here)\n")
    (home / "docs" / "other.md").write_text(OTHER)
    shutil.copytree(PROJECT / "tools" / "site", home / "tools" / "site")
    text = (PROJECT / "mkdocs.yml").read_text()
    nav = text[text.index("nav:\n") : text.index("theme:\n")]
    pages = "docs/other.md, CONTRIBUTING.md, CHANGELOG.md"
    small = f"nav: [{{Start: [README.md]}}, {{Labs: []}}, {{Reference: [{pages}, {{Commands: []}}]}}]\n"
    (home / "mkdocs.yml").write_text(text.replace(nav, small))
    monkeypatch.setattr(docs, "PROJECT", home)
    monkeypatch.setattr(docs, "TABLE", [each for each in cli.TABLE if each.name == "runs"])
    return home


@BUILDS
def test_the_sites_pages_are_all_of_readme_docs_labs_and_commands(site: Path) -> None:
    made = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    commands = {f"commands/{command.name}.html" for command in cli.TABLE}
    pages = {
        path.relative_to(PROJECT).with_suffix(".html").as_posix().replace("README", "index")
        for name in FOLDERS
        for path in (PROJECT / name).rglob("*.md")
    }
    assert made >= {"index.html", "CONTRIBUTING.html", "CHANGELOG.html"} | commands | pages


@BUILDS
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    assert outside_requests(site) == []
    for name in OURS:
        assert (site / name).is_file()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
@BUILDS
def test_from_disk_the_site_is_searched_and_its_console_is_silent(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as page:
        page.go(f"file://{site}/index.html")
        page.value(
            "{const box = document.querySelector('.md-search__input'); box.focus();"
            " box.value = 'halving-doubling'; box.dispatchEvent(new Event('input', {bubbles: true})); 1}"
        )
        page.wait("document.querySelectorAll('.md-search-result__item').length > 0")
        assert page.complaints == []
        assert {request.partition(":")[0] for request in page.requests} <= {"file", "data", "blob"}


@BUILDS
def test_a_site_without_a_fault_is_made(project: Path, tmp_path: Path) -> None:
    docs.build(tmp_path / "site")
    assert (tmp_path / "site" / "docs" / "other.html").is_file()


@BUILDS
@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("README.md", "[there](docs/other.md#gone)"),
        ("README.md", "[there](docs/gone.md)"),
        ("docs/unlisted.md", "# In no section"),
    ],
)
def test_a_link_that_leads_nowhere_or_a_page_in_no_section_is_an_error(
    page: str, text: str, project: Path, tmp_path: Path
) -> None:
    (project / page).write_text(text)
    with pytest.raises(ValueError, match="lead nowhere"):
        docs.build(tmp_path / "site")


def test_a_folder_that_holds_something_else_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit) as left:
        cli.main(["docs", "--site", str(tmp_path)])
    assert left.value.code == 1
    assert "holds something other than a site" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_without_mkdocs_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SystemExit):
        cli.main(["docs"])
    assert capsys.readouterr().err == "gradwire: MkDocs is not installed; run: ./gradwire setup --docs\n"


def test_what_a_page_loads_from_elsewhere_is_found_and_what_it_links_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://x.example/"></a><link href="//f.example/f.css"><script src="s.js"></script>'
        '<img src="https://i.example/i.png">'
    )
    assert outside_requests(tmp_path) == ["a.html: //f.example/f.css", "a.html: https://i.example/i.png"]


def test_help_texts_stay_text_on_a_commands_page() -> None:
    options = (("-n, --n N", "of [a](b), `d_e`\nand _c_"),)
    page = Page("gradwire x", "gradwire x A_B", ("a*b*c <i>",), {"Options": options}, ("./gradwire x *_*",))
    text = command_page(page)
    assert "a\\*b\\*c \\<i\\>" in text
    assert ":   of \\[a\\](b), `d_e`<br>and \\_c\\_" in text
    assert "```sh\n./gradwire x *_*\n```" in text


def test_the_navigation_names_every_page_of_docs_once() -> None:
    named = re.findall(r"\bdocs/[\w-]+\.md\b", (PROJECT / "mkdocs.yml").read_text())
    assert sorted(named) == sorted(f"docs/{path.name}" for path in (PROJECT / "docs").glob("*.md"))
