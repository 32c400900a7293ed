"""Which packets belong together: many 4-tuples, hostile reuse, and points of capture."""

from pathlib import Path

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction, by_direction, own_address, points
from gradwire.traces.packets.packets import Packets
from tests.made_captures import ACK, SYN, Record, pcap, tcp

A, B, C = ("10.0.0.1", 4000), ("10.0.0.2", 5000), ("10.0.0.3", 6000)


def capture(folder: Path, name: str, records: list[Record]) -> Packets:
    path = folder / name
    path.write_bytes(pcap(records))
    return read_capture(path)


def test_every_tcp_packet_belongs_to_one_direction_in_the_order_of_time(tmp_path: Path) -> None:
    ends = [(f"10.0.{i % 7}.{i % 11}", 1000 + i) for i in range(50)]
    records = [Record(1000 - i, tcp(a, b, i)) for i, (a, b) in enumerate(zip(ends, ends[::-1], strict=True))]
    packets = capture(tmp_path, "a", records * 2)
    (rows,) = by_direction([packets])
    assert sorted(row for part in rows.values() for row in part) == list(range(100))
    for part in rows.values():
        assert sorted(packets.time_ns[part]) == packets.time_ns[part].tolist()


def test_thousands_of_reuses_of_one_4_tuple_are_as_many_connections(tmp_path: Path) -> None:
    records = [
        Record(2 * i + n, tcp(A, B, 10 * i, flags=flags, payload=b"x" * n))
        for i in range(5_000)
        for n, flags in enumerate((SYN, ACK))
    ]
    packets = capture(tmp_path, "a", records)
    (rows,) = by_direction([packets])
    assert len(rows) == 5_000
    assert all(len(part) == 2 for part in rows.values())


def test_65_000_connections_are_told_apart(tmp_path: Path) -> None:
    records = [Record(i, tcp((A[0], i), B, i, b"x")) for i in range(1, 65_001)]
    (rows,) = by_direction([capture(tmp_path, "a", records)])
    assert len(rows) == 65_000
    assert Direction(A[0], 777, *B) in rows


def test_files_of_one_host_are_one_point_and_hosts_are_different_ones(tmp_path: Path) -> None:
    def file(name: str, host: tuple[str, int], start: int) -> Packets:
        others = [end for end in (A, B, C) if end != host]
        talk = [
            (start + i, *pair) for i, other in enumerate(others) for pair in ((host, other), (other, host))
        ]
        return capture(tmp_path, name, [Record(t, tcp(a, b, 0)) for t, a, b in talk])

    files = [file("a0", A, 0), file("b", B, 0), file("a1", A, 100)]
    owners = [own_address(packets) for packets in files]
    assert owners == [A[0], B[0], A[0]]
    found = points(files, owners)
    assert found[0] == found[2] != found[1]


def test_switch_captures_are_one_point_if_they_follow_each_other_and_else_two(tmp_path: Path) -> None:
    def at_switch(name: str, start: int) -> Packets:
        pairs = (A, B), (B, A), (C, ("10.0.0.4", 1)), (("10.0.0.4", 1), C)
        return capture(tmp_path, name, [Record(start + i, tcp(*pair, 0)) for i, pair in enumerate(pairs)])

    first, second, beside = at_switch("a", 0), at_switch("b", 100), at_switch("c", 101)
    assert own_address(first) is None
    assert points([first, second], [None, None]) == [0, 0]
    found = points([second, beside, first], [None] * 3)
    assert found[0] != found[1]
