"""Exchanges that take turns: as captures show them, as schedules say it, and how long they then take.

Two ranks swap n bytes over one link of capacity C: n / C both at once, 2 n / C in turn.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import simulate
from gradwire.planning.plancheck import check_schedule
from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.reader import open_captures
from gradwire.traces.recognition.recognise import find_job, recognise
from gradwire.traces.recognition.untagged import turns_of
from gradwire.traces.schedules.algorithms.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.carried import in_turn
from gradwire.traces.schedules.expand import expand
from gradwire.traces.workload import SCHEMA, Collective, Turn, Workload
from tests.made_messages import table
from tests.made_mpi import ALLREDUCE, Part, fin, put, put_request, rndv, talk
from tests.made_orders import held
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan

NBYTES = 2_000_000
ONE_WAY_S = NBYTES / (100e6 * PAYLOAD_EFFICIENCY / 8)
COSTS = HostCosts(0.0001, 0.0, 0.00001, 64, segment_nbytes=10_000)
FEW_MESSAGES_S = 10 * (COSTS.wire_s + COSTS.message_s)


def workload(*turns: Turn, n_ranks: int = 2, algorithm: str = "recursive-doubling") -> Workload:
    one = {"kind": "allreduce", "tag": 1, "nbytes": NBYTES, "algorithm": algorithm, "turns": turns}
    return Workload(schema=SCHEMA, framing="mpi", n_ranks=n_ranks, items=(Collective.model_validate(one),))


def time_s(job: Workload) -> float:
    schedule = expand(job)
    check_schedule(schedule)
    plan = schedule_plan(f"star:hosts={job.n_ranks},rate=100M", schedule)
    return simulate(plan.fabric, plan.flows, schedule, hosts=COSTS).time_s


def test_in_turn_an_exchange_takes_twice_as_long() -> None:
    assert time_s(workload()) == pytest.approx(ONE_WAY_S, abs=FEW_MESSAGES_S)
    for src in (0, 1):
        turn = Turn(src=src, dst=1 - src, number=0)
        assert time_s(workload(turn)) == pytest.approx(2 * ONE_WAY_S, abs=FEW_MESSAGES_S)


def test_of_halving_doubling_each_exchange_has_its_own_turn() -> None:
    """Four ranks: 1/2, 1/4, 1/4 and 1/2 of the buffer; the first in turn at both pairs: 1/2 more."""
    turns = (Turn(src=0, dst=1, number=0), Turn(src=3, dst=2, number=0))
    in_all = 1.5 * ONE_WAY_S
    plain, turned = (time_s(workload(*some, n_ranks=4, algorithm="halving-doubling")) for some in ((), turns))
    assert plain == pytest.approx(in_all, abs=4 * FEW_MESSAGES_S)
    assert turned == pytest.approx(in_all + 0.5 * ONE_WAY_S, abs=4 * FEW_MESSAGES_S)


@pytest.mark.parametrize("make", [halving_doubling, recursive_doubling])
def test_in_turn_all_is_added_up_all_the_same(make: type) -> None:
    plain = make(4, 4096)
    turns = [Turn(src=max(s.src, s.dst), dst=min(s.src, s.dst), number=n) for n, s in ((0, plain[0]),)]
    sends = in_turn(plain, turns)
    assert {(s.src, s.dst, s.step, s.offset) for s in sends} == {
        (s.src, s.dst, s.step, s.offset) for s in plain
    }
    have = held(sends, 4, 4096)
    assert all(set(piece.values()) == {1} and len(piece) == 4 for rank in have for piece in rank.values())


@pytest.mark.parametrize(
    ("turns", "algorithm", "why"),
    [
        ((Turn(src=0, dst=1, number=0), Turn(src=1, dst=0, number=0)), "recursive-doubling", "each other"),
        ((Turn(src=0, dst=2, number=0),), "recursive-doubling", "between ranks"),
        ((Turn(src=1, dst=1, number=0),), "recursive-doubling", "between ranks"),
        ((Turn(src=0, dst=1, number=0),), "ring", "no exchanges"),
    ],
)
def test_turns_that_make_no_sense_are_refused(turns: tuple[Turn, ...], algorithm: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        workload(*turns, algorithm=algorithm)


def test_a_turn_of_an_exchange_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no exchange number 1"):
        expand(workload(Turn(src=0, dst=1, number=1)))


def swaps(late: bool, nbytes: int = 800, count: int = 2) -> tuple[list[Part], list[Part]]:
    """Allreduces of two processes; with `late` the first answers only behind its own data."""
    forth: list[Part] = []
    back: list[Part] = []
    for number in range(count):
        at, mine = 1000 * number, 2 * number
        other = mine + 1
        answer, data = put_request(other, 9, other, nbytes), put(mine, nbytes) + fin(8, nbytes)
        forth += [
            (at + 10, rndv(ALLREDUCE, nbytes, mine, number)),
            (at + 30, data + answer if late else answer + data),
        ]
        back += [
            (at + 20, put_request(mine, 8, mine, nbytes) + rndv(ALLREDUCE, nbytes, other, number, 1)),
            (at + 40, put(other, nbytes) + fin(9, nbytes)),
        ]
    return forth, back


@pytest.mark.parametrize("late", [True, False])
def test_a_capture_shows_who_answered_behind_its_own_data(tmp_path: Path, late: bool) -> None:
    path = tmp_path / "a.pcap"
    talk(path, *swaps(late))
    found = [item for item in recognise(open_captures([path])).items if isinstance(item, Collective)]
    assert [(one.algorithm, one.nbytes) for one in found] == [("recursive-doubling", 800)] * 2
    assert [one.turns for one in found] == [(Turn(src=1, dst=0, number=0),) if late else ()] * 2


def test_damaged_bytes_that_say_both_ways_were_second_say_nothing() -> None:
    """Two ranks' messages on one connection, each answered behind the data of the other."""
    row = (0, 1, 800, 10, 20, 30, "allreduce"), (1, 0, 800, 10, 20, 30, "allreduce")
    data = table(2, [*row, *row])
    messages = replace(
        data,
        src=np.array([0, 1, 1, 0], np.int32),
        dst=np.array([1, 0, 0, 1], np.int32),
        connection=np.array([0, 1, 1, 0], np.int32),
        offset=np.array([0, 0, 5000, 5000], np.int64),
        kind=np.array(
            [MessageKind.DATA, MessageKind.DATA, MessageKind.RECV_READY, MessageKind.RECV_READY], np.uint8
        ),
    )
    rows, answers = np.array([0, 1], np.int64), np.array([2, 3, -1, -1], np.int64)
    assert turns_of(messages, rows[:1], answers) == ()
    assert turns_of(messages, rows, answers) == ()
    one_way = np.array([2, -1, -1, -1], np.int64)
    assert turns_of(messages, rows, one_way) == (Turn(src=0, dst=1, number=0),)


def test_what_is_computed_between_collectives_without_tags_is_no_turnaround(tmp_path: Path) -> None:
    """One begins each millisecond, and each is over within 50 us."""
    path = tmp_path / "a.pcap"
    talk(path, *swaps(False, count=30))
    gaps_ns = [one.gap_ns for some in find_job(open_captures([path])).starts[1:] for one in some]
    assert len(gaps_ns) == 58
    assert min(gaps_ns) > 900_000


def test_turns_are_known_of_the_job_as_it_was_captured_only() -> None:
    turned, plain = workload(Turn(src=0, dst=1, number=0)), workload()
    here, there = (parse_fabric(f"star:hosts=2,rate={rate}M") for rate in (100, 20))

    def doubts(job: Workload, spec: Fabric, algorithm: str = "as-captured") -> tuple[str, ...]:
        return plan_of(
            Cell(spec, algorithm, "linear", "ecmp"), Experiment(job, "made", captured_on=here)
        ).doubts

    assert doubts(turned, here) == doubts(plain, there) == ()
    assert doubts(turned, there, "ring") == ()  # which has no exchanges
    (doubt,) = doubts(turned, there)
    assert doubt.startswith("ranks of the workload took turns in 1 of their exchanges")
