"""What machines say to each other: it arrives as it left, or is refused in one line."""

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.aggregation.figures import RankFigures, SumError
from gradwire.emu.machines import wire
from gradwire.emu.otherprograms import Use
from gradwire.emu.records import RepeatCounts
from gradwire.emu.replay.centre_values import Access
from gradwire.emu.replay.outcome import Outcome, RankTimes
from gradwire.emu.sampler import LinkRow
from tests.made_plans import allreduce_plan

OUTCOME = Outcome(
    RankTimes(
        1000, 1001, 2000, {3: 1002}, {3: 1003}, {4: 1004}, 5, 6, 7, {0: 1005}, {0: 1006}, {1: 1007}, {1: 1008}
    ),
    wrong=0,
    sent_nbytes=10,
    retransmits=1,
    aggregated=RankFigures(sent=2, errors=(SumError(0, 1e-9, 1e-10, 2e-9),)),
)
COUNTS = RepeatCounts(
    0.25,
    0.0,
    0,
    {"leaf0-eth1": 2},
    stall_s=0.001,
    cpu_lost_s=(0.0, 0.1),
    stopped_s={5: 0.0},
    link_rows=(LinkRow(1500, "leaf0-eth1", 1, 2, 3, 4, 5, None, None),),
    others=(Use("make", 0.5),),
    machine="right",
)
MEASURED = wire.Measured([OUTCOME], COUNTS)


def over_the_wire(kind: str, value: Any) -> tuple[str, Any]:
    octets = wire.line(kind, value)
    assert octets.count(b"\n") == 1
    return wire.parsed(octets.rstrip(b"\n"))


def test_what_a_machine_has_measured_arrives_as_it_was() -> None:
    kind, value = over_the_wire("outcome", wire.dumped(wire.MEASURED, MEASURED))
    assert (kind, wire.checked(wire.MEASURED, value)) == ("outcome", MEASURED)
    accesses = [[Access(3), Access(4, is_over=False)], []]
    _, value = over_the_wire("done", wire.dumped(wire.ACCESSES, accesses))
    assert wire.checked(wire.ACCESSES, value) == accesses


def test_all_times_and_only_times_are_put_on_the_other_clock() -> None:
    """Those from 1,000 on in the example are times of a clock; 5, 6 and 7 are durations."""
    moved = wire.earlier(MEASURED, 1000)
    times = RankTimes(0, 1, 1000, {3: 2}, {3: 3}, {4: 4}, 5, 6, 7, {0: 5}, {0: 6}, {1: 7}, {1: 8})
    assert moved.outcomes == [replace(OUTCOME, times=times)]
    assert moved.counts == replace(COUNTS, link_rows=(COUNTS.link_rows[0]._replace(time_ns=500),))


SCHEDULE = allreduce_plan("star:hosts=8", "ring").schedule  # 8 · 14 sends, one operation


@pytest.mark.parametrize(
    ("ranks", "machine", "start_ns"),
    [((5, 6), "right", 1000), ((6,), "right", 1000), ((5,), "left", 1000), ((5,), "right", 1001)],
    ids=["more ranks", "other ranks", "another machine", "another repeat"],
)
def test_results_of_something_else_are_refused(ranks: tuple[int, ...], machine: str, start_ns: int) -> None:
    measured = with_times(begun_ns={}, aggregated_ns={}, computing_ns={0: 1}, computed_ns={0: 2})
    wire.check_measured(measured, (5,), "right", SCHEDULE, 1000)
    with pytest.raises(wire.BadMessage):
        wire.check_measured(measured, ranks, machine, SCHEDULE, start_ns)


def with_times(**times: Any) -> wire.Measured:
    return replace(MEASURED, outcomes=[replace(OUTCOME, times=replace(OUTCOME.times, **times))])


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({"arrived_ns": {112: 1004}}, "send 112, and the plan has 0 to 111"),
        ({"queued_ns": {-1: 1004}}, "send -1"),
        ({"begun_ns": {0: 1005}}, "aggregation 0, and the plan has none"),
        ({"computing_ns": {1: 1007}}, "operation 1"),
        ({"computed_ns": {0: 1007}}, "never began"),
        ({"done_ns": 1000}, "another repeat"),
    ],
)
def test_times_of_what_is_not_in_the_plan_are_refused(times: dict[str, Any], says: str) -> None:
    known: dict[str, Any] = {"begun_ns": {}, "aggregated_ns": {}, "computing_ns": {}, "computed_ns": {}}
    with pytest.raises(wire.BadMessage, match=says):
        wire.check_measured(with_times(**known | times), (5,), "right", SCHEDULE, 1000)


def test_accesses_of_other_ranks_and_operations_are_refused() -> None:
    wire.check_accesses([[Access(0)], []], 2, SCHEDULE)
    with pytest.raises(wire.BadMessage, match="accesses of 1 ranks, and it has 2"):
        wire.check_accesses([[Access(0)]], 2, SCHEDULE)
    with pytest.raises(wire.BadMessage, match="operation 1"):
        wire.check_accesses([[Access(1)]], 1, SCHEDULE)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 19, "9" * 5000])
def test_numbers_that_no_clock_or_counter_has_are_refused(number: str) -> None:
    with pytest.raises(wire.BadMessage) as refused:
        wire.parsed(f'["clock",{number}]'.encode())
    assert len(str(refused.value)) < 100
    assert wire.parsed(b'["clock",-999999999999999999]') == ("clock", -(10**18) + 1)


def test_a_complaint_is_one_line() -> None:
    assert wire.checked(wire.FAILURE, {"text": "all is\nwell\r\n"}).text == "all is well"
    with pytest.raises(wire.BadMessage, match="10000"):
        wire.checked(wire.FAILURE, {"text": "x" * 10_001})


def lines_of(octets: bytes) -> wire.Lines:
    reading, writing = os.pipe()
    os.write(writing, octets)
    os.close(writing)
    return wire.Lines(reading)


def test_half_a_message_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SILENCE_S", 0.0)
    reading, writing = os.pipe()
    os.write(writing, b'["hello",')
    with pytest.raises(wire.BadMessage, match="half a message"):
        wire.Lines(reading).next()
    os.close(writing)


def test_lines_that_come_together_are_taken_one_by_one() -> None:
    lines = lines_of(b"one\ntwo\nthr")
    assert [lines.next(), lines.next()] == [b"one", b"two"]
    with pytest.raises(EOFError):
        lines.next()


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(wire.BadMessage, match="more than 10 B"):
        lines_of(b"x" * 11).next(most_nbytes=10)


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_nonsense_is_refused_in_one_line(octets: bytes) -> None:
    with pytest.raises(wire.BadMessage) as refused:
        wire.checked(wire.MEASURED, wire.parsed(octets)[1])
    assert "\n" not in str(refused.value)
