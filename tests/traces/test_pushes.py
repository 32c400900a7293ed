"""Which pushes to a parameter server are one sum, and what then waits for what."""

from collections.abc import Iterable
from fractions import Fraction

import pytest

from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.expand import expand, not_added
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.schedules.schedule import Aggregation, Gate
from gradwire.traces.workload import SCHEMA, Compute, Item, Message, Start, Workload

SERVER = 0


def push(worker: int, *after: int, nbytes: int = 4000, iteration: int = 0, server: int = SERVER) -> Message:
    start = Start(rank=worker, after=after)
    return Message(src=worker, dst=server, nbytes=nbytes, iteration=iteration, role="push", start=start)


def pull(worker: int, *after: int, iteration: int = 0) -> Message:
    start = Start(rank=SERVER, after=after)
    return Message(src=SERVER, dst=worker, nbytes=4000, iteration=iteration, role="pull", start=start)


def job(items: Iterable[Item], n_ranks: int = 4) -> Workload:
    return Workload(schema=SCHEMA, framing="gloo", n_ranks=n_ranks, items=tuple(items))


def rounds(n_rounds: int, workers: tuple[int, ...] = (1, 2, 3)) -> Workload:
    """A synchronous server: all push, then all are answered, one after the other."""
    items: list[Message] = []
    for iteration in range(n_rounds):
        base = len(items)
        answers = [base - len(workers) + i for i in range(len(workers))] if base else []
        for i, worker in enumerate(workers):
            items.append(push(worker, *answers[i : i + 1], iteration=iteration))
        pushes = tuple(range(base, len(items)))
        for i, worker in enumerate(workers):
            items.append(pull(worker, *(pushes if i == 0 else (len(items) - 1,)), iteration=iteration))
    return job(items)


def test_the_pushes_of_a_round_are_one_operation_that_the_server_gets() -> None:
    schedule = expand(rounds(2), "ina")
    assert [op.kind for op in schedule.ops] == ["reduce", *["message"] * 3] * 2
    assert schedule.aggregations == (Aggregation(0, (1, 2, 3), (0,)), Aggregation(4, (1, 2, 3), (0,)))
    assert schedule.ops[0].root == SERVER
    assert len(schedule.sends) == 6  # the answers
    assert not_added(rounds(2)) == ()


def test_each_worker_waits_as_before_and_the_server_for_the_sum() -> None:
    gates = expand(rounds(2), "ina").gates
    assert [gate for gate in gates if gate.op == 4] == [
        Gate(4, rank=worker, after=(worker,)) for worker in (1, 2, 3)
    ]
    assert Gate(1, rank=SERVER, after=(0,)) in gates
    assert Gate(5, rank=SERVER, after=(4,)) in gates


def test_as_captured_and_other_algorithms_leave_pushes_as_they_are() -> None:
    for algorithm in ("as-captured", "ring"):
        schedule = expand(rounds(1), algorithm)
        assert {op.kind for op in schedule.ops} == {"message"}
        assert schedule.aggregations == ()


def test_an_answer_of_the_round_before_does_not_wait_for_an_early_push() -> None:
    """Worker 1 is quick: its second push is in before the server has answered worker 2."""
    items = [push(1), push(2), pull(1, 0, 1)]
    items += [push(1, 2, iteration=1), pull(2, 2, 3), push(2, 4, iteration=1), pull(1, 3, 5, iteration=1)]
    schedule = expand(job(items), "ina")
    assert [op.kind for op in schedule.ops] == ["reduce", "message", "message", "reduce", "message"]
    assert Gate(2, rank=SERVER, after=(1,)) in schedule.gates


def test_a_server_that_answers_each_push_gets_each_push() -> None:
    items = [push(1), pull(1, 0), push(2), pull(2, 2), push(3), pull(3, 4)]
    with pytest.raises(NotServedError, match=r"3 of 3 pushes to rank 0 stay messages: .* \(asynchronous\)"):
        expand(job(items), "ina")


def test_servers_that_answer_who_comes_first_are_named() -> None:
    each = [push(1), pull(1, 0), push(2), pull(2, 2), push(3), pull(3, 4)]
    assert first_come_servers(each) == (SERVER,)
    assert first_come_servers(rounds(3).items) == ()
    assert first_come_servers([push(1), pull(1, 0)]) == ()  # one worker: nobody else can come first
    assert first_come_servers(made_allreduce(4, 4000).items) == ()


def test_one_round_that_looks_like_a_sum_does_not_make_a_server_wait() -> None:
    items: list[Message] = [push(1), push(2), pull(1, 0, 1)]
    for iteration in range(1, 4):
        for worker in (1, 2):
            items += [push(worker, iteration=iteration), pull(worker, len(items), iteration=iteration)]
    with pytest.raises(NotServedError, match="8 of 8 pushes to rank 0"):
        expand(job(items), "ina")


