"""Pushes to a centre and pulls from it: counts are checked always, and order unless it is unordered."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from gradwire.traces.schedules.centres import check_centres
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.schedule import Centre, Gate, Op, Schedule, together
from gradwire.traces.schedules.sends import Send
from tests.made_servers import first_come_job

N = 4000
PUSH, PULL = True, False


def access(number: int, worker: int, pushes: bool) -> tuple[Op, Send]:
    src, dst = (worker, 0) if pushes else (0, worker)
    op = Op("message", N, tag=number, root=src, members=(0, worker), centre=0)
    return op, Send(number, src, dst, 0, N, reduce=pushes)


def schedule(
    accesses: Iterable[tuple[int, bool]],
    gates: Iterable[Gate] = (),
    locks: Iterable[Lock] = (),
    *,
    unordered: bool = False,
) -> Schedule:
    made = [access(number, worker, pushes) for number, (worker, pushes) in enumerate(accesses)]
    ops, sends = zip(*made, strict=True)
    return Schedule.of(4, ops, sends, gates, locks=locks, centres=[Centre(0, N, unordered)])


def test_a_first_come_server_with_a_lock_passes() -> None:
    made = expand(first_come_job([[1, 1], [2, 2]], 1)[0])
    assert made.centres == (Centre(0, 40_000),)
    assert [send.reduce for send in made.sends] == [True, False] * 4
    check_correct(made)


def test_without_the_lock_it_races_and_the_error_says_what_helps() -> None:
    made = replace(expand(first_come_job([[1], [2]], 1)[0]), locks=())
    with pytest.raises(
        ValueError,
        match=r"operation 5 may add to centre 0 of rank 0 while operation 3 reads it: let one wait",
    ):
        check_correct(made)


def test_hogwild_may_race_and_says_so() -> None:
    made = expand(first_come_job([[1], [2]], 1, lock=False)[0])
    assert made.centres == (Centre(0, 40_000, unordered=True),)
    assert made.locks == ()
    check_correct(made)


def test_a_fixed_order_needs_no_lock() -> None:
    """Round robin: the next push is asked for when the pull before has been handed over."""
    order = [(1, PUSH), (1, PULL), (2, PUSH), (2, PULL)]
    gates = [Gate(1, 0, (0,)), Gate(2, 0, (1,)), Gate(3, 0, (2,))]
    check_centres(schedule(order, gates))
    for missing in range(1, 3):
        with pytest.raises(ValueError, match="may add to centre 0"):
            check_centres(schedule(order, gates[:missing] + gates[missing + 1 :]))


def test_what_a_worker_has_handed_over_may_not_have_been_added_yet() -> None:
    """Rank 1's message to rank 2 says that its push has left, not that it has come."""
    ops = [access(0, 1, PUSH)[0], Op("message", 4, tag=1, root=1, members=(1, 2)), access(2, 2, PULL)[0]]
    sends = [access(0, 1, PUSH)[1], Send(1, 1, 2, 0, 4, reduce=False), access(2, 2, PULL)[1]]
    gates = [Gate(1, 1, (0,)), Gate(2, 2, (1,))]
    with pytest.raises(ValueError, match="operation 0 may add to centre 0 of rank 0 while operation 2 reads"):
        check_centres(Schedule.of(3, ops, sends, gates, centres=[Centre(0, N)]))
    check_centres(Schedule.of(3, ops, sends, [*gates, Gate(2, 0, (0,))], centres=[Centre(0, N)]))


@pytest.mark.parametrize("unordered", [True, False])
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"reduce": False}, "rank 0 must add up a push, and send a pull as it is"),
        ({"nbytes": N - 4}, "must be one send of all of its 4000 bytes"),
        ({"shift": 4, "nbytes": N - 4}, "must be one send of all"),
        ({"dst": 2}, "rank 0 must add up a push, and send a pull as it is"),
    ],
)
def test_counts_are_checked_whatever_the_order(change: dict[str, Any], what: str, unordered: bool) -> None:
    good = schedule([(1, PUSH), (1, PULL)], [Gate(1, 0, (0,))], unordered=unordered)
    check_correct(good)
    first, second = good.sends
    with pytest.raises(ValueError, match=what):
        check_correct(Schedule.of(4, good.ops, [replace(first, **change), second], centres=good.centres))


