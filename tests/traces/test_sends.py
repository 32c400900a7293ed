"""Sends as columns and sends one by one are the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.schedules.algorithms.allpairs import all_pairs
from gradwire.traces.schedules.algorithms.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.sends import Send, Sends, swaps

N_RANKS = 5


@st.composite
def some_sends(draw: st.DrawFn) -> list[Send]:
    """Each waits for some before it."""
    sends = []
    for number in range(draw(st.integers(0, 12))):
        src, dst = draw(st.permutations(range(N_RANKS)))[:2]
        earlier = st.lists(st.integers(0, number - 1), max_size=3).map(tuple) if number else st.just(())
        sends.append(
            Send(
                op=draw(st.integers(0, 2)),
                src=src,
                dst=dst,
                offset=4 * draw(st.integers(0, 3)),
                nbytes=4 * draw(st.integers(0, 3)),
                reduce=draw(st.booleans()),
                needs=draw(earlier),
                ready=draw(earlier),
                step=draw(st.integers(0, 2)),
                shift=4 * draw(st.integers(0, 1)),
            )
        )
    return sends


@given(sends=some_sends())
def test_columns_give_back_the_sends(sends: list[Send]) -> None:
    columns = Sends.of(sends)
    assert list(columns) == sends == [columns[number] for number in range(len(sends))] == columns[:]
    assert Sends.of(columns) is columns
    assert Sends.from_json(columns.to_json()) == columns
    assert columns.pairs() == {(send.src, send.dst) for send in sends}
    for rank in range(N_RANKS):
        own = {number: send for number, send in enumerate(sends) if rank in (send.src, send.dst)}
        assert columns.of_rank(rank) == own


@given(sends=some_sends(), more=some_sends())
def test_joined_sends_wait_for_those_of_their_own_part(sends: list[Send], more: list[Send]) -> None:
    joined = list(Sends.joined([Sends.of(sends), Sends.of(more).moved(op=3, rank=N_RANKS)]))
    first = len(sends)
    assert joined[:first] == sends
    assert joined[first:] == [
        replace(
            send,
            op=send.op + 3,
            src=send.src + N_RANKS,
            dst=send.dst + N_RANKS,
            needs=tuple(first + other for other in send.needs),
            ready=tuple(first + other for other in send.ready),
        )
        for send in more
    ]


@given(sends=some_sends())
def test_two_columns_are_equal_if_all_their_sends_are(sends: list[Send]) -> None:
    for number, send in enumerate(sends):
        others = (
            replace(send, step=3),
            replace(send, needs=(*send.needs, 0)),
            replace(send, shift=8),
            replace(send, reduce=not send.reduce),
        )
        for other in others:
            assert Sends.of([*sends[:number], other, *sends[number + 1 :]]) != Sends.of(sends)


@given(sends=some_sends())
def test_swaps_are_pairs_of_adding_sends_over_the_same_bytes(sends: list[Send]) -> None:
    found = swaps(Sends.of(sends))
    assert all(found[other] == number for number, other in found.items())
    for number, other in found.items():
        one, two = sends[number], sends[other]
        assert replace(two, needs=(), ready=()) == replace(one, src=one.dst, dst=one.src, needs=(), ready=())
        assert one.reduce
        assert not one.shift
        assert one.nbytes  # who exchanges nothing holds nothing back
    for rank in range(N_RANKS):
        numbers = Sends.of(sends).numbers_of(rank)
        assert swaps(Sends.of(sends), numbers).keys() <= set(numbers.tolist())


@pytest.mark.parametrize("make", [ring, gloo_ring, all_pairs, halving_doubling, recursive_doubling])
def test_a_send_takes_about_60_bytes(make: Callable[[int, int], Sequence[Send]]) -> None:
    """The columns of 4, 8 and 1 bytes, two starts of 4, and 4 for each send that it waits for."""
    sends = Sends.of(make(16, 1 << 20))
    columns = (
        sends.op,
        sends.src,
        sends.dst,
        sends.step,
        sends.offset,
        sends.shift,
        sends.nbytes,
        sends.reduce,
    )
    edges = (*sends.needs, *sends.ready)
    n_edges = len(sends.needs.ids) + len(sends.ready.ids)
    assert sum(column.nbytes for column in (*columns, *edges)) == 49 * len(sends) + 8 + 4 * n_edges


def test_an_alike_part_of_a_million_sends_is_made_once() -> None:
    part = ring(512, 512 * 4)
    joined = Sends.joined([part.moved(op=op) for op in range(2)])
    assert len(joined) == 2 * 2 * 511 * 512
    assert np.array_equal(joined.needs.ids[len(part.needs.ids) :], part.needs.ids + len(part))
