"""The analysis page has its figures, needs nothing else, lets nothing hostile through, and stays small."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise, permutations
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from markupsafe import escape

from gradwire.tools import dygraphs
from gradwire.tools.cli import main
from gradwire.tools.dygraphs import load_library
from gradwire.tools.exits import FAULT
from gradwire.tools.inspection.cells import MAX_ROWS
from gradwire.tools.inspection.charts import chart_data
from gradwire.tools.inspection.page import heat_map, page, write_page
from gradwire.tools.pageparts import as_script
from gradwire.traces.analysis.analysis import Analysis, analyse, analyse_flows, window_ns
from gradwire.traces.analysis.bursts import Series, rates
from gradwire.traces.analysis.exposure import Span
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job
from tests.made_analysis import ADDRESSES, made_analysis, made_flow

SAMPLES = Path(__file__).parents[3] / "traces" / "samples"
HOSTILE = "<script>alert('x')</script>"
VOID = {"meta", "input", "br"}


class Parsed(HTMLParser):
    """Elements and text; an end tag that closes another element than the last open one is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if self.elements[-1][1].get("id") == "data":
                self.data += data
        elif not self.open or self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def resnet() -> Analysis:
    return analyse(find_job(open_trace([SAMPLES / "ddp_gloo_4_resnet18_tso"])))


def test_the_page_says_what_the_job_did(resnet: Analysis) -> None:
    text = Parsed(page(resnet)).text
    events = json.loads((SAMPLES / "ddp_gloo_4_resnet18_tso" / "log.r0.json").read_text())["events"]
    buckets = [event["n"] for event in events if event["k"] == "bucket_ready"]
    assert set(buckets) == {44_726_568, 9_461_800, 26_494_976, 8_769_792}
    for shown in ("44.7 MB", "9.46 MB", "26.5 MB", "8.77 MB"):
        assert shown in text
    assert "4 ranks, gloo, allreduce" in text
    for heading in (
        "What each rank did",
        "Collectives",
        "Who sent how much",
        "Flows",
        "How bursty",
        "How sure",
    ):
        assert heading in text


def test_the_timeline_ends_an_allreduce_when_the_ranks_log_says(resnet: Analysis) -> None:
    log = json.loads((SAMPLES / "ddp_gloo_4_resnet18_tso" / "log.r0.json").read_text())["events"]
    done_ns = next(e["t"] for e in log if e["k"] == "bucket_done" and e["it"] == 0)
    _, start_us, time_us, *_ = next(
        one for one in chart_data(resnet)["moved"] if one[4].startswith("allreduce 44.7 MB")
    )
    assert resnet.origin_ns / 1e3 + start_us + time_us == pytest.approx(done_ns / 1e3, abs=30_000)


def test_spans_of_a_rank_neither_overlap_nor_leave_the_plot(resnet: Analysis) -> None:
    data = chart_data(resnet)
    spans = data["spans"]
    for rank in range(4):
        some = [i for i, r in enumerate(spans["rank"]) if r == rank]
        assert some
        for one, following in pairwise(some):
            assert spans["start"][one] + spans["time"][one] <= spans["start"][following] + 1e-3
        assert data["begin"] <= spans["start"][some[0]]
        assert spans["start"][some[-1]] + spans["time"][some[-1]] <= data["end"]


def test_nothing_is_fetched_from_anywhere(resnet: Analysis) -> None:
    text = page(resnet)
    parsed = Parsed(text)
    assert not {"link", "img", "iframe", "object", "embed"} & {tag for tag, _ in parsed.elements}
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "action"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in text
    assert "@import" not in text
    policy = next(a["content"] for _, a in parsed.elements if "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    library = load_library()
    # The library could fetch a CSV file by its address; the policy above forbids that, and we give it none.
    ours = text.replace(library.script, "").replace(str(escape(library.licence)), "")
    assert len(ours) < len(text) - len(library.script) - len(library.licence)
    assert re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|sendBeacon)\b", ours) is None
    assert "://" not in ours
    assert "sourceMappingURL" not in text


def test_the_librarys_licence_is_in_every_page_to_be_read() -> None:
    text = Parsed(page(made_analysis())).text
    assert Path("/usr/share/doc/libjs-dygraphs/copyright").read_text(encoding="utf-8").strip() in text
    assert "Permission is hereby granted, free of charge, to any person" in text


def test_a_missing_library_is_named_before_a_capture_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dygraphs, "SCRIPT", tmp_path / "dygraph.min.js")
    with pytest.raises(SystemExit) as left:
        main(["inspect", str(tmp_path / "no-such.pcap"), "--html", str(tmp_path / "page.html")])
    assert left.value.code == FAULT
    assert capsys.readouterr().err == (
        f"gradwire: {tmp_path}/dygraph.min.js is missing: the page's charts need the Debian package "
        "libjs-dygraphs: run sudo ./gradwire setup\n"
    )


