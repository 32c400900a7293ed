"""The comparison with pyshark finds what is made wrong, and nothing else."""

import asyncio
import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.traces.packets import verify as verifying
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.packets.verify import verify, verify_files
from tests.made_captures import Record, ethernet, ipv4, pcap, tcp, udp
from tests.traces.test_decode import NETWORKS, on

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ps_1srv_4wk" / "h0.pcap"
A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)


@pytest.fixture(autouse=True)
def no_loop() -> Iterator[None]:
    """As after asyncio.run, which leaves the thread without an event loop; what is made is closed."""
    asyncio.set_event_loop(None)
    yield
    gc.collect()
    with suppress(RuntimeError):  # a test without a comparison makes none
        asyncio.get_event_loop_policy().get_event_loop().close()
    asyncio.set_event_loop(None)


def made(tmp_path: Path) -> Packets:
    frames = [tcp(A, B, 5, b"abc"), udp(B, A, b"hello"), ethernet(ipv4(A[0], B[0], 1, b"ping" * 5))]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Record(i, frame) for i, frame in enumerate(frames)]))
    return read_capture(path)


@pytest.mark.long
def test_a_sample_is_what_pyshark_reads() -> None:
    verify_files([SAMPLE], 100)


@pytest.mark.broad(2)
@pytest.mark.parametrize("snaplen", [65535, 48])
def test_every_kind_of_packet_is_what_pyshark_reads(tmp_path: Path, snaplen: int) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Record(i, on(1, network)) for i, network in enumerate(NETWORKS)], snaplen=snaplen))
    assert verify(path, read_capture(path), 100) == []


WRONG_BY_ONE = {
    "seq": "packet 1: seq is 6, tshark says 5",
    "sport": "packet 1: source is ('10.0.0.1', 4001), tshark says ('10.0.0.1', 4000)",
    "payload_nbytes": "packet 1: payload bytes is 4, tshark says 3",
    "time_ns": "packet 1: time is 1E-9, tshark says 0E-9",
    "flags": "packet 1: flags is 17, tshark says 16",
}


def test_every_wrong_column_is_reported_by_packet_and_field_and_nothing_else(tmp_path: Path) -> None:
    packets = made(tmp_path)
    wrong = {column: getattr(packets, column).copy() for column in WRONG_BY_ONE}
    for values in wrong.values():
        values[0] += 1
    differences = verify(packets.path, replace(packets, **wrong), 2)
    assert sorted(differences) == sorted(WRONG_BY_ONE.values())


def test_a_packet_that_one_of_the_two_does_not_know_is_reported(tmp_path: Path) -> None:
    packets = made(tmp_path)
    wrong = packets.protocol.copy()
    wrong[1] = 0
    assert any(
        "protocol is None, tshark says udp" in line
        for line in verify(packets.path, replace(packets, protocol=wrong), 9)
    )


@pytest.mark.parametrize("part_nbytes", [0, 9])
def test_a_file_of_another_length_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_nbytes: int
) -> None:
    """Also where tshark has said that the file is cut off, and ended, before its packets are compared."""
    theirs_of = verifying.theirs_of

    def late(theirs: object) -> dict[str, object]:
        with suppress(ChildProcessError):  # asyncio knows already
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return theirs_of(theirs)

    monkeypatch.setattr(verifying, "theirs_of", late)
    packets = made(tmp_path)
    first_nbytes = 24 + 16 + len(tcp(A, B, 5, b"abc"))
    packets.path.write_bytes(packets.path.read_bytes()[: first_nbytes + part_nbytes])
    assert verify(packets.path, packets, 9) == ["packets: tshark reads 1, gradwire 3"]
    gc.collect()  # pyshark closes it again


def test_the_first_difference_ends_the_command_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "verify", lambda *_: ["packet 1: seq is 6, tshark says 5", "two", "three"])
    with pytest.raises(BadCapture, match="tshark says 5; 2 more differences") as caught:
        verify_files([SAMPLE], 3)
    assert "\n" not in str(caught.value)
