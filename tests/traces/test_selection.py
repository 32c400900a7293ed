"""Items that are left out: what came after them still comes after what was before them."""

from collections.abc import Sequence

import pytest

from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Gate
from gradwire.traces.schedules.selection import bridged
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Workload


def allreduce(iteration: int, after: tuple[int, ...], ranks: Sequence[int] = (0, 1)) -> Item:
    starts = tuple(Start(rank=rank, after=after) for rank in ranks)
    return Collective(kind="allreduce", tag=0, nbytes=8, iteration=iteration, starts=starts)


def compute(iteration: int, duration_ns: int, *after: int, rank: int = 0) -> Compute:
    start = Start(rank=rank, after=after)
    return Compute(start=start, duration_ns=duration_ns, iteration=iteration)


def chosen(items: Sequence[Item], *numbers: int) -> dict[int, Item]:
    return {number: items[number] for number in numbers}


def after(item: Item) -> set[tuple[int, tuple[int, ...]]]:
    return {(start.rank, start.after) for start in item.begins}


def test_a_file_in_which_what_is_left_out_waits_for_ever_more_is_refused() -> None:
    """Each item left out waits for one more kept one than the item before, at both ranks: n² in all."""
    n = 1600
    kept = [allreduce(0, ()) for _ in range(n)]
    left = [allreduce(1, (number, n + number - 1) if number else (0,)) for number in range(n)]
    last = allreduce(2, (2 * n - 1,))
    items = [*kept, *left, last]
    with pytest.raises(ValueError, match=r"wait for more than 1,048,576 others"):
        bridged(items, chosen(items, *range(n), 2 * n))
    assert len(bridged(items, chosen(items, *range(2 * n)))) == 2 * n  # nothing is left out


def test_an_iteration_waits_for_the_one_before_the_set_up_between_them() -> None:
    """Rank 0 computed for 5 ns before a set-up between two iterations, and for 7 ns before the second."""
    items = [
        allreduce(0, ()),
        compute(-1, 5, 0),
        allreduce(-1, (1,), (0,)),
        compute(1, 7, 2),
        allreduce(1, (3,), (0,)),
    ]
    workload = Workload(schema=SCHEMA, framing="none", n_ranks=2, items=tuple(items))
    schedule = expand(workload, "ring")
    assert [op.kind for op in schedule.ops] == ["allreduce", "compute", "compute", "allreduce"]
    assert schedule.gates == (Gate(1, 0, (0,), 5), Gate(2, 0, (1,), 7), Gate(3, 0, (2,)))


def test_a_set_up_at_the_start_is_not_waited_for_nor_is_its_computing() -> None:
    items = [
        compute(-1, 1000),
        allreduce(-1, (0,), (0,)),
        compute(-1, 1000, 1),
        allreduce(-1, (2,), (0,)),
        compute(0, 7, 3),
        allreduce(0, (4,), (0,)),
    ]
    kept = bridged(items, chosen(items, 4, 5))
    assert [*kept] == [4, 5]
    assert [after(item) for item in kept.values()] == [{(0, ())}, {(0, (4,))}]


def test_computing_for_a_set_up_that_leads_nowhere_is_left_out_with_it() -> None:
    items = [allreduce(0, (), (0,)), compute(-1, 5, 0), allreduce(-1, (1,), (0,))]
    items.append(allreduce(1, (0,), (0,)))
    assert [*bridged(items, chosen(items, 0, 3))] == [0, 3]


def test_computing_that_closes_an_iteration_stays_with_it_alone() -> None:
    items = [allreduce(0, (), (0,)), compute(0, 5, 0), allreduce(1, (1,), (0,)), compute(1, 5, 2)]
    assert [*bridged(items, chosen(items, 0, 1))] == [0, 1]
    later = bridged(items, chosen(items, 2, 3))
    assert [after(item) for item in later.values()] == [{(0, ())}, {(0, (2,))}]


def test_a_message_that_is_left_out_leads_its_receiver_to_what_its_sender_waited_for() -> None:
    """What the sender computed is not the receiver's computing."""
    items: list[Item] = [
        allreduce(0, ()),
        compute(-1, 9, 0, rank=1),
        Message(src=1, dst=0, nbytes=4, iteration=-1, start=Start(rank=1, after=(1,))),
        allreduce(1, (2,)),
    ]
    kept = bridged(items, chosen(items, 0, 3))[3]
    assert after(kept) == {(0, (0,)), (1, (1,))}


def test_a_long_chain_of_what_is_left_out_is_followed_to_its_end() -> None:
    n = 5_000  # more than Python's limit of calls within each other
    items = [allreduce(0, (), (0,)), *(allreduce(-1, (i,), (0,)) for i in range(n))]
    items.append(allreduce(1, (n,), (0,)))
    kept = bridged(items, chosen(items, 0, n + 1))[n + 1]
    assert after(kept) == {(0, (0,))}


def test_nothing_changes_where_nothing_is_left_out() -> None:
    items = [allreduce(0, ()), compute(0, 5, 0), allreduce(0, (1,), (0,)), allreduce(1, (0, 2))]
    assert bridged(items, chosen(items, 0, 1, 2, 3)) == chosen(items, 0, 1, 2, 3)


def test_computing_of_an_iteration_that_is_left_out_is_left_out_with_it() -> None:
    """Of three iterations of 100 ns each, the first and the last are computed: not the one between."""
    items = [
        compute(0, 100),
        allreduce(0, (0,), (0,)),
        compute(1, 100, 1),
        allreduce(1, (2,), (0,)),
        compute(2, 100, 3),
        allreduce(2, (4,), (0,)),
    ]
    kept = bridged(items, chosen(items, 0, 1, 4, 5))
    assert [*kept] == [0, 1, 4, 5]
    assert after(kept[4]) == {(0, (1,))}
