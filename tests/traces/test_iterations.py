"""Finding iterations in sequences of allreduces and of pushes and pulls."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.recognition.iterations import Broadcasts, equal_runs, label
from gradwire.traces.recognition.operation import Operation


def runs(sizes: list[int], before: dict[int, Broadcasts] | None = None) -> list[tuple[int, int]]:
    return equal_runs(sizes, [(before or {}).get(i, ()) for i in range(len(sizes) + 1)])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([5, 5, 5], [(0, 1), (1, 2), (2, 3)]),
        ([9, 2, 3, 4, 2, 3, 4], [(0, 1), (1, 4), (4, 7)]),  # one bucket, then rebuilt ones
        ([2, 3, 4, 2, 3, 4], [(0, 3), (3, 6)]),  # a capture that began later
        ([1, 9, 2, 7, 2, 7], [(1, 2), (2, 4), (4, 6)]),  # something else first
        ([2, 3, 2, 3, 2], [(0, 2), (2, 4), (4, 5)]),  # a capture that ended early
        ([1, 2, 4, 8, 16], [(0, 5)]),  # a sweep of sizes repeats nothing
        ([7], [(0, 1)]),
    ],
)
def test_iterations_are_runs_with_the_same_sum(sizes: list[int], expected: list[tuple[int, int]]) -> None:
    assert runs(sizes) == expected


@given(st.lists(st.integers(1, 6), min_size=1, max_size=14))
def test_runs_join_up_and_have_equal_sums_but_for_an_incomplete_last(sizes: list[int]) -> None:
    found = runs(sizes)
    sums = [sum(sizes[first:last]) for first, last in found]
    assert all(last == first for (_, last), (first, _) in pairwise(found))
    assert found[-1][1] == len(sizes)
    assert set(sums[:-1]) <= {sums[0]}
    assert sums[-1] <= sums[0]


def test_equal_buckets_are_told_apart_by_the_broadcasts_before_them() -> None:
    buffers: dict[int, Broadcasts] = {0: ((8, 0),), 2: ((8, 0),), 4: ((8, 0),)}
    assert runs([5, 5, 5, 5, 5, 5], buffers) == [(0, 2), (2, 4), (4, 6)]


def message(src: int, dst: int, begin_ns: int, tag: int = 1) -> Operation:
    return Operation(
        "message", "send", tag, 10, src, dst, {src: begin_ns}, {src: begin_ns + 1, dst: begin_ns + 2}
    )


def test_the_hub_of_a_star_is_the_server_whoever_sends_first() -> None:
    labels = label([message(1, 0, 0), message(2, 0, 1), message(0, 1, 5), message(0, 2, 6), message(1, 0, 9)])
    assert labels.roles == ("push", "push", "pull", "pull", "push")
    assert labels.iterations == (0, 0, 0, 0, 1)


def test_a_push_in_several_messages_is_one_push() -> None:
    sends = [
        message(0, 1, 0),
        message(1, 0, 1),
        message(1, 0, 2),
        message(0, 1, 3),
        message(0, 1, 4),
        message(1, 0, 5),
    ]
    assert label(sends).iterations == (-1, 0, 0, 0, 0, 1)


def test_messages_round_a_ring_of_three_have_no_server() -> None:
    labels = label([message(0, 1, 0), message(1, 2, 1), message(2, 0, 2)])
    assert set(labels.roles) == {"other"}
    assert set(labels.iterations) == {0}


def collective(kind: str, tag: int, nbytes: int, begin_ns: int) -> Operation:
    both = {0: begin_ns, 1: begin_ns}
    done = dict.fromkeys(both, begin_ns + 5)
    return Operation("allreduce" if kind == "allreduce" else "broadcast", kind, tag, nbytes, 0, 0, both, done)


def test_a_barrier_belongs_to_the_iteration_that_it_is_in() -> None:
    barrier = [Operation("message", "barrier", 9, 0, 0, 1, {0: ns}, {0: ns, 1: ns + 1}) for ns in (0, 20, 40)]
    reduces = [collective("allreduce", tag, 100, 10 * tag) for tag in (1, 3)]
    labels = label([barrier[0], reduces[0], barrier[1], reduces[1], barrier[2]])
    assert labels.iterations == (-1, 0, 0, 1, -1)


def test_messages_beside_collectives_make_no_server_and_no_iteration_of_their_own() -> None:
    some = [collective("allreduce", tag, 100, 10 * tag) for tag in (1, 3, 5)]
    stray = [message(0, 1, 15), message(1, 0, 16), message(0, 1, 90)]
    labels = label([some[0], *stray[:2], some[1], some[2], stray[2]])
    assert labels.servers == ()
    assert labels.iterations == (0, 0, 0, 1, 2, -1)


def test_broadcasts_alone_are_iterations_too() -> None:
    some = [collective("broadcast", tag, 100, 10 * tag) for tag in range(4)]
    assert label(some).iterations == (0, 1, 2, 3)


def test_broadcasts_behind_every_allreduce_end_its_iteration() -> None:
    """A job whose very first collective is an allreduce began so; the broadcast at its end has a place."""
    program = ["allreduce", "broadcast"] * 3
    labels = label([collective(kind, tag, 8, tag) for tag, kind in enumerate(program)])
    assert labels.iterations == (0, 0, 1, 1, 2, 2)
    later = label([collective(kind, tag, 8, tag) for tag, kind in enumerate(program, 5)])
    assert later.iterations == (0, 1, 1, 2, 2, -1)  # a capture that began within: buffers come first


def test_a_reduction_between_every_few_iterations_is_told_as_a_doubt() -> None:
    sizes = [900, 900, 900, 20] * 3
    (note,) = label([collective("allreduce", tag, n, tag) for tag, n in enumerate(sizes)]).notes
    assert "buckets in each: 4, 3 of 900 bytes, which may be as many iterations" in note