def test_a_contribution_that_is_missing_or_doubled_is_refused_also_in_hogwild() -> None:
    good = schedule([(1, PUSH), (2, PUSH)], unordered=True)
    first, second = good.sends
    for sends in ([second], [first, first, second]):
        with pytest.raises(ValueError, match="operation 0, of centre 0, must be one send"):
            check_correct(Schedule.of(4, good.ops, sends, centres=good.centres))


def test_a_pull_that_adds_and_a_centre_that_does_not_exist_are_refused() -> None:
    good = schedule([(1, PULL)])
    (pull,) = good.sends
    with pytest.raises(ValueError, match="rank 0 must add up a push, and send a pull as it is"):
        check_correct(Schedule.of(4, good.ops, [replace(pull, reduce=True)], centres=good.centres))
    broadcast = replace(good.ops[0], kind="broadcast")
    with pytest.raises(ValueError, match="operation 0, of centre 0, must be a message, got broadcast"):
        check_centres(Schedule.of(4, [broadcast], [pull], centres=good.centres))
    with pytest.raises(ValueError, match="operation 0 names centre 0, the plan has 0"):
        check_correct(Schedule.of(4, good.ops, [pull]))
    with pytest.raises(ValueError, match="centre 0: rank 9 or 4000 bytes is out of range"):
        check_correct(Schedule.of(4, good.ops, [pull], centres=[Centre(9, N)]))


def _meet(made: Schedule) -> bool:
    """By brute force: whether in some order a push is added while a pull of the same centre is read.

    A section of the lock is over before the next begins.  All orders of begins and ends are tried.
    """
    gate = {(each.op, each.rank): each.after for each in made.gates}
    last_of = dict(section for lock in made.locks for section in lock.sections)

    @cache
    def walk(begun: frozenset[int], over: frozenset[int], holder: int | None) -> bool:
        reading = {op for op in begun - over if not made.is_push(op)}
        adding = {op for op in begun - over if made.is_push(op)}
        if reading and adding:
            return True
        for op in range(len(made.ops)):
            ends = (made.sends[op].src, made.sends[op].dst)
            waits = {other for rank in ends for other in gate.get((op, rank), ())}
            may_begin = op not in begun and waits <= over and (op not in last_of or holder is None)
            if may_begin and walk(begun | {op}, over, last_of.get(op, holder)):
                return True
            if op in begun - over and walk(begun, over | {op}, None if op == holder else holder):
                return True
        return False

    return walk(frozenset(), frozenset(), None)


def test_all_small_schedules_that_pass_never_let_a_push_meet_a_pull() -> None:
    """Against brute force over all orders; those that are refused do meet, in nearly all of them."""
    random = Random(1)
    n_passed, n_met, n_refused = 0, 0, 0
    for _ in range(150):
        accesses = [(random.randrange(1, 3), random.random() < 0.5) for _ in range(4)]
        gates = [
            Gate(op, 0, tuple(other for other in range(op) if random.random() < 0.4)) for op in range(1, 4)
        ]
        firsts = [op for op, (_, pushes) in enumerate(accesses) if pushes and random.random() < 0.7]
        sections = []
        for first, nxt in pairwise([*firsts, 4]):
            after = [gate.op for gate in gates if first in gate.after and gate.op < nxt]
            sections.append((first, after[-1] if after else first))
        locks = [Lock(0, tuple(sections))] if sections else []
        made = schedule(accesses, gates, locks)
        try:
            check_centres(made)
        except ValueError:
            n_refused += 1
            n_met += _meet(made)
            continue
        assert not _meet(made)
        n_passed += 1
    assert n_passed > 20
    assert n_met > 0.9 * n_refused > 20


def test_jobs_beside_each_other_have_centres_of_their_own() -> None:
    one = expand(first_come_job([[1], [2]], 1)[0])
    both = together([one, one])
    assert both.centres == (Centre(0, 40_000), Centre(3, 40_000))
    numbers = {op.centre for op in both.ops[len(one.ops) :]}
    assert numbers == {None, 1}
    check_correct(both)


def test_every_pair_of_accesses_is_looked_at() -> None:
    """Two accesses race if one pushes and one pulls, whichever is listed first."""
    for first, second in product((PUSH, PULL), repeat=2):
        made = schedule([(1, first), (2, second)])
        if first == second:
            check_centres(made)
        else:
            with pytest.raises(ValueError, match="may add to centre 0"):
                check_centres(made)
