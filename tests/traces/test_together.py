"""When messages were written that a rank writes together: made iterations with known answers."""

from collections.abc import Sequence

import numpy as np
import pytest

from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.ports import port_of
from gradwire.traces.recognition.starts import starts
from gradwire.traces.recognition.together import Written, latest_ns

MS = 1_000_000
Range = tuple[float, float]  # when a message was written, at the earliest and at the latest, in ms
AT_ONCE, OPEN, APART = (0.1, 0.6), (0.1, 5.0), (3.0, 3.0)


def latest_ms(
    iterations: Sequence[tuple[int, Sequence[Range]]],
    between: str = "nothing",
    sizes: Sequence[int] = (),
    n_set_up: int = 0,
) -> list[list[float]]:
    """Of iterations 100 ms apart: a rank and the messages that it writes, to ranks 0, 1 and so on, after
    something came in.
    """
    operations: list[Operation] = []
    written = []
    steady = set()

    def add(src: int, dst: int, nbytes: int = 170_000) -> int:
        operations.append(Operation("message", "send", 0, nbytes, src, dst, {src: 0}, {}))
        return len(operations) - 1

    for place, (rank, some) in enumerate(iterations):
        after: tuple[int, ...] = (add(0, rank),)
        for dst, (early_ms, late_ms) in enumerate(some):
            if dst and between == "an arrival":
                after = (*after, add(1, rank))
            elif dst and between == "the end of the first":
                after = (len(operations) - 1,)  # which says that what it waited for was complete
            number = add(rank, dst, sizes[place] if sizes else 170_000)
            times = (round((100 * place + ms) * MS) for ms in (early_ms, late_ms))
            written.append(Written(number, after, *times))
            steady |= {number} if place >= n_set_up else set()
    found = iter(latest_ns(written, operations, steady).values())
    return [
        [round(next(found) / MS - 100 * place, 6) for _ in some] for place, (_, some) in enumerate(iterations)
    ]


def pushes(rank: int, *seconds: Range) -> list[tuple[int, list[Range]]]:
    """In each iteration one at once, and another then."""
    return [(rank, [(0, 0), second]) for second in seconds]


@pytest.mark.parametrize("other", [5, 6])
def test_what_is_written_at_once_elsewhere_is_so_where_it_had_to_queue(other: int) -> None:
    """At the same rank, and at another with the same peers."""
    found = latest_ms([*pushes(5, *[AT_ONCE] * 3), *pushes(other, OPEN)])
    assert found == [*[[0, 0.6]] * 3, [0, 1]]


def test_ranks_with_other_peers_do_not_say_it() -> None:
    other = [(6, [(0, 0), OPEN, OPEN])]  # three peers
    assert latest_ms([*pushes(5, *[AT_ONCE] * 3), *other])[-1] == [0, 5, 5]


def test_nor_do_messages_of_other_sizes_or_of_set_up() -> None:
    """Ranks greet each other, or register, at once; what they compute they send layer by layer."""
    some = pushes(5, *[AT_ONCE] * 4, OPEN)
    assert latest_ms(some, sizes=[*[200] * 4, 170_000])[-1] == [0, 5]
    assert latest_ms(some, n_set_up=4)[-1] == [0, 5]
    assert latest_ms(pushes(5, OPEN, *[AT_ONCE] * 4), n_set_up=1)[0] == [0, 5]


def test_nor_does_what_came_third_say_it_of_what_came_second() -> None:
    three = [(5, [(0, 0), OPEN, each]) for each in (*[(0.2, 0.6)] * 3, OPEN)]
    assert latest_ms(three)[-1] == [0, 5, 5]
    both = [(5, [(0, 0), AT_ONCE, (0.2, 0.6)])] * 3
    assert latest_ms([*both, (5, [(0, 0), OPEN, OPEN])])[-1] == [0, 1, 2]


@pytest.mark.parametrize(
    ("n_together", "n_apart", "n_open", "known"),
    [(2, 0, 1, False), (9, 1, 1, True), (8, 1, 1, False), (4, 0, 76, True), (4, 0, 77, False)],
)
def test_few_that_show_it_or_one_in_ten_that_was_written_later_decide_nothing(
    n_together: int, n_apart: int, n_open: int, known: bool
) -> None:
    found = latest_ms(pushes(5, *[AT_ONCE] * n_together, *[APART] * n_apart, *[OPEN] * n_open))
    assert found[-n_open:] == [[0, 1 if known else 5]] * n_open
    assert found[:-n_open] == [*[[0, 0.6]] * n_together, *[[0, 3]] * n_apart]


def test_a_rank_that_shows_otherwise_itself_is_left_as_it_is() -> None:
    others = [one for rank in (4, 5, 6) for one in pushes(rank, *[AT_ONCE] * 10)]
    assert latest_ms([*others, *pushes(7, APART, OPEN)])[-1] == [0, 5]


def test_where_others_often_write_later_a_rank_that_shows_nothing_may_have_too() -> None:
    assert latest_ms([*pushes(4, *[AT_ONCE] * 8, *[APART] * 3), *pushes(7, OPEN)])[-1] == [0, 5]


@pytest.mark.parametrize(("between", "until_ms"), [("an arrival", 5), ("the end of the first", 1)])
def test_what_had_to_wait_for_an_arrival_was_not_written_together(between: str, until_ms: float) -> None:
    some = pushes(5, *[AT_ONCE] * 5, OPEN)
    assert latest_ms(some, between)[-1] == [0, until_ms]


def test_a_message_that_was_clearly_written_later_is_left_as_it_is() -> None:
    assert latest_ms(pushes(5, *[AT_ONCE] * 9, (3.0, 5.0)))[-1] == [0, 5]


def test_what_left_an_idle_port_later_says_that_it_was_written_later() -> None:
    """By the packets: 30 of 34 second pushes left 50 ms after the first; the 35th left behind its data."""
    operations, left_ms = [], []
    for iteration in range(35):
        at_ms = 200 * iteration
        is_open, is_apart = iteration == 34, iteration < 30
        second_ms = at_ms + (70 if is_apart else 19 if is_open else 0.5)
        operations += [
            message(0, 2, at_ms - 20, at_ms - 1),
            message(2, 0, at_ms, at_ms + (30 if is_open else 16)),
            message(2, 1, second_ms, max(second_ms, at_ms + 16) + 14),
        ]
        left_ms += [
            *np.arange(at_ms, at_ms + 32, 2),
            *(np.arange(at_ms + 70, at_ms + 84, 2) if is_apart else ()),
        ]
    port = port_of(np.array(left_ms, np.int64) * MS, np.full(len(left_ms), 25_000, np.int64))
    assert port is not None
    (last,) = starts(operations, ports={2: port})[-1]
    assert last.readiness is not None
    assert last.readiness.most_ns - last.readiness.least_ns > 8 * MS


def message(src: int, dst: int, begin_ms: float, end_ms: float) -> Operation:
    begun_ns, done_ns = round(begin_ms * MS), round(end_ms * MS)
    done = {src: done_ns, dst: done_ns}
    return Operation("message", "send", 0, 170_000, src, dst, {src: begun_ns}, done, data_ns=begun_ns)
