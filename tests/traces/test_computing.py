"""What ranks computed becomes items: chained, closing iterations, with what is usual and what is unknown."""

from gradwire.traces.recognition.computing import with_computing
from gradwire.traces.recognition.dependencies import Readiness
from gradwire.traces.recognition.starts import Beginning
from gradwire.traces.workload import Collective, Compute, Item, Message, Start, Usual

MS = 1_000_000


def bucket(iteration: int, nbytes: int = 400) -> Collective:
    return Collective(kind="allreduce", tag=0, nbytes=nbytes, iteration=iteration)


def shown(items: list[Item]) -> list[tuple[str, int, tuple[int, ...], int]]:
    """Of what rank 0 does: kind, iteration, what it waits for, ms."""
    return [
        (
            item.kind,
            item.iteration,
            item.begins[0].after,
            item.duration_ns // MS if isinstance(item, Compute) else 0,
        )
        for item in items
    ]


def test_what_leads_to_the_next_iteration_closes_the_one_before_and_the_last_is_closed_as_well() -> None:
    begins = [[Beginning(0)], [Beginning(0, (0,), 30 * MS)], [Beginning(0, (1,), 50 * MS)]]
    items = with_computing([bucket(0), bucket(1), bucket(2)], begins, {})
    assert shown(items) == [
        ("allreduce", 0, (), 0),
        ("compute", 0, (0,), 30),
        ("allreduce", 1, (1,), 0),
        ("compute", 1, (2,), 50),
        ("allreduce", 2, (3,), 0),
        ("compute", 2, (4,), 40),  # the median of the two that the capture shows
    ]
    usual = Usual(median_ns=40 * MS, low_ns=32 * MS, high_ns=48 * MS, n=2)
    assert [item.usual for item in items if isinstance(item, Compute)] == [usual] * 3


def test_a_last_iteration_that_is_cut_off_is_not_closed() -> None:
    two = [bucket(0), bucket(0, 800), bucket(1), bucket(1, 800), bucket(2)]
    begins = [
        [Beginning(0)],
        [Beginning(0)],
        [Beginning(0, (0, 1), 30 * MS)],
        [Beginning(0, (0, 1), 30 * MS)],
        [Beginning(0, (2, 3), 30 * MS)],
    ]
    assert shown(with_computing(two, begins, {}))[-1] == ("allreduce", 2, (5,), 0)


def test_computing_goes_on_behind_a_bucket_in_flight() -> None:
    """Two buckets that wait for the same, 30 and 45 ms after it: 30 ms are computed, then 15 ms more."""
    items = [bucket(0), bucket(1), bucket(1, 800)]
    begins = [[Beginning(0)], [Beginning(0, (0,), 30 * MS)], [Beginning(0, (0,), 45 * MS)]]
    assert shown(with_computing(items, begins, {})) == [
        ("allreduce", 0, (), 0),
        ("compute", 0, (0,), 30),
        ("allreduce", 1, (1,), 0),
        ("compute", 1, (1,), 15),
        ("allreduce", 1, (3,), 0),
    ]


def test_a_bucket_that_queued_was_ready_within_a_range() -> None:
    """It began when bucket 1 was complete, and was ready after 30 ms at the earliest, 80 ms at the latest."""
    items = [bucket(0), bucket(1), bucket(1, 800)]
    ready = Readiness((0,), 30 * MS, 80 * MS)
    begins = [[Beginning(0)], [Beginning(0, (0,), 30 * MS)], [Beginning(0, (0, 1), 0, ready)]]
    made = with_computing(items, begins, {})
    assert shown(made)[3:] == [("compute", 1, (1,), 0), ("allreduce", 1, (0, 2, 3), 0)]
    queued = made[3]
    assert isinstance(queued, Compute)
    assert (queued.least_ns, queued.most_ns) == (0, 50 * MS)


def test_what_is_computed_for_a_set_up_belongs_to_it() -> None:
    begins = [[Beginning(0)], [Beginning(0, (0,), 5 * MS)], [Beginning(0, (1,), 7 * MS)]]
    items = with_computing([bucket(0), bucket(-1), bucket(1)], begins, {})
    assert [item.iteration for item in items if isinstance(item, Compute)] == [-1, 1]


def test_what_is_asked_for_together_with_a_send_waits_for_what_was_computed_before_that() -> None:
    """Rank 1 takes an answer, computes, and announces its push and asks for the next answer at once."""
    answers = [
        Message(src=0, dst=1, nbytes=8, start=Start(rank=0), ready=Start(rank=1, after=after))
        for after in ((), (0,))
    ]
    push = Message(src=1, dst=0, nbytes=8, start=Start(rank=1))
    begins = [[Beginning(0)], [Beginning(1, (0,), 30 * MS)], [Beginning(0, (1,))]]
    for together_with, ready in (({}, (0,)), ({2: 1}, (0, 1))):
        made = with_computing([answers[0], push, answers[1]], begins, together_with)
        assert shown(made)[1:3] == [("compute", 0, (0,), 30), ("message", 0, (1,), 0)]
        assert isinstance(made[3], Message)
        assert made[3].ready == Start(rank=1, after=ready)


def test_what_a_host_took_to_the_program_and_from_it_is_part_of_the_computing_but_counts_once() -> None:
    """Of two buckets that wait for the same, 2 ms before the first; what lies between them stays."""
    begins = [
        [Beginning(0)],
        [Beginning(0, (0,), 30 * MS, host_ns=2 * MS)],
        [Beginning(0, (0,), 45 * MS, host_ns=2 * MS)],
    ]
    assert shown(with_computing([bucket(0), bucket(1), bucket(1, 800)], begins, {})) == [
        ("allreduce", 0, (), 0),
        ("compute", 0, (0,), 32),
        ("allreduce", 1, (1,), 0),
        ("compute", 1, (1,), 15),
        ("allreduce", 1, (3,), 0),
    ]


def test_of_a_bucket_that_queued_what_the_host_took_is_before_it_was_ready_and_counts_once() -> None:
    """As the one before it: 30 ms of computing and 2 of the host lead to both."""
    ready = Readiness((0,), 30 * MS, 80 * MS)
    begins = [
        [Beginning(0)],
        [Beginning(0, (0,), 30 * MS, host_ns=2 * MS)],
        [Beginning(0, (0, 1), 0, ready, host_ns=2 * MS)],
    ]
    made = with_computing([bucket(0), bucket(1), bucket(1, 800)], begins, {})
    assert shown(made)[1:] == [
        ("compute", 0, (0,), 32),
        ("allreduce", 1, (1,), 0),
        ("compute", 1, (1,), 0),
        ("allreduce", 1, (0, 2, 3), 0),
    ]
    queued = made[3]
    assert isinstance(queued, Compute)
    assert (queued.least_ns, queued.most_ns) == (0, 50 * MS)
