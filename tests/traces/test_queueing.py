"""How long packets queued in a port: two captures of one host, written packet by packet."""

import struct
from pathlib import Path
from typing import Any

import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import Packets, only_rows
from gradwire.traces.packets.queueing import MAX_DELAY_NS, queueing_delays, with_delays
from tests.made_captures import Record, pcap, tcp, udp

OWN, PEER, OTHER = ("10.0.0.1", 4000), ("10.0.0.2", 5000), ("10.0.0.3", 5000)
PAYLOAD = b"payload"
IP_ID_AT = 14 + 4


def sent(
    time_ns: int,
    seq: int,
    to: tuple[str, int] = PEER,
    ip_id: int = 7,
    payload: bytes = PAYLOAD,
    own: tuple[str, int] = OWN,
) -> Record:
    frame = tcp(own, to, seq, payload)
    return Record(time_ns, frame[:IP_ID_AT] + struct.pack("!H", ip_id) + frame[IP_ID_AT + 2 :])


def received(time_ns: int, seq: int) -> Record:
    return Record(time_ns, tcp(PEER, OWN, seq, PAYLOAD))


def captured(path: Path, *records: Record) -> Packets:
    path.write_bytes(pcap(records))
    return read_capture(path)


def queued(tmp_path: Path, left: list[Record], entered: list[Record]) -> list[int]:
    """Of each packet in `left`."""
    packets = captured(tmp_path / "left.pcap", *left)
    found = with_delays(
        packets, queueing_delays(packets, captured(tmp_path / "entered.pcap", *entered))
    ).queued_ns
    assert found is not None
    known: list[int] = found.tolist()
    return known


def test_a_packet_queued_from_when_it_entered_until_it_left(tmp_path: Path) -> None:
    entered = [sent(100, 1), sent(101, 1, OTHER), sent(102, 8), sent(500, 15)]
    left = [sent(105, 1), received(150, 1), sent(200, 8), sent(300, 1, OTHER), sent(500, 15)]
    assert queued(tmp_path, left, entered) == [5, -1, 98, 199, 0]


def test_of_what_is_sent_again_it_is_not_known(tmp_path: Path) -> None:
    """It may be the first to leave, if the queue dropped what was sent before, whole or in parts."""
    again = sent(900, 1, ip_id=9)
    entered = [sent(100, 1, ip_id=7), sent(101, 8, ip_id=8), again, sent(902, 15, ip_id=10)]
    assert queued(tmp_path, [sent(130, 1, ip_id=7), sent(905, 1, ip_id=9)], entered) == [30, -1]
    assert queued(tmp_path, [sent(905, 1, ip_id=9), sent(910, 15, ip_id=10)], entered) == [-1, 8]
    large = sent(100, 1, ip_id=7, payload=2 * PAYLOAD)
    parts = [sent(900, 1, ip_id=8), sent(901, 8, ip_id=9)]
    assert queued(tmp_path, parts, [large, *parts]) == [-1, -1]


def test_sequence_numbers_begin_anew_after_four_gigabytes(tmp_path: Path) -> None:
    seqs = [2**32 - 7, 0, *(quarter << 30 for quarter in (1, 2, 3)), 0]
    both = [(sent(10 * n, seq, ip_id=n), sent(10 * n + n, seq, ip_id=n)) for n, seq in enumerate(seqs, 1)]
    entered, left = zip(*both, strict=True)
    assert queued(tmp_path, [*left], [*entered]) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "other",
    [
        {"to": ("10.0.0.2", 5001)},
        {"to": ("10.0.0.9", 5000)},
        {"own": ("10.0.0.1", 4001)},
        {"own": ("10.0.0.7", 4000)},
        {"payload": b"more"},
        {"seq": 2},
        {"ip_id": 8},
    ],
)
def test_what_differs_in_anything_is_another_packet(tmp_path: Path, other: dict[str, Any]) -> None:
    assert queued(tmp_path, [sent(130, 1)], [sent(**{"time_ns": 100, "seq": 1} | other)]) == [-1]


def test_connections_have_sequence_numbers_of_their_own(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [{"to": ("10.0.0.2", 5001)}, {"to": OTHER}, {"own": ("10.0.0.1", 4001)}]
    entered = [sent(100 + n, 1, **other) for n, other in enumerate([*others, {}])]
    left = [sent(200 + 10 * n, 1, **other) for n, other in enumerate([{}, *others])]
    assert queued(tmp_path, left, entered) == [97, 110, 119, 128]


def test_of_what_cannot_be_nothing_is_known(tmp_path: Path) -> None:
    """Packets that one capture lacks, acknowledgements, those that left before they entered, and delays of
    more than four seconds.
    """
    left = [sent(100, 1), sent(110, 8, payload=b""), sent(120, 8), sent(MAX_DELAY_NS + 41, 15)]
    left.append(Record(MAX_DELAY_NS + 50, udp(OWN, PEER, PAYLOAD)))
    entered = [sent(90, 8, payload=b""), sent(150, 8), sent(40, 15), Record(130, udp(OWN, PEER, PAYLOAD))]
    assert queued(tmp_path, left, entered) == [-1] * 5
    entered[2] = sent(41, 15)
    assert queued(tmp_path, left, entered) == [-1, -1, -1, MAX_DELAY_NS, -1]


def test_packets_that_were_left_out_take_no_others_delay(tmp_path: Path) -> None:
    packets = captured(tmp_path / "left.pcap", sent(105, 1), sent(208, 8), sent(311, 15))
    delays = queueing_delays(
        packets, captured(tmp_path / "entered.pcap", sent(100, 1), sent(200, 8), sent(300, 15))
    )
    some = with_delays(only_rows(packets, packets.seq != 8), delays)
    assert some.queued_ns is not None
    assert some.queued_ns.tolist() == [5, 11]
    later = only_rows(with_delays(packets, delays), packets.seq != 1)
    assert later.queued_ns is not None
    assert later.queued_ns.tolist() == [8, 11]


def test_of_packets_that_no_other_capture_has_nothing_is_known(tmp_path: Path) -> None:
    assert queued(tmp_path, [sent(105, 1)], [received(1, 1)]) == [-1]
