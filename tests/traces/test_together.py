"""When messages were written that a rank writes together: made iterations with known answers."""

from collections.abc import Sequence

import pytest

from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.together import Written, latest_ns

MS = 1_000_000
Range = tuple[float, float]  # when a message was written, at the earliest and at the latest, in ms
AT_ONCE, OPEN, APART = (0.1, 0.6), (0.1, 5.0), (3.0, 3.0)


def latest_ms(ranges: Sequence[tuple[int, Sequence[Range]]], between: str = "nothing") -> list[list[float]]:
    """Of iterations 100 ms apart: a rank and the messages that it writes, to ranks 0, 1 and so on."""
    operations: list[Operation] = []
    written = []
    for iteration, (rank, some) in enumerate(ranges):
        at_ns = 100 * MS * iteration
        for dst, each in enumerate(some):
            early_ns, late_ns = (at_ns + round(ms * MS) for ms in each)
            number = len(operations)
            after: tuple[int, ...] = (1000 + iteration,)
            if dst and between != "nothing":
                after += (2000,) if between == "an arrival" else (number - 1,)
            operations.append(Operation("message", "send", 0, 9, rank, dst, {rank: late_ns}, {}))
            written.append(Written(number, after, early_ns, late_ns))
    found = latest_ns(written, operations)
    numbers = iter(range(len(operations)))
    return [
        [(found[next(numbers)] - 100 * MS * iteration) / MS for _ in some]
        for iteration, (_, some) in enumerate(ranges)
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


def test_nor_does_what_came_third_say_it_of_what_came_second() -> None:
    three = [(5, [(0, 0), OPEN, each]) for each in (*[(0.2, 0.6)] * 3, OPEN)]
    assert latest_ms(three)[-1] == [0, 5, 5]
    both = [(5, [(0, 0), AT_ONCE, (0.2, 0.6)])] * 3
    assert latest_ms([*both, (5, [(0, 0), OPEN, OPEN])])[-1] == [0, 1, 2]


@pytest.mark.parametrize(("n_together", "n_apart", "known"), [(2, 0, False), (9, 1, True), (8, 1, False)])
def test_few_that_show_it_or_one_in_ten_that_was_written_later_decide_nothing(
    n_together: int, n_apart: int, known: bool
) -> None:
    found = latest_ms(pushes(5, *[AT_ONCE] * n_together, *[APART] * n_apart, OPEN))
    assert found[-1] == [0, 1 if known else 5]
    assert found[:-1] == [*[[0, 0.6]] * n_together, *[[0, 3]] * n_apart]


@pytest.mark.parametrize(("between", "until_ms"), [("an arrival", 5), ("the end of the first", 1)])
def test_what_had_to_wait_for_an_arrival_was_not_written_together(between: str, until_ms: float) -> None:
    some = pushes(5, *[AT_ONCE] * 5, OPEN)
    assert latest_ms(some, between)[-1] == [0, until_ms]


def test_a_message_was_not_written_before_the_earliest() -> None:
    assert latest_ms(pushes(5, *[AT_ONCE] * 9, (3.0, 5.0)))[-1] == [0, 3]
