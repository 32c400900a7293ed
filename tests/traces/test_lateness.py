"""How far apart ranks begin, in made-up operations and in captures of Open MPI and gloo."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.framings import Choice
from gradwire.traces.framing.messages import Messages
from gradwire.traces.packets.clocks import Clocks
from gradwire.traces.packets.streams import Stream
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.algorithms import Recognised
from gradwire.traces.recognition.lateness import late_ns
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.patterns import Name
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.recognition.starts import starts
from gradwire.traces.workload import Turn
from tests.made_messages import table

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
MS = 1_000_000


def allreduce_by(name: Name, begun: dict[int, int], **changes: Any) -> Operation:
    done = dict.fromkeys(begun, 9_000)
    made = Operation(
        "allreduce", "allreduce", 1, 100, 0, 0, begun, done, recognised=Recognised(name, 1.0, "")
    )
    return replace(made, **changes)


def send(src: int, dst: int, begun: int, sent: int, arrived: int) -> Operation:
    return Operation("message", "send", 1, 10, src, dst, {src: begun}, {src: sent, dst: arrived})


def asked(*rows: tuple[int, int, int], what: str = "allreduce") -> Messages:
    """Notices that receivers are ready: who says it, to whom, when."""
    some = table(4, [(src, dst, 100, ns, ns, ns + 1, what) for src, dst, ns in rows])
    return replace(some, kind=np.full(len(rows), MessageKind.RECV_READY, np.uint8))


def late(operations: list[Operation], messages: Messages | None = None) -> dict[int, int]:
    said = asked((0, 1, 10**6)) if messages is None else messages
    return late_ns(operations, starts(operations), said)


def test_a_rank_is_late_by_when_it_first_offers_or_asks_for_data_of_a_ring() -> None:
    """Rank 1 offers its data last, as rank 2 takes its connection late, but was ready to receive at once."""
    ring = allreduce_by("ring", {0: 1_000, 1: 6_000, 2: 5_900})
    ready = asked((1, 0, 1_100), (2, 1, 6_050))
    assert late([ring], ready) == {0: 0, 1: 100, 2: 4_900}
    control = replace(ready, kind=np.full(2, MessageKind.CONTROL, np.uint8))
    for other in (control, asked((1, 0, 1_100), what="broadcast"), asked((1, 0, 900), (1, 0, 7_000))):
        assert late([ring], other) == {0: 0, 1: 5_000, 2: 4_900}


def test_a_rank_that_waits_for_data_before_it_sends_any_is_not_late() -> None:
    """In a tree; of three that exchange, the one left over hands over first.  Taking turns is not waiting."""
    begun = {0: 0, 1: 50, 2: 80}
    assert late([allreduce_by("all-pairs", begun)]) == begun
    waits: tuple[Name, ...] = (
        "tree",
        "reduce-broadcast",
        "recursive-doubling",
        "halving-doubling",
        "unknown",
    )
    for name in waits:
        assert not late([allreduce_by(name, begun)])
    four, turns = {**begun, 3: 20}, (Turn(src=1, dst=0, number=0),)
    assert late([allreduce_by("recursive-doubling", four, turns=turns)]) == four
    assert late([allreduce_by("tree", begun, kind="broadcast")]) == {0: 0}


def test_only_first_operations_that_follow_nothing_count() -> None:
    """Rank 2 only takes part in the allreduce; rank 3 answers what has come to it."""
    offered = [send(0, 1, 100, 120, 150), send(1, 0, 130, 150, 160), send(1, 3, 131, 150, 160)]
    ring = allreduce_by("ring", {0: 400, 2: 500})
    assert late([*offered, send(3, 1, 300, 310, 320), ring], asked((2, 0, 450))) == {0: 0, 1: 30, 2: 350}
    assert late([]) == {}
    day_ns = 86_400 * 10**9
    much_later = 3 * day_ns
    apart = [offered[0], send(2, 3, much_later, much_later, much_later)]
    with pytest.raises(BadTrace, match=r"rank 2 begins 3.* after the first one, as if in another run"):
        late(apart)
    hours_ns = [hour * day_ns // 24 for hour in range(60)]
    hourly = [send(0, 1, ns, ns + 1, ns + 2) for ns in hours_ns]
    assert late([*hourly, send(1, 0, hours_ns[-1] + 5, hours_ns[-1] + 6, hours_ns[-1] + 7)]) == {0: 0}


def test_a_workload_has_what_the_packets_show() -> None:
    """The first bytes of data or notices that each rank sends, by the message table; nothing of a capture
    whose clocks cannot be compared, or that began later.
    """
    job = find_job(open_trace([SAMPLES / "mpi_4_tso"]))
    workload = workload_of(job)
    messages = job.trace.messages
    said = messages.of("allreduce") & (messages.kind != MessageKind.CONTROL)
    first_ns = [int(messages.first_ns[said & (messages.src == rank)].min()) for rank in range(4)]
    assert workload.late_ns == tuple(ns - min(first_ns) for ns in first_ns)
    assert max(workload.late_ns) > MS
    clocks = job.trace.clocks
    one = replace(clocks.hosts[0], comparable=False)
    apart = Clocks((one, *clocks.hosts[1:]))
    assert workload_of(replace(job, trace=replace(job.trace, clocks=apart))).late_ns == ()
    later = tuple(
        replace(choice, connection=replace(choice.connection, streams=_without_openers(choice)))
        for choice in job.trace.choices
    )
    assert workload_of(replace(job, trace=replace(job.trace, choices=later))).late_ns == ()


def _without_openers(choice: Choice) -> tuple[Stream, ...]:
    """The streams of a capture that began when the connection was open."""
    return tuple(replace(stream, opener=None) for stream in choice.connection.streams)
