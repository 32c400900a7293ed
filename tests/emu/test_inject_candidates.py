"""Which packets are sent, and from which file: made captures, and hostile ones."""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from gradwire.emu.inject.candidates import AGGREGATION, FRAGMENT, IPV6, MULTICAST, OTHER, TO_ITSELF, UNMAPPED
from gradwire.emu.inject.options import MAX_PACKETS, InjectOptions
from gradwire.emu.inject.preparation import NothingToSend, Prepared, prepare
from gradwire.traces.framing.aggregation import FIRST_PORT
from gradwire.traces.packets.packets import BadCapture
from tests.made_captures import ACK, SYN, Record, ethernet, ipv4, pcap, tcp, udp

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
A, B, C = ("10.77.0.1", 4000), ("10.77.0.2", 5000), ("10.77.0.3", 6000)


def written(folder: Path, *files: Sequence[Record]) -> list[Path]:
    paths = [folder / f"{number}.pcap" for number in range(len(files))]
    for path, records in zip(paths, files, strict=True):
        path.write_bytes(pcap(records))
    return paths


def prepared(paths: Sequence[Path], loops: int = 1, assigned: Mapping[str, str] | None = None) -> Prepared:
    return prepare(paths, None, InjectOptions(loops=loops), {}, assigned or {})


def exchange(shift_ns: int, seen_by: str) -> list[Record]:
    """A and B, A and C; each end sees the other's packets later by `shift_ns`."""
    records = []
    for time_ns, src, dst in ((1000, A, B), (2000, B, A), (3000, A, C), (4000, C, A)):
        if seen_by in (src[0], dst[0]):
            late_ns = 0 if seen_by == src[0] else shift_ns
            records.append(Record(time_ns + late_ns, tcp(src, dst, time_ns, b"x")))
    return records


def test_a_packet_that_is_in_two_files_is_sent_once_at_the_time_of_its_sources_file(tmp_path: Path) -> None:
    paths = written(tmp_path, *(exchange(400, end[0]) for end in (A, B, C)))
    found = prepared(paths)
    assert found.pieces.recorded_ns.tolist() == [1000, 2000, 3000, 4000]
    assert found.pieces.file.tolist() == [0, 1, 0, 2]


def test_what_only_the_other_end_has_is_sent_as_that_has_it(tmp_path: Path) -> None:
    (path,) = written(tmp_path, exchange(400, A[0]))
    assert prepared([path]).pieces.recorded_ns.tolist() == [1000, 2400, 3000, 4400]


def test_every_packet_of_both_ends_files_is_sent_once_in_a_real_capture() -> None:
    folder = SAMPLES / "ddp_gloo_8"
    found = prepared(sorted(folder.glob("h*.pcap")))
    alone = [prepared([path]) for path in sorted(folder.glob("h*.pcap"))]
    for number, single in enumerate(alone):
        host = single.hosts.index(single.host_of[f"10.77.0.{number + 1}"])
        mine = int(np.count_nonzero(found.pieces.src == number))
        assert mine == int(np.count_nonzero(single.pieces.src == host))


def test_what_cannot_be_sent_is_left_out_and_counted(tmp_path: Path) -> None:
    fragment = bytearray(udp(A, B, b"first part"))
    fragment[20] |= 0x20
    records = [
        Record(1, tcp(A, B, 7, flags=SYN)),
        Record(2, ethernet(b"\x60" + bytes(60), ether_type=0x0806)),
        Record(
            3,
            ethernet(
                struct.pack("!IHBB", 6 << 28, 20, 6, 64) + bytes(32) + bytes(12) + b"\x50" + bytes(7),
                ether_type=0x86DD,
            ),
        ),
        Record(4, udp(A, ("239.1.1.1", 9), b"to many")),
        Record(5, udp(A, ("255.255.255.255", 9), b"to all")),
        Record(6, bytes(fragment)),
        Record(7, tcp(A, A, 7)),
        Record(8, ethernet(ipv4(A[0], B[0], 1, b"echo request"))),
        Record(9, tcp(B, C, 7, flags=ACK)),
    ]
    found = prepared(written(tmp_path, records), assigned={C[0]: "none"})
    assert len(found.pieces) == 1
    expected = Counter({OTHER: 2, IPV6: 1, MULTICAST: 2, FRAGMENT: 1, TO_ITSELF: 1, UNMAPPED: 1})
    assert Counter(found.left_out) == expected


def test_what_switches_added_up_is_left_out_and_others_packets_of_these_addresses_are_not(
    tmp_path: Path,
) -> None:
    tree, up, down = FIRST_PORT, "10.0.255.254", "10.0.255.255"
    records = [
        Record(1, udp((A[0], tree), (up, tree), b"contribution")),
        Record(2, udp((up, tree), (down, tree), b"result")),
        Record(3, udp((A[0], 53), (up, 53), b"a name server has the address")),
        Record(4, udp((A[0], tree), (up, tree + 1), b"so here")),
        Record(5, udp((A[0], tree), (B[0], tree), b"between hosts")),
        Record(6, tcp((A[0], tree), (up, tree), 7)),
    ]
    found = prepared(written(tmp_path, records))
    assert Counter(found.left_out) == Counter({AGGREGATION: 2})
    assert len(found.pieces) == 4


def test_a_capture_with_nothing_to_send_says_what_it_has_instead(tmp_path: Path) -> None:
    paths = written(tmp_path, [Record(1, ethernet(bytes(46), ether_type=0x0806))])
    with pytest.raises(NothingToSend, match="nothing to send: 1 packet is neither TCP nor UDP"):
        prepared(paths)


@pytest.mark.parametrize("octets", [b"", b"%PDF-1.7 and so on", pcap([]), pcap([], link_type=105)])
def test_what_is_no_capture_is_refused_by_the_reader(octets: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.pcap"
    path.write_bytes(octets)
    with pytest.raises(BadCapture):
        prepared([path])


def test_a_capture_that_goes_backwards_is_sent_in_its_order_and_told(tmp_path: Path) -> None:
    records = [Record(time_ns, tcp(A, B, time_ns % 1000)) for time_ns in (10**9 + 1, 10**9 + 3, 10**9 + 2)]
    found = prepared(written(tmp_path, records))
    assert found.due_ns.tolist() == [0, 2, 2]
    assert any("backwards 1 times" in note for note in found.notes)


def test_more_packets_than_can_be_matched_are_refused_with_a_way_out(tmp_path: Path) -> None:
    paths = written(tmp_path, [Record(n, tcp(A, B, n)) for n in range(100)])
    with pytest.raises(
        ValueError, match=r"100 packets are more than the limit of 4,000,000: .* editcap|fewer loops"
    ):
        prepared(paths, loops=MAX_PACKETS // 100 + 1)


def test_the_default_fabric_is_a_star_of_the_captures_hosts(tmp_path: Path) -> None:
    paths = written(tmp_path, exchange(0, A[0]))
    assert prepared(paths).fabric.spec.startswith("star:hosts=3,rate=10G")
