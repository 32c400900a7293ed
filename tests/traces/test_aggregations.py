"""What `inspect` says of in-network aggregation, of captures that Scapy wrote."""

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from gradwire.tools import cli
from gradwire.tools.dissect.scapy_layer import GradwireAggregation
from gradwire.traces.analysis.aggregations import MAX_HOSTS, AggregationJob, aggregations
from gradwire.traces.framing.aggregation import PacketKind
from gradwire.traces.packets.capture import read_capture
from tests.made_captures import Record, pcap, udp

SWITCH, DOWN = "10.0.255.254", "10.0.255.255"
MS = 1_000_000


def up(host: str, at_ms: float, layer: GradwireAggregation, port: int = 0xBEE0, ip_id: int = 0) -> Packet:
    return _at(at_ms, IP(src=host, dst=SWITCH, id=ip_id) / UDP(sport=port, dport=port) / layer)


def down(at_ms: float, layer: GradwireAggregation, port: int = 0xBEE0) -> Packet:
    return _at(at_ms, IP(src=SWITCH, dst=DOWN, id=0) / UDP(sport=port, dport=port) / layer)


def _at(at_ms: float, ip: Packet) -> Packet:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip
    packet.time = at_ms / 1000
    return packet


def given(chunk: int, n: int = 256, job: int = 1, epoch: int = 0) -> GradwireAggregation:
    return GradwireAggregation(job=job, epoch=epoch, chunk=chunk, peak=-chunk, elements=[chunk] * n)


def got(chunk: int, n: int = 256, job: int = 1, epoch: int = 0) -> GradwireAggregation:
    return GradwireAggregation(kind=PacketKind.RESULT, job=job, epoch=epoch, chunk=chunk, elements=[-1] * n)


def status(chunk: int) -> GradwireAggregation:
    return GradwireAggregation(kind=PacketKind.STATUS, job=1, chunk=chunk, count=0, seen=1)


def found(folder: Path, *files: Iterable[Packet]) -> tuple[AggregationJob, ...]:
    paths = [folder / f"h{number}.pcap" for number in range(len(files))]
    for path, packets in zip(paths, files, strict=True):
        wrpcap(str(path), list(packets))
    return aggregations([read_capture(path) for path in paths], origin_ns=0)


def host_file(host: str) -> list[Packet]:
    """Four chunks of 256 elements in 3 ms; chunk 2 is sent again, and answered by a STATUS first."""
    return [
        up(host, 1, given(0, n=0)),
        up(host, 2, given(1)),
        down(2.1, got(0, n=0)),
        up(host, 3, given(2)),
        down(3.1, got(1)),
        up(host, 3.5, given(2)),
        down(3.6, status(2)),
        up(host, 4, given(3)),
        down(4.1, got(2)),
        down(4.2, got(3)),
    ]


def test_each_hosts_contributions_are_counted_where_they_were_sent(tmp_path: Path) -> None:
    (job,) = found(tmp_path, host_file("10.0.0.1"), host_file("10.0.0.2"))
    assert (job.job, job.udp_port, job.epochs, job.last_epoch) == (1, 0xBEE0, 1, 0)
    assert (job.chunks, job.elements, job.again) == (4, 256, 2)
    assert (job.first_ns, job.last_ns) == (1 * MS, 4_200_000)
    packets = {one.kind: (one.packets, one.payload_nbytes) for one in job.kinds}
    assert packets == {
        "contribution": (10, 10 * 24 + 8 * 1024),
        "partial": (0, 0),
        "probe": (0, 0),
        "result": (8, 8 * 24 + 6 * 1024),
        "status": (2, 2 * 24),
        "epoch": (0, 0),
    }
    first, second = job.hosts
    assert (first.address, second.address) == ("10.0.0.1", "10.0.0.2")
    assert (first.contributions, first.again, first.nbytes) == (5, 1, 3 * 1024)
    assert (first.first_ns, first.last_ns) == (1 * MS, 4 * MS)
    assert first.goodput_bps == pytest.approx(3 * 1024 * 8 / 3e-3)


def test_a_host_that_two_files_have_is_counted_from_the_one_that_has_most(tmp_path: Path) -> None:
    (job,) = found(tmp_path, host_file("10.0.0.1"), host_file("10.0.0.1")[:4])
    (host,) = job.hosts
    assert (host.contributions, host.again) == (5, 1)


def test_a_chunk_of_another_epoch_is_not_the_same_again(tmp_path: Path) -> None:
    host = "10.0.0.1"
    (job,) = found(tmp_path, [up(host, 1, given(0)), up(host, 2, given(0, epoch=4)), up(host, 3, given(1))])
    assert (job.epochs, job.last_epoch, job.chunks, job.again) == (2, 4, 3, 0)