def test_pushes_that_would_wait_for_themselves_stay_messages() -> None:
    """Worker 2 pushes only after a message of worker 1, which that sent after its own push."""
    note = Message(src=1, dst=2, nbytes=8, start=Start(rank=1, after=(0,)))
    items = [push(1), note, push(2, 1), pull(1, 0, 2), push(1, 3, iteration=1), push(2, iteration=1)]
    schedule = expand(job(items), "ina")
    assert schedule.aggregations == (Aggregation(4, (1, 2), (0,)),)
    (why,) = not_added(job(items))
    assert why.startswith("2 of 4 pushes to rank 0")
    assert why.endswith("waits for what another's made possible")


def test_of_different_sizes_only_those_that_every_worker_has_are_added() -> None:
    items = [push(1, nbytes=8000), push(1), push(2), push(2, nbytes=400), push(3, nbytes=6), push(3)]
    schedule = expand(job(items), "ina")
    (only,) = schedule.aggregations
    assert (only.givers, schedule.ops[only.op].nbytes) == ((1, 2, 3), 4000)
    few, whole = sorted(not_added(job(items)))
    assert few.startswith("1 of 6 pushes") and few.endswith("not a whole number of 4-byte elements")
    assert whole.startswith("2 of 6 pushes") and "not every worker" in whole


def test_a_push_is_not_added_to_those_of_another_iteration() -> None:
    items = [push(w, iteration=n) for n, workers in enumerate(([1, 2], [1], [1, 2])) for w in workers]
    schedule = expand(job(items), "ina")
    assert [(op.kind, op.iteration) for op in schedule.ops] == [("reduce", 0), ("message", 1), ("reduce", 2)]


def test_servers_have_groups_of_their_own_and_keep_the_order_of_the_pushes() -> None:
    items = [push(w, nbytes=n, server=s) for n in (400, 800) for s in (0, 1) for w in (2, 3)]
    schedule = expand(job(items), "ina")
    assert schedule.groups == (((2, 3), (0,)), ((2, 3), (1,)))
    sizes = [(a.takers, schedule.ops[a.op].nbytes) for a in schedule.aggregations]
    assert sizes == [((0,), 400), ((1,), 400), ((0,), 800), ((1,), 800)]


def test_no_operation_comes_before_what_it_waits_for() -> None:
    schedule = expand(rounds(5), "ina")
    assert all(other < gate.op for gate in schedule.gates for other in gate.after)


def test_one_worker_has_nobody_to_be_added_to() -> None:
    with pytest.raises(NotServedError, match="only one worker pushes to it"):
        expand(job([push(1), pull(1, 0)]), "ina")


def test_a_job_without_anything_to_add_says_so() -> None:
    with pytest.raises(NotServedError, match="no allreduce and no pushes"):
        expand(job([pull(1)]), "ina")


def test_the_first_switch_alone_serves_no_parameter_server() -> None:
    with pytest.raises(NotServedError, match=r"use ina for pushes to a parameter server"):
        expand(rounds(1), "ina:leaf", hints=Hints([[0, 1], [2, 3]]))


def test_a_scaled_sum_has_whole_elements() -> None:
    schedule = expand(rounds(1), "ina", scale=Fraction(1, 3))
    assert schedule.ops[0].nbytes == 4 * round(1000 / 3)


def test_an_allreduce_beside_needs_no_pushes() -> None:
    schedule = expand(made_allreduce(4, 4000, count=3), "ina")
    assert [aggregation.op for aggregation in schedule.aggregations] == [0, 1, 2]
    assert len(schedule.groups) == 1
    assert schedule.gates == expand(made_allreduce(4, 4000, count=3), "ring").gates


def test_a_server_that_computes_between_sums_and_answers_gets_the_sums() -> None:
    items: list[Item] = [push(1), push(2), Compute(start=Start(rank=SERVER, after=(0, 1)), duration_ns=7)]
    items += [pull(1, 2), Compute(start=Start(rank=1, after=(3,)), duration_ns=9), push(1, 4, iteration=1)]
    schedule = expand(job(items), "ina")
    assert [op.kind for op in schedule.ops] == ["reduce", "compute", "message", "compute", "message"]
    assert schedule.gates == (
        Gate(1, rank=SERVER, after=(0,), gap_ns=7),
        Gate(2, rank=SERVER, after=(1,)),
        Gate(3, rank=1, after=(2,), gap_ns=9),
        Gate(4, rank=1, after=(3,)),
    )
