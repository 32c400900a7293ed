"""The pages in a browser: charts zoom, tables sort, nothing is asked of anybody, and nothing complains."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.tools.inspection.page import write_page
from gradwire.tools.report.page import write_report
from gradwire.tools.work.sweep import run_study
from tests.browser import Page, browser
from tests.made_analysis import made_analysis
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run, sample_ports

pytestmark = pytest.mark.browser

DRAWN = "document.querySelector('#curves canvas').toDataURL()"  # the more is drawn, the longer
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    """Three sizes of two algorithms, ports sampled, one cell not valid; and a refused one."""
    rows = []
    for n, (algorithm, size) in enumerate([(a, s) for a in ("ring", "halving-doubling") for s in (1, 2, 4)]):
        plan = allreduce_plan("fat-tree:k=4,levels=2,rate=50M", algorithm, nbytes=size * MIB)
        row = made_run(folder / str(n), replace(plan, source=HOSTILE), (0.5 * size + 0.1 * n,))
        sample_ports(folder / str(n), [{Egress("leaf0", 3): (size * 2_119_600, size * 1400)}])
        rows.append(replace(row, algorithm=algorithm))
    rows[0] = replace(rows[0], verdict="not valid", reasons=(HOSTILE,))
    rows.append(replace(rows[1], verdict="refused", time_s=None, ratio=None, bytes=0, folder=None))
    write_report(folder / "report.html", "A report", [HOSTILE], rows)
    return folder / "report.html"


@pytest.fixture(scope="module")
def inspected(folder: Path) -> Path:
    made = made_analysis()
    write_page(replace(made, addresses=(HOSTILE, "10.0.0.2"), name=HOSTILE), folder / "inspect.html")
    return folder / "inspect.html"


@pytest.fixture(scope="module")
def study(folder: Path) -> Path:
    """Two sizes and two algorithms planned with two seeds, as curves and as bars."""
    path = folder / "study.yaml"
    path.write_text(
        "name: two sizes\nmode: plan\n"
        "job: {bench: allreduce, begin: 64KiB, end: 1MiB, factor: 16, ranks: 4}\n"
        "fabric: star:hosts=4,rate=50M\nalgorithm: [ring, all-pairs]\nseeds: 0..1\nplot:\n"
        f"  - {{y: [time, bound], x: size, log: true, title: '{HOSTILE}'}}\n"
        "  - {y: ratio, x: algorithm, where: {size: 1MiB}}\n"
    )
    assert run_study(path, folder / "swept", 1, as_json=True) == 0
    return folder / "swept" / "study.html"


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[Page]:
    """One browser for all tests; in the end nobody may have complained, or been asked for anything else."""
    with browser(folder / "profile") as page:
        yield page
        assert page.complaints == []
        ours = [(folder / name).as_uri() for name in ("report.html", "inspect.html", "swept/study.html")]
        assert set(page.requests) == set(ours)


@pytest.fixture
def opened(tab: Page) -> Callable[[Path], Page]:
    def go(path: Path) -> Page:
        tab.go("about:blank")
        tab.go(path.as_uri())
        return tab

    return go


def drag(page: Page, selector: str, begin: float, end: float) -> None:
    """Over the middle of an element, from one share of its width to another."""
    box = page.value(
        f"(({{x, y, width, height}}) => [x, y, width, height])({one(selector)}.getBoundingClientRect())"
    )
    left, top, width, height = box
    for kind, share in (
        ("mousePressed", begin),
        ("mouseMoved", (begin + end) / 2),
        ("mouseMoved", end),
        ("mouseReleased", end),
    ):
        page.ask(
            "Input.dispatchMouseEvent",
            type=kind,
            x=left + share * width,
            y=top + height / 2,
            button="left",
            buttons=0 if kind == "mouseReleased" else 1,
            clickCount=1,
        )


def one(selector: str) -> str:
    return f"document.querySelector({selector!r})"


def column(page: Page, number: int) -> list[str]:
    rows = "[...document.querySelectorAll('#table-figures tbody tr:first-child')]"
    found: list[str] = page.value(f"{rows}.map(row => row.cells[{number}].textContent)")
    return found


@pytest.mark.long
def test_a_click_on_a_heading_sorts_cells_with_their_notes(
    report: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(report)
    assert column(page, 0) == list("1234567")
    headings = "[...document.querySelectorAll('#table-figures thead button')]"
    heading = f"{headings}.find(one => one.textContent === 'time')"
    page.value(f"{heading}.click()")
    assert column(page, 0) == list("6352417")  # 2.5, 2.2, 1.4, 1.1, 0.8 and 0.5 s, and none
    note = "document.querySelector('#table-figures .notes').parentElement.rows[0].cells[0].textContent"
    assert page.value(note) == "1"
    page.value(f"{heading}.click()")
    assert column(page, 0) == list("1425367")


def test_curves_have_a_dot_for_each_size_and_leave_when_their_box_is_unticked(
    report: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(report)
    assert page.value("document.querySelectorAll('#curves canvas').length") == 2
    both = len(page.value(DRAWN))
    page.value("document.querySelector('#curves [data-series]').click()")
    assert len(page.value(DRAWN)) < both


def test_a_study_has_a_curve_for_each_series_that_leaves_when_its_box_is_unticked(
    study: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(study)
    assert page.value("document.querySelectorAll('[data-plot] canvas').length") == 2
    assert page.value("[...document.querySelectorAll('[data-plot] label')].map(one => one.textContent)") == [
        f"{algorithm}, {y}" for algorithm in ("ring", "all-pairs") for y in ("time", "bound")
    ]
    assert page.value("document.querySelectorAll('rect.series').length") == 2
    drawn = "document.querySelector('[data-plot] canvas').toDataURL()"
    whole = page.value(drawn)
    page.value("document.querySelectorAll('[data-series]').forEach(box => box.click())")
    assert len(page.value(drawn)) < len(whole)


def test_a_click_on_a_cell_of_the_grid_opens_what_it_leads_to(
    report: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(report)
    closed = page.value("document.querySelector('details:not([open]) .cell').id")
    assert page.value(f"document.querySelectorAll('#{closed} canvas').length") == 0
    page.value(f"document.querySelector('.matrix a[href=\"#{closed}\"]').click()")
    assert page.value(f"document.querySelector('#{closed}').closest('details').open")
    page.wait(f"document.querySelectorAll('#{closed} canvas').length === 2")


def test_after_a_zoom_by_dragging_the_tooltip_is_of_what_is_under_the_pointer_now(
    inspected: Path, opened: Callable[[Path], Page]
) -> None:
    """The rank computes until half of an iteration: of 0 to 100 ms, then of 100 to 400 ms."""
    page = opened(inspected)
    drag(page, "#timeline", 0.3, 0.97)
    found = page.value(
        "[...document.querySelectorAll('#timeline .tip')]"
        ".filter(one => !one.hidden).map(one => one.textContent)"
    )
    assert len(found) == 1
    assert "iteration 1" in found[0]


def test_hostile_names_stay_text_in_charts_and_tables(
    report: Path, inspected: Path, study: Path, opened: Callable[[Path], Page]
) -> None:
    for path in (report, inspected, study):
        page = opened(path)
        assert page.value("document.images.length") == 0
        assert HOSTILE in page.value("document.body.textContent")


# Where the words of tables' titles end, and not their boxes, which may be narrower.
TITLE_ENDS = """[...document.querySelectorAll('.wide caption')].map(title => {
    const words = document.createRange();
    words.selectNodeContents(title);
    return Math.max(...[...words.getClientRects()].map(line => line.right));
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(
    report: Path, inspected: Path, study: Path, opened: Callable[[Path], Page], width: int
) -> None:
    for path in (report, inspected, study):
        page = opened(path)
        page.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        page.value("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.value("document.documentElement.scrollWidth") <= width
        assert all(end <= width for end in page.value(TITLE_ENDS))  # beside it the table goes on
    page.ask("Emulation.clearDeviceMetricsOverride")


def test_paper_is_white_also_for_who_reads_in_the_dark(
    report: Path, inspected: Path, study: Path, opened: Callable[[Path], Page]
) -> None:
    colours = "['--page', '--ink'].map(name => getComputedStyle(document.body).getPropertyValue(name))"
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    for path in (report, inspected, study):
        page = opened(path)
        page.ask("Emulation.setEmulatedMedia", media="screen", features=dark)
        assert page.value(colours) == ["#14171d", "#e4e7ec"]
        page.ask("Emulation.setEmulatedMedia", media="print", features=dark)
        assert page.value(colours) == ["#fff", "#1d2129"]
    page.ask("Emulation.setEmulatedMedia", media="", features=[])


def test_on_paper_nothing_is_drawn_again_and_charts_fit_a_page(
    report: Path, opened: Callable[[Path], Page]
) -> None:
    """Chromium leaves out what a script draws while a page is printed."""
    page = opened(report)
    page.value("dispatchEvent(new Event('beforeprint'))")
    before = page.value(DRAWN)
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.value("pageCharts.colours.page") == "#fff"
    assert page.value(DRAWN) == before
    assert page.value("document.querySelector('#curves .chart').getBoundingClientRect().width") <= 1000
    page.value("dispatchEvent(new Event('afterprint'))")
    page.ask("Emulation.setEmulatedMedia", features=[])


def test_the_sizes_of_a_curve_are_told(report: Path, opened: Callable[[Path], Page]) -> None:
    assert "3 sizes from 1.05 MB to 4.19 MB each" in opened(report).value("document.body.innerText")


def test_charts_drawn_on_a_dark_page_are_light_on_paper(report: Path, opened: Callable[[Path], Page]) -> None:
    page = opened(report)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    style = f"getComputedStyle({one('.chart')}).filter"
    page.ask("Emulation.setEmulatedMedia", features=dark)
    page.wait("pageCharts.colours.page === '#14171d'")
    assert page.value(style) == "none"
    page.ask("Emulation.setEmulatedMedia", media="print", features=dark)
    assert page.value(style).startswith("invert(1)")
    page.ask("Emulation.setEmulatedMedia", media="", features=[])


def test_charts_follow_the_readers_colours(report: Path, opened: Callable[[Path], Page]) -> None:
    page = opened(report)
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait("pageCharts.colours.page === '#14171d'")
    assert page.value(f"getComputedStyle({one('.dygraph-axis-label')}).color") == "rgb(154, 164, 178)"
    page.ask("Emulation.setEmulatedMedia", features=[])
    page.wait("pageCharts.colours.page === '#fff'")
