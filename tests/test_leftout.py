"""Items that are left out: what came after them still comes after what was before them."""

from collections.abc import Sequence

from traces.schedules.expand import expand
from traces.schedules.leftout import bridged
from traces.schedules.schedule import Gate
from traces.workload import SCHEMA, Collective, Item, Message, Start, Workload


def allreduce(iteration: int, after: tuple[int, ...], gap_ns: int, ranks: Sequence[int] = (0, 1)) -> Item:
    starts = tuple(Start(rank=rank, after=after, gap_ns=gap_ns) for rank in ranks)
    return Collective(kind="allreduce", tag=0, nbytes=8, iteration=iteration, starts=starts)


def chosen(items: Sequence[Item], *numbers: int) -> dict[int, Item]:
    return {number: items[number] for number in numbers}


def test_an_iteration_waits_for_the_one_before_the_set_up_between_them() -> None:
    """Items 0 and 2 are chosen; 1, of the set-up, took 5 ns of computing before, and 2 another 7."""
    items = [allreduce(0, (), 3), allreduce(-1, (0,), 5), allreduce(1, (1,), 7)]
    workload = Workload(schema=SCHEMA, framing="none", n_ranks=2, items=tuple(items))
    assert expand(workload, "ring").gates == (
        Gate(0, 0, (), 3),
        Gate(0, 1, (), 3),
        Gate(1, 0, (0,), 12),
        Gate(1, 1, (0,), 12),
    )


def test_a_set_up_at_the_start_is_not_waited_for_nor_is_its_computing() -> None:
    items = [allreduce(-1, (), 1000), allreduce(-1, (0,), 1000), allreduce(0, (1,), 7)]
    (kept,) = bridged(items, chosen(items, 2)).values()
    assert isinstance(kept, Collective)
    assert [(start.after, start.gap_ns) for start in kept.starts] == [((), 7), ((), 7)]


def test_the_longest_computing_on_any_way_back_counts() -> None:
    items = [
        allreduce(0, (), 0),
        allreduce(-1, (0,), 5),
        allreduce(-1, (0,), 50),
        allreduce(-1, (1, 2), 3),
        allreduce(1, (3,), 1),
    ]
    kept = bridged(items, chosen(items, 0, 4))[4]
    assert isinstance(kept, Collective)
    assert {(start.after, start.gap_ns) for start in kept.starts} == {((0,), 54)}


def test_a_message_that_is_left_out_leads_its_receiver_to_what_its_sender_waited_for() -> None:
    items: list[Item] = [
        allreduce(0, (), 0),
        Message(src=1, dst=0, nbytes=4, iteration=-1, start=Start(rank=1, after=(0,), gap_ns=9)),
        allreduce(1, (1,), 1),
    ]
    kept = bridged(items, chosen(items, 0, 2))[2]
    assert isinstance(kept, Collective)
    assert {start.after for start in kept.starts} == {(0,)}


def test_a_long_chain_of_what_is_left_out_is_followed_to_its_end() -> None:
    n = 20_000
    items = [allreduce(0, (), 0, (0,)), *(allreduce(-1, (i,), 1, (0,)) for i in range(n))]
    items.append(allreduce(1, (n,), 0, (0,)))
    kept = bridged(items, chosen(items, 0, n + 1))[n + 1]
    assert isinstance(kept, Collective)
    assert kept.starts == (Start(rank=0, after=(0,), gap_ns=n),)


def test_nothing_changes_where_nothing_is_left_out() -> None:
    items = [allreduce(0, (), 3), allreduce(0, (0,), 5), allreduce(1, (0, 1), 7)]
    assert bridged(items, chosen(items, 0, 1, 2)) == chosen(items, 0, 1, 2)