def test_text_from_captures_stays_text(tmp_path: Path) -> None:
    made = made_analysis()
    hostile = replace(
        made,
        name=HOSTILE,
        addresses=(HOSTILE, HOSTILE + "2"),
        notes=(f"{HOSTILE}: {HOSTILE}",),
        files=(replace(made.files[0], path=Path(HOSTILE), host=HOSTILE),),
        traffic=(replace(made.traffic[0], framing=HOSTILE, evidence=HOSTILE),),
        transfers=tuple(replace(one, kind=HOSTILE, algorithm=HOSTILE) for one in made.transfers),
        rates=tuple(replace(one, host=HOSTILE) for one in made.rates),
        flows=(made_flow(framing=HOSTILE, src=HOSTILE),),
    )
    write_page(hostile, tmp_path / "page.html")
    parsed = Parsed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert sum(tag == "script" for tag, _ in parsed.elements) == 4
    assert parsed.text.count(HOSTILE) > 8
    assert HOSTILE in json.loads(parsed.data)["ranks"][0]
    assert "<" not in as_script({"a": "</script><!--"})


def test_a_table_is_sorted_by_numbers_where_it_shows_units(resnet: Analysis) -> None:
    text = page(resnet)
    table = text[text.index('id="table-transfers"') :]
    table = table[: table.index("</table>")]
    assert '<td class="n" data-k="44726568" title="44,726,568 bytes">44.7 MB</td>' in table
    assert table.count("<button") == 12


def test_a_section_without_data_says_why() -> None:
    trace = open_trace([SAMPLES / "ps_1srv_4wk"])
    made = analyse_flows(trace, "no gloo traffic in 5 packets")
    text = Parsed(page(made)).text
    assert "No training was recognised: no gloo traffic in 5 packets." in text
    assert "No timeline of ranks: no gloo traffic in 5 packets." in text
    assert "Nothing to show: no training was recognised" in text
    assert "10.77.0.1:" in text  # the flows are there


@pytest.mark.long
def test_many_flows_and_spans_leave_the_page_below_ten_megabytes() -> None:
    made = made_analysis()
    large = replace(
        made,
        flows=tuple(made_flow(n) for n in range(65_000)),
        spans=tuple(Span(n % 2, n // 1000, "compute", n * 1000, n * 1000 + 900) for n in range(200_000)),
        transfers=made.transfers[:1] * 100_000,
        incasts=made.incasts * 100_000,
        rates=tuple(
            replace(made.rates[0], host=f"10.1.{n // 250}.{n % 250}", bps=(123_456_789.0,) * 4000)
            for n in range(100)
        ),
    )
    text = page(large)
    assert len(text.encode()) < 10_000_000
    for sentence in (
        f"{65_000 - MAX_ROWS:,} more are in the files that",
        "The first 60,000 of 200,000 spans are drawn",
        "hosts that moved most are drawn of 100",
    ):
        assert sentence in text
    assert text.count("<tr>") < 6 * MAX_ROWS


def test_the_page_stays_small_if_hosts_were_seen_thirty_years_apart() -> None:
    """Each host needs one window, and the time between them millions if these are 100 s."""
    late_ns = 30 * 365 * 86_400 * 10**9
    time_ns, nbytes = np.array([0, 10**6, 2 * 10**6]), np.full(3, 1000)
    series = [Series(host, "out", time_ns + n * late_ns, nbytes) for n, host in enumerate(ADDRESSES)]
    made = replace(made_analysis(), rates=rates(series, window_ns(late_ns)))
    begin = perf_counter()
    data = chart_data(made)
    assert len(as_script(data)) < 1_000_000
    assert perf_counter() - begin < 2
    assert [len(host["out"]) for host in data["rates"]] == [len(data["at"])] * 2
    assert len(page(made).encode()) < 1_000_000 + len(page(made_analysis()).encode())


def test_rates_of_mixed_lengths_are_drawn_at_their_times() -> None:
    """One host is seen for 300 s; the other in an instant, 50 s after the first packet of all."""
    long = Series("10.0.0.8", "out", np.array([0, 300 * 10**9]), np.full(2, 10**9))
    short = Series("10.0.0.9", "out", np.array([50 * 10**9]), np.full(1, 10**9))
    for both in permutations([long, short]):
        data = chart_data(replace(made_analysis(), rates=rates(both, 10**6)))
        at_s = {
            host["name"]: [at / 1e6 for at, mbps in zip(data["at"], host["out"], strict=True) if mbps]
            for host in data["rates"]
        }
        assert at_s == {"10.0.0.8": [0, 300], "10.0.0.9": [50]}


def test_a_matrix_is_drawn_in_shades_of_its_largest_pair() -> None:
    drawn = heat_map(made_analysis())
    assert [[cell.shade for cell in row] for row in drawn.rows] == [[0, 1.0], [0.5, 0]]
    assert drawn.unit == "MB"
    assert drawn.rows[0][1].hint == "rank 0 to rank 1: 2,000,000 bytes"
    many = replace(made_analysis(), matrix_nbytes=((1,) * 200,) * 200)
    assert heat_map(many).rows == ()


def test_the_scale_of_rates_is_that_of_the_training_and_set_up_beyond_it_is_named() -> None:
    made = made_analysis()
    (rates,) = made.rates
    loud = replace(made, rates=(replace(rates, start_ns=-20_000_000, bps=(9e9, 0.0, 5e8, 0.0)),))
    assert chart_data(loud)["most_rate"] == 500
    assert "The scale fits the training; set-up went up to 9 Gb/s." in Parsed(page(loud)).text
    assert chart_data(made)["most_rate"] == 500
    assert "set-up went up to" not in Parsed(page(made)).text


def test_a_bar_says_which_collective_it_is(resnet: Analysis) -> None:
    kinds = {(one[5], one[3]) for one in chart_data(resnet)["moved"]}
    assert ("allreduce", "44.7 MB") in kinds
