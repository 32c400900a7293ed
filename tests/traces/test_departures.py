"""When segments had come to their host's port, by what came back: from captures of one connection."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import Direction, by_direction, own_address
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.departures import connection, departures, when_come_ns
from gradwire.traces.tcpmemory import SEGMENT_OVERHEAD_NBYTES
from tests.made_captures import Record, pcap, tcp

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "slow_ps_2srv_4wk_star20M"
MS = 1_000_000
HERE, THERE = ("10.0.0.1", 5000), ("10.0.0.2", 5001)
FIRST = 2**32 - 1500  # the numbers wrap around on the way
WIDE = 60
Sent = tuple[float, int]
Answered = tuple[float, int, int]


@pytest.fixture(name="come_ms")
def _come_ms(tmp_path: Path) -> "ComeMs":
    return ComeMs(tmp_path)


class ComeMs:
    """When segments of 1,000 bytes had come that left at such ms, each with its place in the stream; answers
    at such ms acknowledge so many bytes, and offer room for so many kB.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self,
        sent: Sequence[Sent],
        answered: Sequence[Answered],
        n_queued: int = 9,
        socket_nbytes: int | None = None,
        *,
        cwnd_bounds: bool = False,
    ) -> list[float]:
        data = [
            Record(round(at * MS), tcp(HERE, THERE, FIRST + 1000 * place, bytes(1000))) for at, place in sent
        ]
        answers = [
            Record(round(at * MS), tcp(THERE, HERE, 7, ack=FIRST + nbytes, window=offered_kb))
            for at, nbytes, offered_kb in answered
        ]
        records = sorted([*data, *answers], key=lambda record: record.time_ns)
        (self._folder / "one.pcap").write_bytes(pcap(records))
        packets = read_capture(self._folder / "one.pcap")
        (rows_of,) = by_direction([packets])
        out, back = Direction(*HERE, *THERE), Direction(*THERE, *HERE)
        both = connection(packets, rows_of[out], rows_of[back], 10)
        found = when_come_ns(*both, n_queued=n_queued, socket_nbytes=socket_nbytes, cwnd_bounds=cwnd_bounds)
        return [float(ns) / MS for ns in found]


FIVE: list[Sent] = [(1, 0), (2, 1), (3, 2), (20, 3), (21, 4)]
IN_ORDER: list[Answered] = [(0.5, 0, WIDE), (5, 1000, WIDE), (6, 2000, WIDE), (7, 3000, WIDE)]


def test_what_nothing_held_up_came_as_soon_as_there_was_room(come_ms: ComeMs) -> None:
    assert come_ms(FIVE, IN_ORDER) == [0.5] * 5


@pytest.mark.parametrize(("n_queued", "last_ms"), [(2, [6, 7]), (3, [5, 6])])
def test_a_segment_comes_when_that_so_many_before_has_arrived(
    come_ms: ComeMs, n_queued: int, last_ms: list[float]
) -> None:
    """Wherever in the fabric it waited: not when it left."""
    assert come_ms(FIVE, IN_ORDER, n_queued)[3:] == last_ms
    assert come_ms(FIVE, IN_ORDER[:2], 2) == [0.5, 0.5, 3, 20, 21]  # these had not arrived as others left


def test_as_much_may_be_under_way_as_was_before(come_ms: ComeMs) -> None:
    """Three segments were.  The fourth takes the first acknowledgement, the fifth the second."""
    assert come_ms(FIVE, IN_ORDER, cwnd_bounds=True) == [1, 2, 3, 5, 6]


def test_a_segment_waits_until_its_receiver_offers_room(come_ms: ComeMs) -> None:
    """For three, as all begins; for none when they are acknowledged; for a fourth at 15 ms, a fifth at 16."""
    answered = [(0.5, 0, 3), (5, 1000, 2), (7, 3000, 0), (15, 3000, 1), (16, 3000, 2)]
    assert come_ms(FIVE, answered) == [0.5, 0.5, 0.5, 15, 16]


def test_a_segment_waits_until_its_socket_is_empty_enough(come_ms: ComeMs) -> None:
    """It holds three of them, with what the kernel keeps for each, so there is room when one is left."""
    socket_nbytes = 3 * (1000 + SEGMENT_OVERHEAD_NBYTES)
    assert come_ms(FIVE, IN_ORDER, socket_nbytes=socket_nbytes) == [0.5, 0.5, 3, 6, 7]
    assert come_ms(FIVE, IN_ORDER, socket_nbytes=socket_nbytes - 2)[:2] == [0.5, 2]


def test_once_packets_were_sent_again_nothing_is_known(come_ms: ComeMs) -> None:
    sent = [(1, 0), (2, 1), (3, 2), (20, 1), (21, 3), (22, 4), (23, 5), (24, 6)]
    answered = [(0.5, 0, WIDE), (5, 1000, WIDE), (20.5, 3000, WIDE), (21.5, 4000, WIDE), (22.5, 5000, WIDE)]
    for cwnd_bounds in (True, False):
        assert come_ms(sent, answered, 2, cwnd_bounds=cwnd_bounds)[3:] == [20, 21, 22, 23, 24]


def test_behind_packets_that_the_capture_lacks_nothing_is_known_of_as_many(come_ms: ComeMs) -> None:
    """It could have been the one that had to arrive first."""
    sent = [(1, 0), (2, 1), (20, 3), (21, 4), (22, 5)]
    answered = [*IN_ORDER, (8, 4000, WIDE)]
    assert come_ms(sent, answered, 2) == [0.5, 0.5, 20, 21, 8]


def test_an_acknowledgement_that_comes_late_takes_nothing_back(come_ms: ComeMs) -> None:
    late = [(0.5, 0, WIDE), (5, 2000, WIDE), (6, 1000, 1), (7, 3000, WIDE)]
    assert come_ms(FIVE, late, cwnd_bounds=True)[3:] == [5, 5]


def test_of_copies_and_of_several_connections_to_a_peer_nothing_is_known() -> None:
    """Rank 2 of the sample pushes to 0 and 1; of what goes to 0 the second half gets another port."""
    trace = open_trace([SAMPLE])
    (packets,) = (each for each in trace.captures if own_address(each) == "10.0.0.3")
    found = departures(trace, 2, [packets])
    assert all((found[peer].came_ns < found[peer].left_ns).any() for peer in (0, 1))
    copied = departures(trace, 2, [replace(packets, n_copies=1)])
    assert all((copied[peer].came_ns == copied[peer].left_ns).all() for peer in (0, 1))
    here, there = (packets.addresses.index(address) for address in ("10.0.0.3", "10.0.0.1"))
    is_later = (packets.src == here) & (packets.dst == there) & (packets.time_ns > np.median(packets.time_ns))
    two = replace(packets, sport=np.where(is_later, 99, packets.sport).astype(np.uint16))
    assert departures(trace, 2, [two]).keys() == {1}


def test_without_answers_nothing_is_known(come_ms: ComeMs) -> None:
    assert come_ms(FIVE, [(0.5, 0, 0)]) == [1, 2, 3, 20, 21]
