"""Which of the packets sent each packet seen at a port is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.inject.times import Fields, Seen, arrivals, keys, paired


def seen(key: list[int], times: list[int]) -> Seen:
    return Seen(np.array(key, np.uint64), np.array(times, np.int64))


def test_the_nth_that_was_sent_is_the_nth_of_its_kind_that_was_seen() -> None:
    sent, found = np.array([5, 9, 5, 5, 7], np.uint64), np.array([9, 5, 8, 5], np.uint64)
    assert paired(sent, found).tolist() == [1, 0, 3, -1, -1]


@given(st.lists(st.integers(0, 4)), st.lists(st.integers(0, 4)))
def test_pairs_are_equal_and_nothing_is_paired_twice(sent: list[int], found: list[int]) -> None:
    places = paired(np.array(sent, np.uint64), np.array(found, np.uint64)).tolist()
    there = [place for place in places if place >= 0]
    assert len(there) == len(set(there)) == sum(min(sent.count(k), found.count(k)) for k in set(sent))
    assert all(place < 0 or sent[row] == found[place] for row, place in enumerate(places))


def test_a_loss_in_the_first_loop_does_not_make_the_second_loops_packet_its_own() -> None:
    sent = seen([1, 2, 1, 2], [0, 10, 1000, 1010])
    came = seen([2, 1, 2], [15, 1005, 1015])
    assert arrivals(sent, came).tolist() == [-1, 0, 1, 2]


def test_packets_that_were_under_way_together_arrive_in_the_order_in_which_they_left() -> None:
    sent = seen([1, 1, 1], [0, 10, 20])
    assert arrivals(sent, seen([1, 1], [100, 110])).tolist() == [-1, 0, 1]


def test_an_arrival_before_anything_left_is_nobodys() -> None:
    assert arrivals(seen([1, 1], [50, 60]), seen([1], [40])).tolist() == [-1, -1]


def fields(**changed: int) -> Fields:
    values = dict.fromkeys(Fields._fields, 1) | {"protocol": 6} | changed
    return Fields(**{name: np.array([value]) for name, value in values.items()})


def test_any_field_that_differs_makes_another_packet_and_equal_ones_the_same() -> None:
    ends = np.array([0]), np.array([1])
    one = keys(*ends, fields())
    assert keys(*ends, fields()) == one
    others = [keys(*ends, fields(**{name: 17}))[0] for name in Fields._fields]
    others += [keys(ends[1], ends[0], fields())[0]]
    assert one[0] not in others
    assert len(set(others)) == len(others)
