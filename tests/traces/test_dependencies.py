"""What waits for what, from little jobs whose truth is known, with the noise that hosts have."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.recognition.dependencies import Dependency, dependencies, grid, waits
from gradwire.traces.recognition.operation import Operation

MS = 1_000_000
N_RANKS = 4
PERIOD_MS = 250


def allreduce(tag: int, nbytes: int, begun: dict[int, int], done: dict[int, int]) -> Operation:
    return Operation("allreduce", "allreduce", tag, nbytes, 0, 0, begun, done)


def one_bucket(late_ns: int, n_iterations: int = 12) -> tuple[list[Operation], list[int]]:
    """An allreduce an iteration, 2 ms of compute before it; rank 1 seems to end number 5 `late_ns` late."""
    made = []
    for number in range(n_iterations):
        begin = number * PERIOD_MS * MS
        begun = dict.fromkeys(range(N_RANKS), begin)
        done = dict.fromkeys(range(N_RANKS), begin + (PERIOD_MS - 2) * MS)
        if number == 5:
            done[1] += late_ns
        made.append(allreduce(number, 1000, begun, done))
    return made, list(range(n_iterations))


@pytest.mark.parametrize("late_ms", [0, 1, 2.5, 4])
def test_one_iteration_that_seems_to_end_late_does_not_lose_what_the_next_one_waited_for(
    late_ms: float,
) -> None:
    made, iterations = one_bucket(int(late_ms * MS))
    found = waits(made, iterations, {})
    assert found[6, 1].after == (5,)
    assert found[6, 1].gap_ns == max(0, int((2 - late_ms) * MS))
    assert all(
        wait.gap_ns == 2 * MS and wait.after == (number - 1,)
        for (number, rank), wait in found.items()
        if (number, rank) != (6, 1)
    )


def test_across_a_missing_allreduce_the_gap_is_not_a_whole_iteration() -> None:
    made, iterations = one_bucket(0)
    made.pop(5)
    iterations.pop(5)
    found = waits(made, iterations, {})
    assert (5, 0) not in found  # nothing is known that it waited for
    assert all(wait.gap_ns == 2 * MS for wait in found.values())


def buckets(asynchronous: bool = False) -> tuple[list[Operation], list[int]]:
    """Three buckets an iteration, by two threads: the third begins when the first is complete.

    Asynchronous: an iteration does not wait for the reduction of the one before, but for that before it.
    """
    made: list[Operation] = []
    iterations: list[int] = []
    for number in range(8):
        start = number * (60 if asynchronous else 200) * MS
        for place, (begin, end) in enumerate(((10, 90), (20, 100), (92, 150))):
            begun = dict.fromkeys(range(N_RANKS), start + begin * MS)
            done = dict.fromkeys(range(N_RANKS), start + end * MS)
            made.append(allreduce(3 * number + place, 1000 * (place + 1), begun, done))
            iterations.append(number)
    order = sorted(range(len(made)), key=lambda n: made[n].begin_ns)
    return [made[n] for n in order], [iterations[n] for n in order]


def test_an_iteration_waits_for_all_buckets_of_the_one_before_and_buckets_in_flight_for_none() -> None:
    made, iterations = buckets()
    assert dependencies(grid(made, iterations)) == {
        0: (Dependency(1, 1), Dependency(1, 2)),
        1: (Dependency(1, 1), Dependency(1, 2)),
        2: (Dependency(0, 0),),
    }
    found = waits(made, iterations, {})
    assert {found[number, 0].gap_ns for number in range(5, 24, 3)} == {2 * MS}


def test_a_job_that_reduces_while_it_computes_the_next_iteration_waits_for_the_one_before_that() -> None:
    made, iterations = buckets(asynchronous=True)
    found = dependencies(grid(made, iterations))
    assert all(dependency.lag == 2 for dependency in found[0])


def test_a_bucket_that_begins_when_either_of_two_in_flight_is_complete_was_queued() -> None:
    """gloo's two threads: the third bucket begins when the first or the second is complete, 1 ms later."""
    made: list[Operation] = []
    for number in range(8):
        start = number * 400 * MS
        ends = (300, 320) if number % 2 else (320, 300)
        for place, (begin, end) in enumerate(((10, ends[0]), (20, ends[1]), (301, 390))):
            begun = dict.fromkeys(range(N_RANKS), start + begin * MS)
            done = dict.fromkeys(range(N_RANKS), start + end * MS)
            made.append(allreduce(3 * number + place, 1000 * (place + 1), begun, done))
    found = waits(made, [number // 3 for number in range(24)], {})
    for number in range(5, 24, 3):
        iteration = number // 3
        assert found[number, 0].gap_ns == 1 * MS
        assert found[number, 0].after[-1] == number - 2 + (iteration % 2 == 0)


@pytest.mark.parametrize("early_ms", [5, 15, 25])
def test_a_queued_bucket_whose_begin_was_recovered_early_did_not_compute_meanwhile(early_ms: int) -> None:
    """One rank in four seems to begin it before anything is complete, by less than a tenth of the 311 ms
    since the iteration before.
    """
    made: list[Operation] = []
    for number in range(8):
        start = number * 400 * MS
        for place, (begin, end) in enumerate(((10, 300), (20, 320), (301, 390))):
            begun = dict.fromkeys(range(N_RANKS), start + begin * MS)
            if place == 2:
                begun[number % N_RANKS] -= (early_ms + 1) * MS
            done = dict.fromkeys(range(N_RANKS), start + end * MS)
            made.append(allreduce(3 * number + place, 1000 * (place + 1), begun, done))
    found = waits(made, [number // 3 for number in range(24)], {})
    for number in range(5, 24, 3):
        early = number // 3 % N_RANKS
        assert {found[number, rank].gap_ns for rank in range(N_RANKS) if rank != early} == {1 * MS}
        assert found[number, early].gap_ns == 0
        assert found[number, early].after[-1] == number - 2


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 4))
def test_what_a_synchronous_job_waits_for_is_found_whatever_the_noise(
    seed: int, n_ranks: int, n_buckets: int
) -> None:
    """Hosts notice 0 to 0.9 ms late that an allreduce is complete: less than the tolerance."""
    random = Random(seed)
    made: list[Operation] = []
    iterations: list[int] = []
    ends = [0] * n_ranks
    truth: dict[tuple[int, int], int] = {}
    for iteration in range(6):
        ready = [end + random.randrange(1 * MS, 30 * MS) for end in ends]
        done = []
        for bucket in range(n_buckets):
            begun = [ns + bucket * 5 * MS for ns in ready]
            done.append(max(begun) + random.randrange(50 * MS, 300 * MS))
            made.append(
                allreduce(
                    len(made),
                    1000 + bucket,
                    dict(enumerate(begun)),
                    {r: done[-1] + random.randrange(900_000) for r in range(n_ranks)},
                )
            )
            iterations.append(iteration)
        for rank in range(n_ranks):
            truth[iteration, rank] = ready[rank] - ends[rank]
        ends = [max(done)] * n_ranks
    found = waits(made, iterations, {})
    for (number, rank), wait in found.items():
        first = iterations[number] * n_buckets
        if number == first and wait.measured:
            assert abs(wait.gap_ns - truth[iterations[number], rank]) < MS
            assert {iterations[n] for n in wait.after} == {iterations[number] - 1}
    assert sum(number % n_buckets == 0 for number, _ in found) == 5 * n_ranks


def test_a_job_with_very_many_places_is_left_to_its_times() -> None:
    made = [allreduce(number, 4 * number, {0: number}, {0: number + 1}) for number in range(20_000)]
    assert dependencies(grid(made, [number // 10_000 for number in range(20_000)])) == {}
