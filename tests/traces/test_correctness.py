"""Schedules are refused exactly where a slow reading of the rules, byte by byte, finds something wrong."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gradwire.planning.plancheck import check_schedule
from gradwire.traces.schedules import correctness, pieces
from gradwire.traces.schedules.algorithms.allpairs import all_pairs
from gradwire.traces.schedules.algorithms.doubletree import double_binary_tree
from gradwire.traces.schedules.algorithms.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from gradwire.traces.schedules.algorithms.ring import all_gather, ring
from gradwire.traces.schedules.algorithms.trees import broadcast, reduce_broadcast
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.hints import NO_HINTS
from gradwire.traces.schedules.kinds import OpKind
from gradwire.traces.schedules.names import OF_HOSTS, PACES
from gradwire.traces.schedules.pacing import paced
from gradwire.traces.schedules.schedule import Aggregation, Op, Schedule, together
from gradwire.traces.schedules.sends import Send, Sends, swaps
from tests.made_orders import held_pieces

Make = Callable[[int, int], Sequence[Send]]


def schedule(kind: OpKind, n_ranks: int, nbytes: int, sends: Sequence[Send]) -> Schedule:
    return Schedule.of(n_ranks, [Op(kind, nbytes, members=tuple(range(n_ranks)))], sends)


def sends_of(name: str, n_ranks: int, nbytes: int) -> Sends:
    chosen = algorithm(name)
    return paced(Sends.of(chosen.sends(n_ranks, nbytes, NO_HINTS)), chosen.pace)


def is_refused(made: Schedule) -> bool:
    try:
        check_correct(made)
    except ValueError:
        return True
    return False


def is_wrong(made: Schedule) -> bool:
    """Of one allreduce: all orders of all events, then the sums of one order, element by element."""
    before = orders(made)
    if before is None or races(list(made.sends), before):
        return True
    have = held_pieces(made.sends, made.n_ranks, range(0, made.ops[0].nbytes, 4))
    everybody = dict.fromkeys(range(made.n_ranks), 1)
    return any(counts != everybody for rank in have for counts in rank.values())


def orders(made: Schedule) -> NDArray[np.bool_] | None:
    """[a, b]: event a comes before event b; None for a swap that never ends, as the agent would wait."""
    sends, partner = list(made.sends), swaps(made.sends)
    before = np.zeros((2 * len(sends), 2 * len(sends)), np.bool_)
    last: dict[tuple[int, int], int] = {}
    for number, send in enumerate(sends):
        read, write = 2 * number, 2 * number + 1
        before[read, write] = True
        for rank, others in ((send.src, send.needs), (send.dst, send.ready)):
            for other in others:
                arrives_here = sends[other].dst == rank
                if arrives_here and partner.get(other, -1) >= number:
                    return None
                before[2 * other + arrives_here, read] = True
        if number in partner:
            before[2 * partner[number], write] = True
        earlier = last.get((send.src, send.dst))
        if earlier is not None:
            before[2 * earlier, read] = True
            if number not in partner and earlier not in partner:
                before[2 * earlier + 1, write] = True
        last[send.src, send.dst] = number
    for middle in range(len(before)):
        before |= np.outer(before[:, middle], before[middle])
    return before


def races(sends: Sequence[Send], before: NDArray[np.bool_]) -> bool:
    accesses = [
        (rank, send.offset, send.offset + send.nbytes, 2 * number + is_write)
        for number, send in enumerate(sends)
        for rank, is_write in ((send.src, 0), (send.dst, 1))
    ]
    for (rank, start, end, one), (other_rank, other_start, other_end, two) in combinations(accesses, 2):
        if rank != other_rank or max(start, other_start) >= min(end, other_end):
            continue
        both_add = one % 2 and two % 2 and sends[one // 2].reduce and sends[two // 2].reduce
        both_read = not one % 2 and not two % 2
        if not both_add and not both_read and not before[one, two] and not before[two, one]:
            return True
    return False


def without(sends: Sequence[Send], dropped: int) -> list[Send]:
    new = {old: old - (old > dropped) for old in range(len(sends)) if old != dropped}
    return [
        replace(
            send,
            needs=tuple(new[other] for other in send.needs if other in new),
            ready=tuple(new[other] for other in send.ready if other in new),
        )
        for number, send in enumerate(sends)
        if number != dropped
    ]


@st.composite
def spoiled(draw: st.DrawFn) -> Schedule:
    """An allreduce of few ranks with up to two of its sends dropped, doubled, moved, or cut loose."""
    n_ranks = draw(st.integers(2, 5))
    makes: list[Make] = [
        ring, all_pairs, halving_doubling, recursive_doubling, reduce_broadcast, gloo_ring
    ]  # fmt: skip
    make = draw(st.sampled_from(makes))
    nbytes = 4 * draw(st.integers(1, 6))
    sends = list(paced(Sends.of(make(n_ranks, nbytes)), draw(st.sampled_from(PACES))))
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(0, len(sends) - 1))
        send = sends[number]
        how = draw(st.sampled_from(["drop", "double", "move", "needs", "ready", "reduce"]))
        if how == "drop" and len(sends) > 1:
            sends = without(sends, number)
        elif how == "double":
            sends.append(replace(send, needs=(*send.needs, number) if draw(st.booleans()) else send.needs))
        elif how == "move":
            sends[number] = replace(send, offset=4 * draw(st.integers(0, (nbytes - send.nbytes) // 4)))
        elif how == "needs":
            sends[number] = replace(send, needs=send.needs[1:])
        elif how == "ready":
            sends[number] = replace(send, ready=())
        else:
            sends[number] = replace(send, reduce=not send.reduce)
    return schedule("allreduce", n_ranks, nbytes, sends)


@given(made=spoiled())
def test_a_schedule_is_refused_if_and_only_if_some_order_spoils_it(made: Schedule) -> None:
    check_schedule(made)
    assert is_refused(made) == is_wrong(made)


@pytest.mark.broad(8)
@pytest.mark.parametrize("name", OF_HOSTS)
@pytest.mark.parametrize("nbytes", [4, 52, 1004])
def test_every_algorithm_passes_for_every_number_of_ranks(name: str, nbytes: int) -> None:
    for n_ranks in range(2, 18):
        check_correct(schedule("allreduce", n_ranks, nbytes, sends_of(name, n_ranks, nbytes)))


@pytest.mark.parametrize("name", OF_HOSTS)
def test_without_any_one_of_its_sends_every_algorithm_is_refused(name: str) -> None:
    sends = list(sends_of(name, 5, 52))
    for number, send in enumerate(sends):
        assert not send.nbytes or is_refused(schedule("allreduce", 5, 52, without(sends, number)))


def refusal(made: Schedule) -> str:
    with pytest.raises(ValueError) as error:
        check_correct(made)
    return str(error.value)


def test_a_refusal_names_operation_rank_and_bytes() -> None:
    sends = list(ring(3, 12))
    lost = schedule(
        "allreduce", 3, 12, [replace(send, nbytes=0) if send.step == 3 else send for send in sends]
    )
    assert refusal(lost) == "operation 0: rank 0 ends without what rank 1 has made in bytes 8 to 12"
    twice = [*reduce_broadcast(2, 8)]
    twice.insert(1, replace(twice[0], step=1))
    doubled = schedule("allreduce", 2, 8, [*twice[:2], replace(twice[2], needs=(0, 1))])
    assert refusal(doubled) == (
        "operation 0: send 1 adds what rank 1 has made a second time to bytes 0 to 8 of rank 0"
    )
    early = schedule("allreduce", 2, 8, [replace(send, needs=()) for send in reduce_broadcast(2, 8)])
    assert refusal(early) == (
        "operation 0: rank 0 may add those of send 0 and send its bytes in send 1 in either order, "
        "bytes 0 to 8: let one wait for the other"
    )
    other = Schedule.of(2, (Op("message", 8, members=(0, 1)),), (Send(0, 0, 1, 0, 4, False, shift=4),))
    assert refusal(other) == "operation 0: rank 1 ends without what rank 0 has made in bytes 0 to 4"


def test_an_order_that_other_bytes_make_counts() -> None:
    """Rank 0 sends its first bytes, then others; when those have left, the first ones may be replaced."""
    sends = (
        Send(0, 0, 1, 0, 4, reduce=True),
        Send(0, 0, 1, 4, 4, reduce=True, needs=(0,)),
        Send(0, 2, 0, 0, 4, reduce=False, ready=(1,)),
    )
    assert "in either order" not in refusal(schedule("allreduce", 3, 8, sends))
    loose = (sends[0], replace(sends[1], needs=(), dst=2), sends[2])
    assert "in either order, bytes 0 to 4" in refusal(schedule("allreduce", 3, 8, loose))


def test_jobs_and_operations_that_are_alike_are_each_looked_at() -> None:
    one = schedule("allreduce", 4, 16, ring(4, 16))
    broken = replace(one, sends=replace(one.sends, reduce=np.zeros(len(one.sends), np.bool_)))
    assert not is_refused(together([one, one, one]))
    assert refusal(together([one, one, broken])).startswith("operation 2: ")


def test_kinds_other_than_allreduce_are_checked_by_what_they_must_hold() -> None:
    check_correct(Schedule.of(5, [Op("broadcast", 52, root=3, members=(0, 1, 2, 3, 4))], broadcast(5, 52, 3)))
    assert is_refused(Schedule.of(5, [Op("broadcast", 52, members=(0, 1, 2, 3, 4))], broadcast(5, 52, 3)))
    scatter = [send for send in ring(4, 64) if send.reduce]
    shifted = [replace(send, src=(send.src - 1) % 4, dst=(send.dst - 1) % 4) for send in scatter]
    assert is_refused(schedule("reducescatter", 4, 64, scatter))  # rank r ends with chunk r + 1
    assert is_refused(schedule("allreduce", 4, 64, shifted))
    own = [replace(send, offset=(send.offset - 16) % 64) for send in scatter]
    check_correct(schedule("reducescatter", 4, 64, own))
    blocks = [
        Send(0, src, dst, 8 * dst, 8, reduce=False, shift=24 + 8 * src - 8 * dst)
        for src in range(3)
        for dst in range(3)
        if src != dst
    ]
    check_correct(schedule("alltoall", 3, 24, blocks))
    wrong = [replace(blocks[0], offset=0, shift=24), *blocks[1:]]
    assert refusal(schedule("alltoall", 3, 24, wrong)) == (
        "operation 0: rank 1 ends with data of other bytes in bytes 24 to 32"
    )


def test_the_sums_of_a_server_are_those_of_its_workers_alone() -> None:
    """A parameter server adds and gives back, and neither contributes nor keeps anything."""
    workers, server = (0, 1, 2), 3
    pushes = [Send(0, worker, server, 0, 8, reduce=True) for worker in workers]
    pulls = [Send(0, server, worker, 0, 8, reduce=False, needs=(0, 1, 2)) for worker in workers]
    op = Op("allreduce", 8, members=(0, 1, 2, 3), givers=workers)
    check_correct(Schedule.of(4, [op], [*pushes, *pulls]))
    assert is_refused(Schedule.of(4, [op], [*pushes[:2], *(replace(pull, needs=(0, 1)) for pull in pulls)]))
    early = [replace(pulls[0], needs=(0, 1)), *pulls[1:]]
    assert is_refused(Schedule.of(4, [op], [*pushes, *early]))


def test_a_member_that_switches_leave_out_is_named() -> None:
    everybody = Aggregation(0, (0, 1, 2), (0, 1, 2))
    made = Schedule.of(3, [Op("allreduce", 8, members=(0, 1, 2))], (), aggregations=[everybody])
    check_correct(made)
    some = replace(made, aggregations=(Aggregation(0, (0, 1), (0, 1)),))
    assert refusal(some) == "operation 0: rank 0 ends without what rank 2 has made in bytes 0 to 8"
    op = Op("reduce", 8, root=3, members=(0, 1, 2, 3), givers=(0, 1, 2))
    push = Schedule.of(4, [op], (), aggregations=[Aggregation(0, (0, 1, 2), (3,))])
    check_correct(push)
    assert is_refused(replace(push, aggregations=(Aggregation(0, (0, 1), (3,)),)))


def test_an_operation_in_which_nobody_takes_part_is_not_refused() -> None:
    check_correct(Schedule.of(2, (Op("allreduce", 8),), ()))


def test_what_is_only_gathered_may_end_in_half_an_element() -> None:
    for n_ranks, nbytes in ((3, 10), (4, 3), (4, 17)):
        check_correct(schedule("allgather", n_ranks, nbytes, all_gather(n_ranks, nbytes)))


@pytest.mark.long
def test_cuts_that_would_take_hours_are_refused_where_an_order_is_looked_for_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "MAX_CUTS", 1 << 24)  # the real limit takes seconds to reach
    shifted = Send(0, 0, 1, 0, (1 << 40) - 1, reduce=False, shift=1)
    loose = Send(0, 1, 0, 0, 4, reduce=False)
    assert refusal(schedule("broadcast", 2, 1 << 40, [shifted, loose])) == (
        "operation 0: its sends cut the buffer into too many pieces to check"
    )


def test_what_replaces_bytes_must_wait_for_each_of_those_that_send_them() -> None:
    sends = [
        Send(0, 0, 1, 0, 4, reduce=True),
        Send(0, 0, 2, 0, 4, reduce=True),
        Send(0, 3, 0, 0, 4, reduce=False, ready=(0, 1)),
    ]
    assert "in either order" not in refusal(schedule("allreduce", 4, 4, sends))
    for number in (0, 1):
        loose = [*sends[:2], replace(sends[2], ready=(number,))]
        assert refusal(schedule("allreduce", 4, 4, loose)) == (
            f"operation 0: rank 0 may send its bytes in send {1 - number} and receive those of send 2 in "
            "either order, bytes 0 to 4: let one wait for the other"
        )


def test_a_send_may_bring_sums_of_other_ranks_in_each_part_of_what_its_receiver_never_parts() -> None:
    """Rank 1 gives one half to rank 0, the other to rank 3; rank 2 adds up what both send on as a whole."""
    sends = [
        Send(0, 1, 0, 0, 4, reduce=True),
        Send(0, 1, 3, 4, 4, reduce=True),
        Send(0, 0, 2, 0, 8, reduce=True, needs=(0,)),
        Send(0, 3, 2, 0, 8, reduce=True, needs=(1,)),
        Send(0, 2, 0, 0, 8, reduce=False, needs=(2, 3), ready=(2,)),
        Send(0, 2, 1, 0, 8, reduce=False, needs=(2, 3), ready=(0, 1)),
        Send(0, 2, 3, 0, 8, reduce=False, needs=(2, 3), ready=(3,)),
    ]
    check_correct(schedule("allreduce", 4, 8, sends))
    twice = [sends[0], replace(sends[1], offset=0), *sends[2:]]
    assert refusal(schedule("allreduce", 4, 8, twice)) == (
        "operation 0: send 3 adds what rank 1 has made a second time to bytes 0 to 4 of rank 2"
    )


def test_accesses_that_would_take_all_memory_are_refused() -> None:
    sends = [Send(0, 0, 1, 0, 1 << 20, reduce=False, shift=1 << 20)] * 4000
    sends += [Send(0, 0, 1, place, 1, reduce=False) for place in range(40_000)]
    assert refusal(schedule("broadcast", 2, 1 << 21, sends)) == (
        "operation 0: its sends cut the buffers into more than 67,108,864 pieces, or move more"
    )


def test_a_byte_further_at_each_send_is_followed_without_cutting_all_bytes() -> None:
    """Each sends on what came in, one byte later, so from byte 2 on rank 0 has bytes of other places."""
    nbytes, n_sends = 1 << 40, 100
    sends = [
        Send(0, i % 2, 1 - i % 2, i, nbytes - i - 1, reduce=False, shift=1, needs=(i - 1,) if i else ())
        for i in range(n_sends)
    ]
    assert refusal(schedule("broadcast", 2, nbytes, sends)) == (
        "operation 0: rank 0 ends with data of other bytes in bytes 2 to 4"
    )


def test_sets_that_do_not_fit_into_memory_are_refused_where_bytes_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shifted = [Send(0, 0, 1, 0, 4, reduce=False, shift=4), Send(0, 0, 1, 4, 4, reduce=False, shift=-4)]
    monkeypatch.setattr(correctness, "MAX_SETS_NBYTES", 79)  # 16 bytes for a set and its place
    assert refusal(schedule("broadcast", 2, 8, shifted)) == (
        "operation 0: 6 pieces of buffers are too many to check; 4 fit into memory"
    )


def test_halves_of_swaps_on_the_way_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = schedule("allreduce", 8, 64, sends_of("recursive-doubling", 8, 64))
    check_correct(made)
    monkeypatch.setattr(correctness, "MAX_SETS_NBYTES", 17 * 16)  # two for each buffer, and one
    assert refusal(made) == "operation 0: 16 pieces of buffers are too many to check; 17 fit into memory"


@pytest.mark.parametrize("name", OF_HOSTS)
def test_pieces_that_are_looked_at_some_at_a_time_give_the_same_answer(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one add is spoiled, whichever piece it is in."""
    made = [schedule("allreduce", 8, 4096, sends_of(name, 8, 4096))]
    adding = np.flatnonzero(made[0].sends.reduce)
    for number in adding[:: max(1, len(adding) // 20)]:
        spoiled = made[0].sends.reduce & (np.arange(len(made[0].sends)) != number)
        made.append(replace(made[0], sends=replace(made[0].sends, reduce=spoiled)))
    at_once = [is_refused(each) for each in made]
    assert at_once == [False] + [True] * (len(made) - 1)
    monkeypatch.setattr(correctness, "MAX_SETS_NBYTES", 2_000)
    assert [is_refused(each) for each in made] == at_once


def test_a_pipelined_pair_of_trees_passes() -> None:
    for n_ranks in range(2, 18):
        check_correct(schedule("allreduce", n_ranks, 1000, double_binary_tree(n_ranks, 1000, 3)))


@pytest.mark.parametrize(("n_ranks", "nbytes"), [(8, 256 << 20), (16, 4 << 30)])
def test_in_a_ring_of_many_segments_the_order_is_seen_in_its_slots(n_ranks: int, nbytes: int) -> None:
    """A segment is sent on many steps later: it came before what came in between from the same rank."""
    check_correct(schedule("allreduce", n_ranks, nbytes, gloo_ring(n_ranks, nbytes)))


@pytest.mark.long
def test_many_sends_are_one_check_of_columns() -> None:
    made = schedule("allreduce", 256, 4096, ring(256, 4096))
    check_correct(made)
    late = replace(made.sends, reduce=made.sends.reduce & (np.arange(len(made.sends)) != 60_000))
    assert isinstance(late, Sends)
    assert is_refused(replace(made, sends=late))
