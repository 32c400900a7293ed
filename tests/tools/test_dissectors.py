"""Scapy's layer and Wireshark's dissector read what we write, and we what they do: field by field."""

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from gradwire.tools.dissect.scapy_layer import GradwireAggregation
from gradwire.traces.framing.aggregation import DISSECTED_PORTS, NO_PEAK, Header, PacketKind, decode, encode

LUA = Path(__file__).parents[2] / "tools" / "dissect" / "gradwire-aggregation.lua"
FIELDS = ("version", "kind", "job", "epoch", "count", "chunk", "peak", "seen")
ELEMENTS = [-(1 << 31), -1, 0, 1, (1 << 31) - 1]


def field_values(packet: GradwireAggregation) -> tuple[int, ...]:
    return tuple(getattr(packet, name) for name in FIELDS)


def numbers(bits: int, *, signed: bool = False) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


int32s = numbers(32, signed=True)
headers = st.builds(
    Header,
    kind=st.sampled_from(PacketKind),
    job=numbers(16),
    epoch=numbers(16),
    count=numbers(16),
    chunk=numbers(32),
    peak=int32s,
    seen=numbers(64),
)


@settings(max_examples=50, deadline=None)
@given(headers, st.lists(int32s, max_size=5))
def test_scapy_reads_the_header_that_we_write(header: Header, elements: list[int]) -> None:
    wire = encode(header) + struct.pack(f"!{len(elements)}i", *elements)
    read = GradwireAggregation(wire)
    assert field_values(read) == tuple(getattr(header, name) for name in FIELDS)
    assert read.elements == elements[: header.n_elements]


@settings(max_examples=50, deadline=None)
@given(headers, st.lists(int32s, max_size=5))
def test_we_read_the_header_that_scapy_writes(header: Header, elements: list[int]) -> None:
    carried = elements if header.kind in (PacketKind.CONTRIBUTION, PacketKind.RESULT) else []
    count = {"count": header.count} if not carried else {}
    fields = {name: getattr(header, name) for name in FIELDS if name != "count"} | count
    read = decode(bytes(GradwireAggregation(**fields, elements=carried)))
    assert read is not None
    assert read.count == (len(carried) if carried else header.count)
    assert all(getattr(read, name) == getattr(header, name) for name in FIELDS if name != "count")


def test_elements_that_a_capture_cut_off_are_absent_and_nothing_else_is() -> None:
    whole = encode(Header(PacketKind.RESULT, 1, 0, count=3, chunk=9)) + struct.pack("!3i", 5, -6, 7)
    read = GradwireAggregation(whole[:-5])
    assert (read.count, read.elements) == (3, [5])


@pytest.mark.parametrize("port", [DISSECTED_PORTS[0], DISSECTED_PORTS[-1]])
@pytest.mark.parametrize("end", ["sport", "dport"])
def test_scapy_finds_the_layer_by_the_port_of_either_end(port: int, end: str) -> None:
    ports = UDP(sport=port, dport=2) if end == "sport" else UDP(sport=1, dport=port)
    wire = IP() / ports / encode(Header(PacketKind.EPOCH, 7, 3, 0, 0))
    assert IP(bytes(wire))[GradwireAggregation].job == 7


# Wireshark

PACKETS = (
    GradwireAggregation(job=7, epoch=3, chunk=1 << 31, peak=-126, elements=ELEMENTS),
    GradwireAggregation(kind=PacketKind.RESULT, job=0xFFFF, chunk=130, elements=list(range(-300, 212))),
    GradwireAggregation(job=1, chunk=0),  # bare
    GradwireAggregation(kind=PacketKind.STATUS, job=1, count=2, chunk=5, seen=1 << 63 | 0x0105),
    GradwireAggregation(kind=PacketKind.EPOCH, job=1, epoch=9),
)


def tshark(path: Path, *options: str) -> list[dict[str, Any]]:
    """The aggregation fields of each packet that has any, as tshark's JSON tells them."""
    command = ["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", str(path), "-T", "json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "Lua" not in done.stderr, done.stderr
    return [packet["_source"]["layers"] for packet in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("tshark") is None:
        pytest.skip("needs tshark")
    path = tmp_path_factory.mktemp("dissect") / "made.pcap"
    other = UDP(sport=5000, dport=6000)
    below = [
        Ether() / IP(src="10.0.0.1", dst="10.0.255.254") / UDP(sport=p, dport=p) for p in (0xBEE0, 0xBEFF)
    ]
    packets = [below[i % 2] / packet for i, packet in enumerate(PACKETS)]
    packets.append(Ether() / IP() / other / PACKETS[0])  # by its looks alone
    packets.append(Ether() / IP() / other / bytes(range(1, 25)))  # not even those
    packets.append(below[0] / GradwireAggregation(version=2, job=4))
    packets.append(below[0] / GradwireAggregation(count=3, elements=[1]))
    wrpcap(str(path), packets)
    return path


def test_wireshark_reads_every_field_as_scapy_wrote_it(capture: Path) -> None:
    layers = tshark(capture)
    for packet, layer in zip(map(GradwireAggregation, map(bytes, PACKETS)), layers, strict=False):
        said = layer["gwagg"]
        read = tuple(int(said[f"gwagg.{name}"], 0) for name in FIELDS)
        assert read == field_values(packet)


def test_wireshark_sums_the_elements_up_and_shows_the_first(capture: Path) -> None:
    command = ["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", str(capture), "-T", "fields"]
    names = ("gwagg.elements.present", "gwagg.elements.least", "gwagg.elements.largest", "gwagg.element")
    command += [word for name in names for word in ("-e", name)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["5", str(-(1 << 31)), str((1 << 31) - 1), ",".join(map(str, ELEMENTS))]
    assert rows[1] == ["512", "-300", "211", ",".join(map(str, range(-300, -292)))]
    assert rows[2] == [""] * 4


@pytest.mark.broad(5)
@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ("gwagg.kind == 3", [4]),
        ("gwagg.child == 63 && gwagg.child == 2 && gwagg.child == 8 && gwagg.child == 0", [4]),
        ("gwagg.child == 1", []),
        ("gwagg.levels == 2", [4]),
        ("gwagg.bare == 1", [3]),
        (f"gwagg.peak < {NO_PEAK + 1}", [2, 3, 4, 5, 9]),
        ("gwagg.job == 7", [1, 6]),
        ("gwagg.version.other", [8]),
        ("gwagg.length", [9]),
        ("udp && !gwagg", [7]),
    ],
)
def test_a_display_filter_finds_the_packets(capture: Path, wanted: str, numbers: list[int]) -> None:
    layers = tshark(capture, "-Y", wanted)
    assert [int(layer["frame"]["frame.number"]) for layer in layers] == numbers
