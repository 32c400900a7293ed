"""Locks that cannot be carried out are refused, and so are those for which ranks could wait for ever."""

from dataclasses import replace

import pytest

from gradwire.planning.plancheck import check_schedule
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_servers import first_come_job

WORKLOAD, _ = first_come_job([[10, 10], [20, 20]], served_ms=1)
GOOD = expand(WORKLOAD)


def test_the_made_job_has_a_lock_that_passes() -> None:
    check_schedule(GOOD)
    assert GOOD.locks == (Lock(0, ((1, 3), (5, 7), (9, 11), (13, 15))),)


@pytest.mark.parametrize(
    ("locks", "what"),
    [
        ((Lock(0, ((1, 3),)), Lock(0, ((5, 7),))), "rank 0 has two locks"),
        ((Lock(0, ((1, 3), (1, 3))),), "operation 1 takes the lock of rank 0 twice"),
        ((Lock(0, ((3, 3),)),), "section 3 to 3 must begin with a message to rank 0, in one send"),
        ((Lock(1, ((1, 3),)),), "section 1 to 3 must begin with a message to rank 1"),
        ((Lock(0, ((2, 3),)),), "must begin with a message to rank 0"),
        ((Lock(0, ((3, 1),)),), "must name two operations, the second not before the first"),
        ((Lock(0, ((1, 99),)),), "must name two operations"),
        ((Lock(0, ((1, 4),)),), "ends with an operation in which rank 0 has no part"),
        ((Lock(0, ((1, 7),)),), "operation 7 frees it without waiting for operation 1"),
        ((Lock(0, ((1, 11), (9, 11))),), "operation 11 frees it, but may wait for operation 9"),
    ],
)
def test_a_lock_that_cannot_be_is_refused_in_one_line(locks: tuple[Lock, ...], what: str) -> None:
    with pytest.raises(ValueError, match=what) as raised:
        check_schedule(replace(GOOD, locks=locks))
    assert "\n" not in str(raised.value)


def _message(op: int, src: int, dst: int) -> Send:
    return Send(op, src, dst, 0, 4, reduce=False)


def test_two_servers_that_could_wait_for_each_other_are_refused() -> None:
    """Each answers a worker only when that has pushed to the other server as well."""
    ops = [Op("message", 4, tag=op, root=root) for op, root in enumerate([2, 2, 0, 1])]
    sends = [_message(0, 2, 0), _message(1, 2, 1), _message(2, 0, 2), _message(3, 1, 2)]
    gates = [Gate(2, 0, (0,)), Gate(2, 2, (0, 1)), Gate(3, 1, (1,)), Gate(3, 2, (0, 1))]
    locks = [Lock(0, ((0, 2),)), Lock(1, ((1, 3),))]
    with pytest.raises(ValueError, match="operation 2 frees it, but may wait for operation 1"):
        check_schedule(Schedule.of(3, ops, sends, gates, locks=locks))
    early = [Gate(2, 0, (0,)), Gate(2, 2, (0,)), Gate(3, 1, (1,)), Gate(3, 2, (1,))]
    check_schedule(Schedule.of(3, ops, sends, early, locks=locks))


def test_messages_of_one_tag_must_become_ready_in_order() -> None:
    """The receiver could not say which of the two asks for the lock."""
    ops = [Op("message", 4, tag=7, root=1)] * 2
    sends, locks = [_message(0, 1, 0), _message(1, 1, 0)], [Lock(0, ((0, 0), (1, 1)))]
    with pytest.raises(ValueError, match="operation 1 has the tag of operation 0"):
        check_schedule(Schedule.of(2, ops, sends, locks=locks))
    check_schedule(Schedule.of(2, ops, sends, [Gate(1, 1, (0,))], locks=locks))
    check_schedule(Schedule.of(2, [ops[0], replace(ops[1], tag=8)], sends, locks=locks))
