"""Which bytes were seen, when, and where to read them, against a byte-by-byte account."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.packets.cover import Timeline, Visible, are_among, cover

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), min_size=1, max_size=25)


def arrays(ranges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([first for first, _ in ranges], np.int64)
    return start, start + np.array([count for _, count in ranges], np.int64)


def owners(ranges: list[tuple[int, int]]) -> dict[int, int]:
    """Byte by byte, the first range that covers it."""
    owner: dict[int, int] = {}
    for number, (first, count) in enumerate(ranges):
        for byte in range(first, first + count):
            owner.setdefault(byte, number)
    return owner


@given(RANGES)
def test_each_byte_belongs_to_the_first_range_that_covers_it(ranges: list[tuple[int, int]]) -> None:
    found = cover(*arrays(ranges))
    pieces = zip(found.start.tolist(), found.end.tolist(), found.source.tolist(), strict=True)
    assert {byte: source for a, b, source in pieces for byte in range(a, b)} == owners(ranges)
    assert np.all(found.start[1:] >= found.end[:-1])


@given(RANGES)
def test_a_byte_has_the_time_of_the_packet_that_first_brought_it(ranges: list[tuple[int, int]]) -> None:
    expected = owners(ranges)
    found = cover(*arrays(ranges))
    if not len(found.start):
        assert not expected
        return
    seen = Timeline(found, found.source * 100)
    bytes_seen = sorted(expected)
    assert seen.first_seen_ns(bytes_seen).tolist() == [expected[byte] * 100 for byte in bytes_seen]
    latest = np.maximum.accumulate([expected[byte] * 100 for byte in bytes_seen])
    assert seen.in_order.first_seen_ns(bytes_seen).tolist() == latest.tolist()


@given(RANGES, st.integers(0, 70), st.integers(1, 20))
def test_reading_gives_the_bytes_up_to_the_first_that_is_not_there(
    ranges: list[tuple[int, int]], offset: int, nbytes: int
) -> None:
    truth = bytes(range(100))
    start, end = arrays(ranges)
    files = [
        np.frombuffer(b"##" + truth[a:b], np.uint8) for a, b in zip(start.tolist(), end.tolist(), strict=True)
    ]
    visible = Visible(cover(start, end), files, (np.arange(len(ranges)), 2 - start))
    have = owners(ranges)
    count = 0
    while count < nbytes and offset + count in have:
        count += 1
    assert visible.read(offset, nbytes) == truth[offset : offset + count]


@pytest.mark.parametrize("seed", range(20))
def test_values_are_among_others_as_numpy_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    values, ordered = draw.integers(0, 50, seed), np.sort(draw.integers(0, 50, 2 * seed % 23))
    assert are_among(values, ordered).tolist() == np.isin(values, ordered).tolist()


@given(RANGES, st.data())
def test_what_a_second_point_saw_again_changes_no_piece(
    ranges: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Repeats of ranges, alone or joined, beside all that was seen, against the account byte by byte."""
    once = cover(*arrays(ranges))
    pieces = list(zip(once.start.tolist(), once.end.tolist(), strict=True))
    numbers = st.lists(st.integers(0, max(0, len(pieces) - 1)), max_size=8)
    again = [pieces[number] for number in data.draw(numbers) if pieces]
    joined = [(a, d) for (a, b), (c, d) in pairwise(pieces) if data.draw(st.booleans())]
    seen = [(a, b - a) for a, b in [*pieces, *again, *joined]]
    found = cover(*arrays(seen))
    cuts = sorted({cut for a, n in seen for cut in (a, a + n)})
    owner = owners(seen)
    expected = [(a, b, owner[a]) for a, b in pairwise(cuts) if a in owner]
    assert list(zip(found.start.tolist(), found.end.tolist(), found.source.tolist(), strict=True)) == expected
