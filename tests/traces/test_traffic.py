"""How the traffic of captures is counted and classified, in files whose bytes the test writes itself."""

from pathlib import Path

from gradwire.traces.analysis.traffic import traffic
from gradwire.traces.reader import open_captures
from tests.made_captures import SYN, Record, ethernet, pcap, stream, udp

A, B = ("10.0.0.1", 40000), ("10.0.0.2", 29500)


def test_cut_packets_and_cut_files_are_counted(tmp_path: Path) -> None:
    frames = stream(A, B, [(1000, b"x" * 500), (2000, b"y" * 10)], 1, SYN)
    whole = pcap(frames, snaplen=100)
    (tmp_path / "a.pcap").write_bytes(whole)
    (tmp_path / "b.pcap").write_bytes(whole[:-5])
    a, b = open_captures([tmp_path]).files
    assert (a.snaplen, a.snapped, a.truncated, a.n_packets, a.dropped) == (100, 1, False, 3, None)
    assert a.nbytes == 3 * 54 + 510
    assert b.truncated
    assert b.n_packets == 2


def test_everything_is_counted_by_what_it_was_taken_for(tmp_path: Path) -> None:
    frames = stream(A, B, [(1000, b"x" * 500), (2000, b"y" * 10)], 1, SYN)
    others = [Record(3000, udp(A, B, b"abc")), Record(4000, ethernet(b"", ether_type=0x0806))]
    (tmp_path / "a.pcap").write_bytes(pcap([*frames, *others]))
    store, of_udp, neither = traffic(open_captures([tmp_path]))
    assert (store.training, store.connections, store.packets, store.payload_nbytes) == (False, 1, 2, 510)
    assert (of_udp.framing, of_udp.packets, of_udp.payload_nbytes) == ("UDP", 1, 3)
    assert (neither.framing, neither.packets, neither.payload_nbytes) == ("neither TCP nor UDP", 1, 0)
