"""The same job with gradients in buckets of another size."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.jobs import read_job
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.buckets import rebucketed
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.otherranks import other_job
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Workload

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


def captured(name: str) -> Workload:
    found = read_job([SAMPLES / name])
    assert isinstance(found, Workload)
    return found


def buckets(workload: Workload, iteration: int) -> list[int]:
    return [
        item.nbytes for item in workload.items if item.kind == "allreduce" and item.iteration == iteration
    ]


def computed_ns(workload: Workload) -> dict[tuple[int, int], int]:
    """By iteration and rank."""
    found: defaultdict[tuple[int, int], int] = defaultdict(int)
    for item in workload.items:
        if isinstance(item, Compute):
            found[item.iteration, item.rank] += item.duration_ns
    return dict(found)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (25 << 20, [26_214_400, 18_512_168]),
        (10_000_000, [10_000_000] * 4 + [4_726_568]),
        (44_726_568, [44_726_568]),
        (1 << 30, [44_726_568]),
    ],
)
def test_an_iteration_of_resnet18_is_cut_as_the_size_says(size: int, wanted: list[int]) -> None:
    """Captured as buckets of 9,461,800, 26,494,976 and 8,769,792 bytes."""
    job = captured("ddp_gloo_4_resnet18_tso")
    assert sum(buckets(job, 1)) == 44_726_568
    made = rebucketed(job, size).workload
    assert buckets(made, 1) == buckets(made, 2) == wanted
    assert computed_ns(made) == computed_ns(job)
    Workload.model_validate(made.model_dump(by_alias=True))
    check_correct(expand(made, iterations=(1,)))


def test_a_captured_bucket_is_cut_where_there_is_one() -> None:
    job = captured("ddp_gloo_8")
    made = rebucketed(job, 100_000).workload
    assert buckets(made, 1) == buckets(made, 2) == [100_000, 100_000, 100_000, 40_008]
    assert computed_ns(made) == computed_ns(job)


def test_buckets_of_the_captured_size_are_the_captured_ones() -> None:
    job = captured("ddp_gloo_8")
    assert expand(rebucketed(job, 340_008).workload) == expand(job)


def backward(computing_ns: Sequence[int], sizes: Sequence[int], waits: bool) -> Workload:
    """Two ranks that compute one bucket's gradients after the other's; where it `waits`, what is computed for
    the third one begins when the first is reduced.  What follows the last closes the iteration.
    """
    items: list[Item] = []
    before: dict[int, tuple[int, ...]] = {0: (), 1: ()}
    reduced: list[int] = []
    for k, (duration_ns, nbytes) in enumerate(zip(computing_ns, sizes, strict=True)):
        for rank in (0, 1):
            after = tuple(reduced[:1]) if waits and k == 2 else before[rank]
            before[rank] = (len(items),)
            items.append(Compute(start=Start(rank=rank, after=after), duration_ns=duration_ns * (rank + 1)))
        reduced.append(len(items))
        starts = tuple(Start(rank=rank, after=before[rank]) for rank in (0, 1))
        items.append(Collective(kind="allreduce", tag=k, nbytes=nbytes, starts=starts))
    items += (Compute(start=Start(rank=rank, after=tuple(reduced)), duration_ns=7) for rank in (0, 1))
    return Workload(schema=SCHEMA, framing="none", n_ranks=2, items=tuple(items))


def due_ns(computing_ns: Sequence[int], sizes: Sequence[int], waits: bool, size: int) -> list[float]:
    """When the gradients of each bucket of `size` are computed, if no allreduce takes any time.

    Within a captured bucket of b bytes the first x are ready after x/b of what is computed for it.
    """
    cuts = [0, *accumulate(sizes)]
    n_buckets = -(-cuts[-1] // size)
    due = [0.0] * n_buckets
    begins = ends = 0.0
    for k, duration_ns in enumerate(computing_ns):
        mine = [
            bucket
            for bucket in range(n_buckets)
            if bucket * size < cuts[k + 1] and (bucket + 1) * size > cuts[k]
        ]
        begins = ends
        if waits and k == 2:
            firsts = [due[bucket] for bucket in range(-(-sizes[0] // size)) if bucket < mine[0]]
            begins = max(float(computing_ns[0]), *firsts, 0.0)
        for bucket in mine:
            share = (min((bucket + 1) * size, cuts[k + 1]) - cuts[k]) / sizes[k]
            due[bucket] = max(due[bucket], begins + duration_ns * share)
        ends = begins + duration_ns
    return due


def ready_ns(workload: Workload, rank: int) -> list[int]:
    """When a rank is ready for each bucket if no allreduce takes any time."""
    done: list[int] = []
    ready: list[int] = []
    for item in workload.items:
        begun = [max((done[o] for o in one.after), default=0) for one in item.begins if one.rank == rank]
        done.append(max(begun, default=0) + (item.duration_ns if isinstance(item, Compute) else 0))
        if isinstance(item, Collective):
            ready += begun
    return ready


@given(
    computing=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    numbers=st.lists(st.integers(1, 1000), min_size=5, max_size=5),
    size=st.integers(1, 1500),
    waits=st.booleans(),
)
def test_a_bucket_is_ready_when_its_last_gradient_is(
    computing: list[int], numbers: list[int], size: int, waits: bool
) -> None:
    sizes = [4 * number for number in numbers[: len(computing)]]
    job = backward(computing, sizes, waits)
    made = Workload.model_validate(rebucketed(job, 4 * size).workload.model_dump(by_alias=True))
    total = sum(sizes)
    assert buckets(made, 0) == [4 * size] * (total // (4 * size)) + [r for r in (total % (4 * size),) if r]
    for rank in (0, 1):
        wanted = due_ns([ns * (rank + 1) for ns in computing], sizes, waits, 4 * size)
        assert ready_ns(made, rank) == pytest.approx(wanted, abs=2)  # two cuts, each rounded down
    assert computed_ns(made) == computed_ns(job)
    closing = [item for item in made.items if isinstance(item, Compute) and item.duration_ns == 7][-2:]
    reduced = {number for number, item in enumerate(made.items) if item.kind == "allreduce"}
    assert [set(item.start.after) for item in closing] == [reduced] * 2


def test_what_is_computed_waits_for_earlier_buckets_and_not_for_its_own() -> None:
    """What is computed for the third bucket waited for the first one, which one bucket with it holds."""
    apart = rebucketed(backward([10, 10, 10], [8, 8, 8], waits=True), 8).workload
    third = [item for item in apart.items if isinstance(item, Compute)][4]
    assert [apart.items[other].kind for other in third.start.after] == ["allreduce"]
    joined = rebucketed(backward([10, 10, 10], [8, 8, 8], waits=True), 24).workload
    assert [item.kind for item in joined.items] == ["compute"] * 6 + ["allreduce"] + ["compute"] * 2
    assert joined.items[4].begins[0].after == (0,)


def test_a_broadcast_between_them_keeps_allreduces_apart() -> None:
    def collective(kind: str, tag: int, after: int | None) -> Item:
        starts = tuple(Start(rank=rank, after=() if after is None else (after,)) for rank in (0, 1))
        return Collective.model_validate({"kind": kind, "tag": tag, "nbytes": 400, "starts": starts})

    items = (
        collective("allreduce", 0, None),
        collective("broadcast", 0, 0),
        collective("allreduce", 1, 1),
        collective("allreduce", 2, 2),
    )
    made = rebucketed(Workload(schema=SCHEMA, framing="none", n_ranks=2, items=items), 4000).workload
    assert [(item.kind, item.nbytes) for item in made.items if not isinstance(item, Compute)] == [
        ("allreduce", 400),
        ("broadcast", 400),
        ("allreduce", 800),
    ]


def test_what_frees_a_lock_is_renumbered_with_the_rest() -> None:
    items = (
        Collective(kind="allreduce", tag=0, nbytes=12),
        Message(src=0, dst=1, nbytes=4, iteration=1, start=Start(rank=0, after=(0,)), lock_until=2),
        Message(src=1, dst=0, nbytes=4, iteration=1, start=Start(rank=1, after=(1,))),
    )
    made = rebucketed(Workload(schema=SCHEMA, framing="none", n_ranks=2, items=items), 4).workload
    push, pull = (number for number, item in enumerate(made.items) if isinstance(item, Message))
    assert made.items[push].lock_until == pull  # type: ignore[union-attr]
    assert made.items[push].begins[0].after == (0, 1, 2)


def test_no_tag_is_used_twice() -> None:
    made = rebucketed(captured("ddp_gloo_4_resnet18_tso"), 1 << 20).workload
    tags = [item.tag for item in made.items if item.kind == "allreduce"]
    assert len(set(tags)) == len(tags) > 100


def hindered() -> Workload:
    """The second allreduce waits for a message that the first made possible."""
    items = (
        Collective(kind="allreduce", tag=0, nbytes=8, iteration=0),
        Message(src=0, dst=1, nbytes=8, iteration=1, start=Start(rank=0, after=(0,))),
        Collective(kind="allreduce", tag=1, nbytes=8, iteration=0, starts=(Start(rank=1, after=(1,)),)),
    )
    return Workload(schema=SCHEMA, framing="none", n_ranks=2, items=items)


@pytest.mark.parametrize(
    ("job", "size", "reason"),
    [
        (made_allreduce(2, 400), 0, "buckets cannot have 0 bytes"),
        (made_allreduce(2, 400), (1 << 40) + 4, "at most 1,099,511,627,776"),
        (made_allreduce(2, 400), 6, "give a multiple of 4"),
        (made_collective("alltoall", 2, 400), 400, "the job has no allreduces"),
        (made_allreduce(2, 1 << 30), 4, "268,435,456 in this job; at most 8,192 are made: try 131,072 bytes"),
        (hindered(), 16, "wait for each other through more than computing"),
    ],
)
def test_what_cannot_be_put_into_such_buckets_is_refused(job: Workload, size: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        rebucketed(job, size)


def test_the_size_that_is_named_where_buckets_are_too_many_is_the_next_that_will_do() -> None:
    job = made_allreduce(3, 12 << 20)
    with pytest.raises(ValueError, match=r"would be 12,288 in this job; .* try 2,048 bytes"):
        rebucketed(job, 1024)
    made = rebucketed(job, 2048).workload
    assert [item.nbytes for item in made.items if isinstance(item, Collective)] == [2048] * 6144


def test_more_waiting_than_there_is_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 10 buckets waits for the 10 of the iteration before, at both ranks."""
    job = made_allreduce(2, 40, count=2)
    monkeypatch.setattr("gradwire.traces.schedules.buckets.MAX_WAITS", 10 * 10 * 2)
    rebucketed(job, 4)
    monkeypatch.setattr("gradwire.traces.schedules.buckets.MAX_WAITS", 10 * 10 * 2 - 1)
    with pytest.raises(ValueError, match="too many buckets would wait for too many others"):
        rebucketed(job, 4)


def test_what_is_taken_for_granted_is_said_in_order_and_is_no_note_of_the_capture() -> None:
    job = made_allreduce(4, 4096, count=3).model_copy(update={"notes": ("of the capture",)})
    made, notes = other_job(job, 6, 8192)
    assert made.n_ranks == 6
    assert [note.partition(" ")[0] for note in notes] == ["6", "buckets"]
    assert made.notes == job.notes
    assert other_job(job, None, None) == other_job(job, 4, None) == (job, ())
