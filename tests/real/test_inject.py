"""Packets of a capture sent again through a fabric: each arrives, once, in order, as it was."""

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from gradwire.emu.project import PROJECT
from tests.made_captures import Record, pcap, tcp
from tests.real.commands import gradwire

pytestmark = pytest.mark.real

SAMPLE = PROJECT / "traces" / "samples" / "ddp_gloo_4_resnet18_tso"
N_PACKETS = 500  # of each file
ROOM = "queue=128MB"  # for all of them at once: a machine that stalls for a while drops nothing


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first packets of a real capture with large segments, of all its hosts."""
    folder = tmp_path_factory.mktemp("captures")
    for path in sorted(SAMPLE.glob("h*.pcap")):
        command = ["editcap", "-F", "nsecpcap", "-r", str(path), str(folder / path.name), f"1-{N_PACKETS}"]
        subprocess.run(command, check=True, capture_output=True)
    return folder


def injected(*arguments: str) -> dict[str, Any]:
    done = gradwire("inject", *arguments, "--json")
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["verdict"] == "valid" else 3)
    return found


@pytest.mark.untimed
@pytest.mark.parametrize(
    ("fabric", "routes"),
    [(f"star:hosts=4,rate=10G,{ROOM}", "ecmp"), (f"fat-tree:k=4,levels=2,rate=1G,{ROOM}", "dmodk")],
)
def test_every_packet_arrives_once_in_order_and_large_segments_stay_whole(
    fabric: str, routes: str, captures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    found = injected(
        str(captures), "--fabric", fabric, "--routes", routes, "--pps", "1000", "--out", str(out)
    )
    assert found["packets"] > 2 * N_PACKETS
    assert found["sent"] == found["arrived"] == found["packets"]
    assert (found["lost"], found["stray"], found["refused"], found["reordered"]) == (0, 0, 0, 0)
    assert found["queue_dropped"] == {}
    assert sum(found["lateness_histogram"].values()) == found["packets"]
    sizes = Counter[int]()
    for path in (out / "inject" / "captures").glob("h*.pcap"):
        with RawPcapReader(str(path)) as packets:
            sizes.update(about.wirelen for _, about in packets)
    assert max(sizes) == 65_226  # 45 segments of 1448 bytes and headers, as recorded
    assert sum(sizes.values()) == 2 * found["packets"]  # each is seen where it leaves and where it arrives


@pytest.mark.untimed
def test_in_packets_of_the_mtu_the_stream_is_the_same(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    star = (str(captures), "--fabric", f"star:hosts=4,rate=10G,{ROOM}")
    whole = injected(*star, "--pps", "1000", "--out", str(tmp_path / "whole"))
    found = injected(*star, "--exact-mtu", "--rate", "400M", "--out", str(out))
    assert found["lost"] == 0
    assert found["bytes"] == whole["bytes"]
    with RawPcapReader(str(out / "inject" / "captures" / "h1.pcap")) as packets:
        assert max(about.wirelen for _, about in packets) == 1514


def test_loops_on_slow_links_lose_what_the_queues_dropped(captures: Path, tmp_path: Path) -> None:
    found = injected(
        *(str(captures), "--fabric", "star:hosts=4,rate=50M,queue=100KB", "--pps", "2000"),
        *("--loop", "2", "--out", str(tmp_path / "runs")),
    )
    assert found["packets"] % 2 == 0
    assert found["lost"] > 0
    assert found["lost"] == sum(found["queue_dropped"].values())
    assert found["delay_s"]["min"] >= 0


@pytest.mark.untimed
def test_a_map_puts_a_host_where_it_says_and_answers_nothing(tmp_path: Path) -> None:
    """A SYN to a closed port and data to nobody: no RST comes back, and nothing else is sent."""
    a, b = ("10.9.0.1", 4000), ("10.9.0.2", 5000)
    records = [Record(n * 10**6, tcp(a, b, n * 9, b"x" * 9, flags=2 if not n else 0x10)) for n in range(20)]
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(records))
    out = tmp_path / "runs"
    found = injected(*(str(path), "--fabric", "star:hosts=4", "--map", "10.9.0.1=h3"), "--out", str(out))
    assert found["hosts"] == {"10.9.0.1": "h3", "10.9.0.2": "h0"}
    assert (found["arrived"], found["stray"]) == (20, 0)
    with RawPcapReader(str(out / "inject" / "captures" / "h0.pcap")) as packets:
        frames = [Ether(octets) for octets, _ in packets]
    assert [(frame[IP].src, frame[TCP].seq) for frame in frames] == [("10.0.0.4", n * 9) for n in range(20)]


def test_an_interrupted_injection_ends_with_130_and_leaves_no_process(captures: Path, tmp_path: Path) -> None:
    command = [
        str(PROJECT / "gradwire"),
        "inject",
        str(captures),
        "--pps",
        "10",
        "--out",
        str(tmp_path / "runs"),
    ]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    work = tmp_path / "runs" / "inject.incomplete"
    deadline = time.monotonic() + 30
    while not (work / "sender.log").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    left = subprocess.run(["pgrep", "-f", str(work)], capture_output=True, text=True, check=False).stdout
    assert left == ""