def test_what_a_switch_sends_on_is_a_partial_sum_and_no_hosts(tmp_path: Path) -> None:
    (job,) = found(tmp_path, [up("10.0.0.1", 1, given(0)), up(SWITCH, 2, given(0)), down(3, got(0))])
    assert [host.address for host in job.hosts] == ["10.0.0.1"]
    assert {one.kind: one.packets for one in job.kinds if one.packets} == {
        "contribution": 1,
        "partial": 1,
        "result": 1,
    }


def test_an_idle_hosts_question_is_no_contribution_and_its_epoch_none(tmp_path: Path) -> None:
    host = "10.0.0.1"
    asks = [up(host, at, GradwireAggregation(job=1, epoch=65535)) for at in (5, 505)]
    answers = [down(at + 0.1, GradwireAggregation(kind=PacketKind.EPOCH, job=1)) for at in (5, 505)]
    begins = up(host, 1, GradwireAggregation(job=1, peak=0))
    (job,) = found(tmp_path, [begins, *asks, *answers])
    assert (job.epochs, job.last_epoch, job.chunks, job.again) == (1, 0, 1, 0)
    assert {one.kind: one.packets for one in job.kinds if one.packets} == {
        "contribution": 1,
        "probe": 2,
        "epoch": 2,
    }


def test_jobs_are_apart_and_the_largest_comes_first(tmp_path: Path) -> None:
    host = "10.0.0.1"
    small = [up(host, 1, given(0, job=5), port=0xBEE5)]
    large = [up(host, 2 + n, given(n, job=9), port=0xBEE9) for n in range(3)]
    assert [(job.job, job.chunks) for job in found(tmp_path, small + large)] == [(9, 3), (5, 1)]


def test_other_packets_on_these_ports_are_not_taken_for_it(tmp_path: Path) -> None:
    host = "10.0.0.1"
    wrong = [
        up(host, 1, GradwireAggregation(version=2)),
        up(host, 2, GradwireAggregation(kind=9)),
        up(host, 3, GradwireAggregation(count=300, elements=[1] * 10)),
        up(host, 4, GradwireAggregation() / b"more"),
        _at(5, IP(src=host, dst=SWITCH) / UDP(sport=0xBEE0, dport=0xBEE0) / (b"x" * 24)),
        _at(6, IP(src=host, dst=SWITCH) / UDP(sport=5, dport=5) / bytes(GradwireAggregation())),
    ]
    assert found(tmp_path, wrong) == ()
    assert aggregations([], origin_ns=0) == ()


def test_a_capture_that_keeps_the_headers_only_tells_the_same(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (whole,) = found(tmp_path / "whole", host_file("10.0.0.1"))
    cut = []
    for packet in host_file("10.0.0.1"):
        kept = Ether(bytes(packet)[:128])
        kept.time, kept.wirelen = packet.time, len(packet)
        cut.append(kept)
    (short,) = found(tmp_path, cut)
    assert short == whole


def test_headers_of_chance_neither_fail_nor_fill_the_memory(tmp_path: Path) -> None:
    pick = random.Random(7)
    packets = []
    for number in range(3000):
        kind, count = pick.choice([1, 1, 2, 3, 4]), pick.randrange(4)
        head = struct.pack("!BBHHHIiQ", 1, kind, pick.randrange(3), pick.getrandbits(16), count, number, 0, 0)
        body = b"\0" * (4 * count if kind < 3 else 0)
        source = f"10.{pick.randrange(9)}.{pick.randrange(256)}.{pick.randrange(256)}"
        frame = udp((source, 0xBEE0), (SWITCH, 0xBEE0), head + body)
        packets.append(Record(number * 30 * MS, frame))
    (tmp_path / "a.pcap").write_bytes(pcap(packets))
    jobs = aggregations([read_capture(tmp_path / "a.pcap")], origin_ns=0)
    assert len(jobs) == 3
    assert sum(one.packets for job in jobs for one in job.kinds) == 3000
    assert all(len(job.hosts) <= MAX_HOSTS for job in jobs)


def test_inspect_shows_it_in_table_json_csv_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    for number in (1, 2):
        wrpcap(str(captures / f"h{number}.pcap"), host_file(f"10.0.0.{number}"))
    page, tables = tmp_path / "page.html", tmp_path / "csv"
    lines = typed(capsys, "inspect", captures, "--html", page, "--csv", tables).splitlines()
    (title,) = [number for number, line in enumerate(lines) if line.startswith("In-network aggregation")]
    assert lines[title + 2].split()[:9] == ["1", "2", "4", "256", "10", "2", "8", "2", "1"]
    assert "Switches added gradients up (job 1: 2 hosts, 4 chunks, 2 contributions" in lines[1]
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert "In-network aggregation</h2>" in page.read_text()
    rows = (tables / "aggregations.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows] == ["address", "10.0.0.1", "10.0.0.2"]
    analysis = json.loads(typed(capsys, "inspect", captures, "--json"))
    assert [host["address"] for host in analysis["aggregations"][0]["hosts"]] == ["10.0.0.1", "10.0.0.2"]


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    printed = capsys.readouterr()
    assert (left.value.code, printed.err) == (0, "")
    return printed.out
