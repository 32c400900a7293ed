"""What an operation waited for, in little worlds of two or three ranks."""

from traces.recognition.operation import Operation
from traces.recognition.starts import starts


def reduce(tag: int, begun: dict[int, int], done: dict[int, int]) -> Operation:
    return Operation("allreduce", "allreduce", tag, 100, 0, 0, begun, done)


def send(src: int, dst: int, begun: int, sent: int, arrived: int) -> Operation:
    return Operation("message", "send", 1, 10, src, dst, {src: begun}, {src: sent, dst: arrived})


def afters(operations: list[Operation]) -> list[dict[int, tuple[int, ...]]]:
    return [{start.rank: start.after for start in some} for some in starts(operations)]


def gaps(operations: list[Operation]) -> list[dict[int, int]]:
    return [{start.rank: start.gap_ns for start in some} for some in starts(operations)]


def test_the_next_begins_after_the_last_and_its_gap_is_the_compute_between() -> None:
    both = [reduce(1, {0: 0, 1: 3}, {0: 10, 1: 12}), reduce(2, {0: 15, 1: 40}, {0: 50, 1: 50})]
    assert afters(both)[1] == {0: (0,), 1: (0,)}
    assert gaps(both) == [{0: 0, 1: 0}, {0: 5, 1: 28}]


def test_overlapping_buckets_do_not_wait_for_each_other() -> None:
    world = [reduce(1, {0: 0}, {0: 10}), reduce(2, {0: 20}, {0: 60}), reduce(3, {0: 30}, {0: 50})]
    assert afters(world)[2] == {0: (0,)}
    assert gaps(world)[2] == {0: 20}


def test_after_overlapping_buckets_all_of_them_are_waited_for_and_nothing_older() -> None:
    world = [
        reduce(1, {0: 0}, {0: 10}),
        reduce(2, {0: 20}, {0: 60}),
        reduce(3, {0: 30}, {0: 50}),
        reduce(4, {0: 75}, {0: 80}),
    ]
    assert afters(world)[3] == {0: (1, 2)}
    assert gaps(world)[3] == {0: 15}


def test_what_begins_before_anything_is_complete_keeps_its_distance_from_the_first() -> None:
    world = [reduce(1, {0: 100}, {0: 900}), reduce(2, {0: 130}, {0: 910})]
    assert afters(world)[1] == {0: ()}
    assert gaps(world)[1] == {0: 30}


def test_a_server_waits_for_what_it_received() -> None:
    world = [send(1, 0, 0, 5, 9), send(2, 0, 1, 6, 8), send(0, 1, 20, 25, 30)]
    assert afters(world)[2] == {0: (0, 1)}
    assert gaps(world)[2] == {0: 11}


def test_an_answer_implies_the_question_at_the_one_who_asked() -> None:
    world = [send(1, 0, 0, 5, 9), send(0, 1, 20, 25, 30), send(1, 0, 47, 50, 60)]
    assert afters(world)[2] == {1: (1,)}
    assert gaps(world)[2] == {1: 17}


def test_sends_that_overlap_at_their_source_wait_for_the_same() -> None:
    world = [send(1, 0, 0, 5, 9), send(0, 1, 20, 40, 45), send(0, 2, 21, 41, 46)]
    assert afters(world)[2] == {0: (0,)}
    assert gaps(world)[2] == {0: 12}
