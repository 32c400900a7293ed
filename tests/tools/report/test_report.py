"""The report page shows every cell, needs nothing else, and lets nothing hostile through."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape

from gradwire.emu import records
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import parse_failures
from gradwire.planning.plan import BadPlan
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.results.verdict import Verdict
from gradwire.tools.drawing.svg import SHADES
from gradwire.tools.dygraphs import load_library
from gradwire.tools.report.cells import MOST_LINKS
from gradwire.tools.report.page import facts, write_report
from tests.made_counters import switches_json, write_counters
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan
from tests.made_runs import made_run, sample_ports

TREE = "fat-tree:k=4,levels=2,rate=50M"
BIGRAPH = "bigraph:n=4,m=2,rate=50M"
HOSTILE = "<script>alert('x')</script>"
VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Page(HTMLParser):
    """The elements of a page; an end tag that closes another element than the last open one is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if not self.open or self.open[-1] not in ("style", "script") else ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def report(tmp_path: Path, rows: Sequence[Row], title: str = "A title") -> str:
    path = tmp_path / "report.html"
    write_report(path, title, ["What was done."], rows)
    return path.read_text(encoding="utf-8")


def table(text: str, style: str) -> list[list[str]]:
    """The texts of a table's cells, row by row, with one space where there is white space."""
    found = re.search(rf'<table class="{style}[^>]*>(.*?)</table>', text, re.DOTALL)
    assert found
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", found[1], re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in row] for row in cells]


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Two fabrics, one cell refused, one not valid."""
    tree = made_run(tmp_path / "a", allreduce_plan(TREE, "ring", nbytes=MIB), (0.33, 0.35, 0.34))
    invalid = Verdict(valid=False, reasons=("CPU idle only 3%",), warnings=("one note",))
    plan = allreduce_plan(TREE, "halving-doubling", "random", nbytes=MIB)
    lied = made_run(tmp_path / "b", plan, (0.7, 0.8, 0.9), invalid)
    refused = replace(
        tree, placement="hdrm", verdict=REFUSED, time_s=None, ratio=None, reasons=("no BiGraph",), folder=None
    )
    plan = allreduce_plan(BIGRAPH, "halving-doubling", "hdrm", "direct", nbytes=MIB)
    return [tree, lied, refused, made_run(tmp_path / "c", plan, (0.32, 0.31, 0.325))]


def test_the_page_is_well_formed_and_shows_every_cell(tmp_path: Path, rows: list[Row]) -> None:
    page = Page(report(tmp_path, rows))
    assert {"What was done.", "A title"} <= set(map(str.strip, page.text.split("\n")))
    anchors = {a["id"] for a in page.all("div") if "id" in a}
    assert anchors == {"cell-1", "cell-2", "cell-4"}
    assert {a["href"] for a in page.all("a")} == {f"#{anchor}" for anchor in anchors}
    for row in rows:
        assert f"{row.algorithm}, {row.placement}, {row.routes}" in page.text
    assert page.text.count("340 ms") >= 3  # in the chart, the table and its own part


def test_fabrics_are_beside_each_other_in_a_grid_whose_best_cell_is_marked(
    tmp_path: Path, rows: list[Row]
) -> None:
    grid = table(report(tmp_path, rows), "matrix")
    assert grid[0] == ["algorithm, placement, routes", TREE, BIGRAPH]
    assert grid[1] == ["ring, linear, ecmp", "340 ms 1.11×", "–"]
    assert grid[2] == ["halving-doubling, random, ecmp", "800 ms 2.61× not valid", "–"]
    assert grid[3] == ["ring, hdrm, ecmp", "refused", "–"]
    assert grid[4] == ["halving-doubling, hdrm, direct", "–", "320 ms 1.04× best"]


def test_a_refused_cell_is_shown_with_its_reason_and_a_doubtful_one_with_its(
    tmp_path: Path, rows: list[Row]
) -> None:
    text = Page(report(tmp_path, rows)).text
    assert "no BiGraph" in text
    assert "not valid: CPU idle only 3%" in text
    assert "note: one note" in text


def test_the_page_says_which_share_of_full_frames_is_payload_on_which_fabric(tmp_path: Path) -> None:
    plain = made_run(tmp_path / "a", allreduce_plan(TREE))
    jumbo = made_run(tmp_path / "b", allreduce_plan(f"{TREE},mtu=9000"))
    text = Page(report(tmp_path, [plain])).text
    assert "of which 95.6 % is payload" in text
    text = Page(report(tmp_path, [plain, jumbo])).text
    assert "of which 95.6 % with an MTU of 1500, 99.3 % with an MTU of 9000 is payload" in text
    shares = re.findall(r"0\.9500\s*([\d.]+) %", text)  # of one flow alone, of what full frames could carry
    assert shares == [f"{95 / 1448 * 1514:.1f}", f"{95 / 8948 * 9014:.1f}"]


def test_what_hosts_do_in_place_of_switches_is_shown_with_why(tmp_path: Path) -> None:
    plan = replace(allreduce_plan(TREE, "ring"), host_side=("job 1 of 1: no slots are left",))
    row = made_run(tmp_path / "01", plan)
    assert not row.reasons + row.warnings
    assert "note: done by the hosts: job 1 of 1: no slots are left" in Page(report(tmp_path, [row])).text


def test_the_page_says_how_long_adaptive_routes_went_on_moving_flows(tmp_path: Path) -> None:
    row = made_run(tmp_path / "run", allreduce_plan(TREE, "ring", routes="adaptive"))
    moved = replace(row, settled_s=Spread(0.5, 0.5, 0.5))
    assert "note: flows moved until 500 ms after the start" in Page(report(tmp_path, [moved])).text
    assert "flows moved until" not in Page(report(tmp_path, [row])).text


def test_the_page_needs_nothing_from_outside(tmp_path: Path, rows: list[Row]) -> None:
    sample_ports(tmp_path / "a", [{Egress("leaf0", 3): (2_119_600, 1400)}] * 3)
    text = report(tmp_path, rows)
    library = load_library()
    assert library.script in text  # there is a chart
    ours = text.replace(library.script, "").replace(str(escape(library.licence)), "")
    assert set(re.findall(r"https?://[^\"'\s<>)]+", ours)) == {"http://www.w3.org/2000/svg"}
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert not [a for _, a in page.elements if "src" in a or any(name.startswith("on") for name in a)]
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    assert (
        re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|sendBeacon)\b|url\(|@import|\{\{", ours)
        is None
    )


def test_a_page_without_anything_to_draw_over_time_carries_no_library(
    tmp_path: Path, rows: list[Row]
) -> None:
    assert load_library().script not in report(tmp_path, rows)


def test_hosts_are_labelled_by_the_rank_placed_on_them(tmp_path: Path) -> None:
    plan = allreduce_plan(TREE, placement="random", seed=3, nbytes=MIB)
    text = report(tmp_path, [made_run(tmp_path / "a", plan)])
    for rank, host in enumerate(plan.placement):
        assert re.search(rf">{host}</text>\s*<text[^>]*>rank {rank}</text>", text)


def test_the_shade_of_a_link_is_that_of_its_share_of_the_time(tmp_path: Path) -> None:
    row = made_run(tmp_path / "a", allreduce_plan(TREE, nbytes=MIB), (1.0,))
    frames = 50_000_000 // 8 // 1514  # of a second at 50 Mb/s
    shares = {Egress("leaf0", 3): 0.3, Egress("leaf1", 3): 0.6, Egress("leaf2", 3): 0.9}
    counts = {end: (int(share * frames) * 1514, int(share * frames)) for end, share in shares.items()}
    sample_ports(tmp_path / "a", [counts])
    text = report(tmp_path, [row])
    for leaf, share in enumerate(shares.values()):
        found = re.search(
            rf'<title>leaf{leaf}→spine0, 50 Mb/s: busy (\d+)%[^<]*</title>\s*<line class="hit"[^>]*>'
            r'<line class="lane load(\d)"',
            text,
        )
        assert found
        assert int(found[1]) == pytest.approx(100 * share, abs=1)
        assert int(found[2]) == next(i for i, (most, _) in enumerate(SHADES) if share <= most)


def test_a_link_tells_its_bytes_flows_and_share(tmp_path: Path) -> None:
    row = made_run(tmp_path / "a", allreduce_plan("star:hosts=2", nbytes=1_448_000), (1.0,))
    title = "h0→switch0, 100 Mb/s: busy 12% of the time, 1.51 MB, 1 flow, 1 at once"
    assert f"<title>{title}</title>" in report(tmp_path, [row])


def test_a_link_that_nothing_was_counted_at_is_told_to_be_idle(tmp_path: Path) -> None:
    plan = schedule_plan("star:hosts=3", messages(3, [(0, 1, 1_448_000)]))
    text = report(tmp_path, [made_run(tmp_path / "a", plan, (1.0,))])
    assert "<title>h2→switch0: idle</title>" in text
    assert "<title>h0→switch0: idle</title>" not in text


def test_the_bounding_link_is_in_the_table_although_others_are_busier(tmp_path: Path) -> None:
    plan = allreduce_plan(TREE, "halving-doubling", nbytes=MIB)
    row = made_run(tmp_path / "a", plan, (1.0,))
    assert row.worst_link_flows == 2
    page = report(tmp_path, [row])
    table = page[page.index("<caption>Busiest links") : page.index("<caption>Ranks")]
    assert table.count("<tr") == 1 + MOST_LINKS
    assert re.findall(r'<tr class="bounds"><th scope="row">([^<]*)<', table) == [row.worst_link]


def test_the_page_says_how_many_repeats_may_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_LEFT_OUT", 17)
    row = made_run(tmp_path / "a", allreduce_plan("star:hosts=2", nbytes=MIB))
    assert "at most 17 times" in report(tmp_path, [row])


def test_text_from_captures_and_files_stays_text(tmp_path: Path) -> None:
    plan = replace(allreduce_plan(TREE, nbytes=MIB), source=HOSTILE, algorithm=HOSTILE)
    verdict = Verdict(valid=False, reasons=(HOSTILE,), warnings=(HOSTILE,))
    row = made_run(tmp_path / "a", plan, verdict=verdict, source=HOSTILE)
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text(json.dumps({HOSTILE: {HOSTILE: [HOSTILE]}, "plan_sha256": [HOSTILE]}))
    text = report(tmp_path, [row, replace(row, verdict=REFUSED, time_s=None, folder=None)], title=HOSTILE)
    assert HOSTILE not in text
    assert Page(text).text.count(HOSTILE) > 8


def test_a_host_that_the_fabric_does_not_have_is_refused_before_it_is_shown(tmp_path: Path) -> None:
    row = made_run(tmp_path / "a", allreduce_plan("star:hosts=2", nbytes=MIB))
    path = tmp_path / "a" / "plan.json"
    path.write_text(path.read_text().replace('"placement": ["h0"', f'"placement": ["{HOSTILE}"'))
    with pytest.raises(BadPlan, match="is not a host of star:hosts=2"):
        report(tmp_path, [row])
    assert not (tmp_path / "report.html").exists()


def test_the_fastest_and_the_slowest_valid_cell_are_open(tmp_path: Path) -> None:
    plan = allreduce_plan("star:hosts=2", nbytes=MIB)
    rows = [made_run(tmp_path / str(n), plan, (t,)) for n, t in enumerate((0.3, 0.1, 0.2, 0.4))]
    rows[3] = replace(rows[3], verdict="not valid")
    details = Page(report(tmp_path, rows)).all("details")
    assert ["open" in attributes for attributes in details] == [True, True, False, False]


def test_sizes_have_a_chart_each(tmp_path: Path) -> None:
    plans = [allreduce_plan("star:hosts=2", nbytes=nbytes) for nbytes in (MIB, MIB, 16 * MIB)]
    rows = [made_run(tmp_path / str(n), plan, (0.1,)) for n, plan in enumerate(plans)]
    page = Page(report(tmp_path, rows))
    assert [a.get("class") for a in page.all("svg")].count("bars") == 2
    assert "16.8 MB per rank" in page.text


def test_eight_cells_of_sixteen_hosts_stay_below_a_megabyte(tmp_path: Path) -> None:
    plans = [allreduce_plan(spec, placement="random") for spec in ("fat-tree:k=4", "bigraph:n=8,m=2")]
    rows = [made_run(tmp_path / str(n), plans[n % 2], (4.0 + n,)) for n in range(8)]
    assert len(report(tmp_path, rows).encode()) < 1_000_000


def test_nothing_but_refusals_still_makes_a_page(tmp_path: Path, rows: list[Row]) -> None:
    page = Page(report(tmp_path, [row for row in rows if row.verdict == REFUSED]))
    assert "no BiGraph" in page.text
    assert page.all("svg") == page.all("details") == []


def test_what_manifests_share_is_said_once_and_what_they_do_not_with_the_cells() -> None:
    manifests = {1: {"cpus": 2, "transport": {"gso": 5}}, 3: {"cpus": 2, "transport": {"gso": 9}}}
    manifests[4] = manifests[3]
    assert facts(manifests) == [
        ("cpus", "2"),
        ("transport: gso", "5 (cell 1)"),
        ("transport: gso", "9 (cells 3, 4)"),
    ]


def test_the_congestion_control_of_loopback_is_not_taken_for_that_of_the_ranks() -> None:
    sysctls = {"net/ipv4/tcp_congestion_control": "reno"}
    ((name, value),) = facts({1: {"host_sysctls": sysctls}})
    assert (name, value) == ("host sysctls: net/ipv4/tcp congestion control (of loopback alone)", "reno")


def test_a_failure_is_marked_and_told_with_what_was_done_about_it(tmp_path: Path) -> None:
    plan = allreduce_plan(TREE)
    failing = replace(plan, failures=parse_failures("leaf0-spine1@0.25,0.5", plan.fabric))
    row = made_run(tmp_path / "run", failing)
    start_ns, done_ns = 10**12, 10**12 + 250_000_000
    port = failing.failures[0].port
    where = {"repeat": 0, "cable": "leaf0-spine1", "switch": port.node, "port": port.port}
    times = {"start_ns": start_ns, "due_ns": done_ns, "done_ns": done_ns}
    (tmp_path / "run" / "failures.json").write_text(json.dumps([{**where, "event": "down", **times}]))
    lines = [
        {"time_ns": done_ns + 2_000_000, "event": "port_down", "switch": port.node, "port": port.port},
        {"time_ns": done_ns + 30_000_000, "event": "rerouted", "flows": 17},
    ]
    (tmp_path / "run" / "control.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Page(report(tmp_path, [row]))
    title = "leaf0-spine1 down from 0.25 s to 0.5 s"
    assert f"In 1 cell by plan: {title}" in page.text
    assert [attributes.get("class") for attributes in page.all("g")].count("failure") == 1
    assert "Cables that failed, in this repeat" in page.text
    assert all(figure in page.text for figure in ("+2 ms", "+30 ms", "17"))


def test_each_run_tells_whether_its_counters_agree_with_its_plan_and_why_it_is_slow(tmp_path: Path) -> None:
    plan = allreduce_plan("bigraph:n=4,m=2", "halving-doubling", routes="direct", nbytes=MIB)
    why = "upper0→lower0 carries twice what a host link does"
    good, bad = (replace(made_run(tmp_path / name, plan), why=why) for name in ("good", "bad"))
    write_counters(tmp_path / "good", switches_json(plan))
    value = switches_json(plan)
    value["flows"][0].update(packets=0, bytes=0)
    write_counters(tmp_path / "bad", value)
    text = report(tmp_path, [good, bad])
    assert text.count("Counted bytes agree with the plan on all 24 links") == 1
    assert text.count("Counted bytes do not agree with the plan: r") == 1
    assert text.count(f"Why it takes longer than the hosts' links need: {why}.") == 2  # the row's, as stored


def test_fidelity_is_on_the_page_where_a_row_has_one(tmp_path: Path) -> None:
    row = made_run(tmp_path / "run", allreduce_plan(TREE))
    assert "fidelity" not in report(tmp_path, [row])
    text = report(tmp_path, [replace(row, fidelity=0.934)])
    assert Page(text).text.count("fidelity") == 1
    assert '<td class="n" data-k="0.934">0.93</td>' in text
