"""Messages that wait for an answer to their announcement: as captures show them, and how long they then take.

An announcement, its answer and the data are three messages one after the other.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from gradwire.emu.replay.slots import Matching
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plan import Plan
from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import COLUMNS, Messages
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.operations import operations
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import SCHEMA, Collective, Workload
from tests.made_messages import played
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "mpi_4_tso"
CHUNK_NBYTES = 100_000
CHUNK_S = CHUNK_NBYTES * 8 / (100e6 * PAYLOAD_EFFICIENCY)
START_S, WIRE_S, MESSAGE_S = 0.01, 0.001, 0.0001
COSTS = HostCosts(WIRE_S, START_S, MESSAGE_S, n_cpus=64)


def job(rendezvous: bool, n_ranks: int, algorithm: str = "ring") -> Workload:
    one = Collective.model_validate(
        {
            "kind": "allreduce",
            "tag": 1,
            "nbytes": n_ranks * CHUNK_NBYTES,
            "algorithm": algorithm,
            "rendezvous": rendezvous,
        }
    )
    return Workload(schema=SCHEMA, framing="mpi", n_ranks=n_ranks, items=(one,))


def plan(rendezvous: bool, n_ranks: int) -> Plan:
    return schedule_plan(f"star:hosts={n_ranks}", expand(job(rendezvous, n_ranks)))


@pytest.mark.parametrize("p", [3, 8])
def test_each_step_of_a_ring_costs_three_messages(p: int) -> None:
    """And two less but in the first where receivers say early that they are ready."""
    for rendezvous, n_messages in ((True, 3 * 2 * (p - 1)), (False, 1 + 2 * (p - 1))):
        made = plan(rendezvous, p)
        time_s = simulate(made.fabric, made.flows, made.schedule, hosts=COSTS).time_s
        steps_s = 2 * (p - 1) * CHUNK_S
        assert time_s == pytest.approx(START_S + steps_s + n_messages * (WIRE_S + MESSAGE_S))


def test_in_the_model_of_segments_an_answer_queues_behind_its_ranks_own_data() -> None:
    """At each step two segments of the receiver's own are ahead of its answer; without it nothing waits."""
    segment_nbytes = 12_500
    hosts = replace(COSTS, segment_nbytes=segment_nbytes, buffer_nbytes=50_000)
    time_s = {}
    for rendezvous in (True, False):
        made = plan(rendezvous, 4)
        time_s[rendezvous] = simulate(made.fabric, made.flows, made.schedule, hosts=hosts).time_s
    least_s = (3 * 6 - (1 + 6)) * (WIRE_S + MESSAGE_S)
    segments_s = 6 * 2 * segment_nbytes * 8 / (100e6 * PAYLOAD_EFFICIENCY)
    assert least_s * 0.9 < time_s[True] - time_s[False] < least_s * 1.1 + segments_s


def test_without_hosts_announcements_take_no_time() -> None:
    made = plan(True, 4)
    assert simulate(made.fabric, made.flows, made.schedule).time_s == pytest.approx(6 * CHUNK_S)


def test_a_receive_is_announced_once_its_source_has_asked_and_in_order() -> None:
    sends = (Send(0, 0, 1, 0, 4, reduce=False), Send(0, 0, 1, 4, 6, reduce=False))
    schedule = Schedule.of(2, (Op("broadcast", 10, tag=2, rendezvous=True),), sends)
    receiver = Matching(schedule, 1, repeat=0)
    key = 0, receiver.slots[0]
    receiver.posted(0)
    receiver.posted(1)
    assert list(receiver.answering(key)) == []
    receiver.asked(key)
    assert list(receiver.answering(key)) == [0]
    receiver.asked(key)
    assert list(receiver.answering(key)) == [1]
    receiver.asked(key)
    assert list(receiver.answering(key)) == []


def test_without_rendezvous_it_is_announced_at_once() -> None:
    schedule = Schedule.of(2, (Op("broadcast", 4, tag=2),), (Send(0, 0, 1, 0, 4, reduce=False),))
    receiver = Matching(schedule, 1, repeat=0)
    key = 0, receiver.slots[0]
    receiver.posted(0)
    assert list(receiver.answering(key)) == [0]


def answered(messages: Messages, ranks: tuple[int, ...]) -> Messages:
    """With an answer to each message of these ranks, a microsecond after it was announced."""
    some = messages.where(np.isin(messages.src, ranks))
    later_ns = some.first_ns + 1_000
    back = replace(
        some,
        src=some.dst,
        dst=some.src,
        connection=(some.dst * len(messages.addresses) + some.src).astype(np.int32),
        kind=np.full(len(some), MessageKind.RECV_READY, np.uint8),
        offset=some.offset + 1_000_000_000,
        first_ns=later_ns,
        last_ns=later_ns,
        received_ns=later_ns,
    )
    columns: dict[str, Any] = {
        name: np.append(getattr(messages, name), getattr(back, name)) for name in COLUMNS
    }
    both = replace(messages, **columns)
    return both.where(np.argsort(both.first_ns, kind="stable"))


@pytest.mark.parametrize(("ranks", "rendezvous"), [((0, 1, 2, 3), True), ((), False), ((1, 2, 3), False)])
def test_a_capture_shows_whether_all_messages_were_answered(ranks: tuple[int, ...], rendezvous: bool) -> None:
    messages = answered(played(4, [("allreduce", ring(4, 4 * CHUNK_NBYTES))]), ranks)
    (one,), _ = operations(messages, all_visible=True)
    assert (one.recognised.name, one.rendezvous) == ("ring", rendezvous)


def test_of_exchanges_turns_say_it() -> None:
    with pytest.raises(ValidationError, match="has a rendezvous, but halving-doubling has exchanges"):
        job(True, 4, "halving-doubling")


def test_another_algorithm_is_done_as_in_gloo() -> None:
    for algorithm, rendezvous in (("as-captured", True), ("ring", True), ("halving-doubling", False)):
        assert [op.rendezvous for op in expand(job(True, 4), algorithm).ops] == [rendezvous]


def test_a_broadcast_stays_as_captured_whatever_allreduces_are_done_by() -> None:
    one = Collective(kind="broadcast", tag=1, nbytes=CHUNK_NBYTES, algorithm="tree", rendezvous=True)
    reduced = job(True, 4).items[0].model_copy(update={"tag": 2})
    both = Workload(schema=SCHEMA, framing="mpi", n_ranks=4, items=(one, reduced))
    assert [op.rendezvous for op in expand(both, "halving-doubling").ops] == [True, False]


def test_of_a_job_of_open_mpi_the_broadcasts_are_rendezvous_and_the_allreduces_took_turns() -> None:
    items = recognise(open_trace([SAMPLE])).items
    kinds = {(one.kind, one.rendezvous, bool(one.turns)) for one in items if isinstance(one, Collective)}
    assert kinds == {("broadcast", True, False), ("allreduce", False, True)}
