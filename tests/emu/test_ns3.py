"""ns-3 is given the plan, and takes as long for it as TCP must."""

import subprocess
from dataclasses import replace
from io import BytesIO
from math import ceil

import numpy as np
import pytest

from gradwire.emu.engines import ns3
from gradwire.emu.engines.ns3 import packet_times, problem
from gradwire.emu.engines.problem import _listen
from gradwire.emu.project import NS3_DRIVER
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import allreduce_plan, messages, schedule_plan

needs_ns3 = pytest.mark.skipif(not NS3_DRIVER.exists(), reason="ns-3 is not set up: ./gradwire setup --ns3")
SEGMENT = 1448  # payload of a full packet, with TCP's timestamps
FRAME_S, ACK_S = 1514 * 8 / 100e6, 66 * 8 / 100e6  # on a cable of 100 Mb/s; 66 bytes are headers alone
WITH_ACKS = 1 + 66 / 2 / 1514  # a cable that carries data one way and their ACKs' like the other
MS = 1e-3


def test_what_is_handed_over_has_only_the_cables_and_nodes_that_the_plan_uses() -> None:
    plan = schedule_plan("fat-tree:k=4", messages(2, [(0, 1, 4000)]), placement="linear")
    n_hosts, n_nodes, n_cables, _, n_flows, n_sends, n_gates, _ = problem(plan)[0].tolist()
    assert (n_hosts, n_nodes, n_cables, n_flows, n_sends, n_gates) == (2, 3, 2, 2, 1, 0)


def test_what_it_cannot_carry_out_is_refused_in_words() -> None:
    plan = allreduce_plan("star:hosts=4", "ring", nbytes=4000)
    newest = replace(plan, schedule=replace(plan.schedule, order="newest-first"))
    with pytest.raises(
        Refused, match=r"^gradwire does not give an order of sends to ns-3: leave out --engine packets$"
    ):
        packet_times(newest)


def test_too_many_packets_are_refused_with_the_size_that_fits() -> None:
    plan = schedule_plan("star:hosts=2", messages(2, [(0, 1, 20_000_000 * SEGMENT)]))
    with pytest.raises(
        Refused, match=r" 40,000,000 times, .* at most 10,000,000: plan for 7.2 GB instead of 29 GB$"
    ):
        packet_times(plan)


def test_too_many_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ns3, "MOST_CONNECTIONS", 3)
    with pytest.raises(
        Refused, match="the plan has 4 connections, and gradwire gives ns-3 at most 3: plan for"
    ):
        packet_times(allreduce_plan("star:hosts=4", "ring", nbytes=4000))


@needs_ns3
@pytest.mark.parametrize(("spec", "n_cables"), [("star:hosts=16", 2), ("fat-tree:k=4", 6)])
def test_one_message_takes_its_frames_and_the_last_is_stored_at_each_switch(spec: str, n_cables: int) -> None:
    sends = [(0, 15, 1000 * SEGMENT + 100)]
    time_s = packet_times(schedule_plan(spec, messages(16, sends))).time_s
    last_s = (1514 - SEGMENT + 100) * 8 / 100e6
    assert time_s == pytest.approx((1000 + n_cables - 1) * FRAME_S + last_s, abs=1e-6)


@needs_ns3
def test_a_long_way_makes_slow_start_seen() -> None:
    """Ten segments leave.  ACKs come for the first alone, and for four more pairs: one lets two segments
    leave, four let three leave.  So 24 take two round trips, and another one a third.
    """
    times_s = [
        packet_times(schedule_plan("star:hosts=2,delay=10ms", messages(2, [(0, 1, n * SEGMENT)]))).time_s
        for n in (24, 25)
    ]
    first_ack_s = 2 * FRAME_S + 2 * ACK_S + 40 * MS
    assert times_s[0] == pytest.approx(first_ack_s + 15 * FRAME_S + 20 * MS, abs=2 * FRAME_S)
    assert times_s[1] == pytest.approx(2 * first_ack_s + 2 * FRAME_S + 20 * MS, abs=2 * FRAME_S)


@needs_ns3
def test_two_that_share_a_cable_get_half_each() -> None:
    nbytes = 2000 * SEGMENT
    found = packet_times(schedule_plan("star:hosts=3", messages(3, [(0, 2, nbytes), (1, 2, nbytes)])))
    assert found.ends_s == pytest.approx(4000 * FRAME_S, rel=0.05)
    assert found.n_dropped == found.n_resent == 0


@needs_ns3
def test_both_directions_of_a_connection_have_the_whole_rate() -> None:
    nbytes = 2000 * SEGMENT
    found = packet_times(schedule_plan("star:hosts=2", messages(2, [(0, 1, nbytes), (1, 0, nbytes)])))
    assert 2000 * FRAME_S <= found.ends_s.max() <= 2000 * FRAME_S * WITH_ACKS + 20 * FRAME_S
    assert found.n_resent == 0


def _late(sends: list[tuple[int, int, int]]) -> Plan:
    """The last one may leave 50 ms after the others, and 1 ns."""
    return schedule_plan(
        "star:hosts=3", messages(3, sends, (Gate(len(sends) - 1, sends[-1][0], (), 50_000_001),))
    )


@needs_ns3
def test_acks_pass_the_data_of_their_own_side() -> None:
    """Else the first ACK would wait for 34 frames, and for it the sender, who has ten under way."""
    found = packet_times(_late([(1, 2, 2000 * SEGMENT), (0, 1, 40 * SEGMENT)]))
    assert found.ends_s[1] - 0.05 == pytest.approx(41 * FRAME_S, abs=3 * FRAME_S)


@needs_ns3
def test_a_host_has_two_of_the_kernels_segments_of_a_connection_in_its_queue() -> None:
    """So a packet of another connection waits for 17 to 34 frames, of the 90 that a window has."""
    plan = _late([(0, 1, 2000 * SEGMENT), (0, 2, SEGMENT)])
    assert plan.transport.gso_max_nbytes // SEGMENT == 17
    assert 17 * FRAME_S <= packet_times(plan).ends_s[1] - 0.05 <= 36 * FRAME_S


@needs_ns3
def test_flows_take_the_paths_of_the_plan() -> None:
    """On one of two spines both at once, or each on its own: the plan's hashed routes say which."""
    nbytes = 500 * SEGMENT
    sends = [(0, 2, nbytes), (1, 3, nbytes)]
    seen = set()
    for seed in range(8):
        plan = schedule_plan("leaf-spine:leaves=2,spines=2,hosts=2", messages(4, sends), seed=seed)
        shared = len({flow.path[1] for flow in plan.flows if (flow.src, flow.dst) in {(0, 2), (1, 3)}}) == 1
        if shared not in seen:
            seen.add(shared)
            least_s = 500 * FRAME_S * (2 if shared else 1)
            assert least_s <= packet_times(plan).time_s <= least_s * 1.03
    assert seen == {True, False}


@needs_ns3
@pytest.mark.parametrize("n_ranks", [4, 8])
def test_a_ring_takes_its_steps_and_what_acks_take_beside_data(n_ranks: int) -> None:
    n_segments = 150
    plan = allreduce_plan(f"star:hosts={n_ranks}", "ring", nbytes=n_ranks * n_segments * SEGMENT)
    step_s = (n_segments * WITH_ACKS + 1) * FRAME_S  # the last is stored at the switch
    time_s = packet_times(plan).time_s
    assert time_s == pytest.approx(2 * (n_ranks - 1) * step_s, rel=0.01)
    assert plan.prediction.fluid_s <= time_s


@needs_ns3
@pytest.mark.parametrize("algorithm", ["halving-doubling", "all-pairs"])
@pytest.mark.parametrize("spec", ["star:hosts=8", "bigraph:n=4,m=2"])
def test_it_is_near_the_fluid_model_and_above_it(spec: str, algorithm: str) -> None:
    """Above by ACKs beside data, 2.2 %, and by frames that are stored at switches at each step."""
    plan = allreduce_plan(spec, algorithm, nbytes=1_000_000)
    assert 1 <= packet_times(plan).time_s / plan.prediction.fluid_s <= 1.06


@needs_ns3
def test_what_waits_for_what_is_the_plans() -> None:
    nbytes = 100 * SEGMENT
    ops = tuple(Op("message", nbytes, root=src) for src in (0, 1, 0))
    sends = (
        Send(0, 0, 1, 0, nbytes, reduce=False),
        Send(1, 1, 2, 0, nbytes, reduce=False, needs=(0,)),
        Send(2, 0, 3, 0, nbytes, reduce=False),
    )
    one_s = 101 * FRAME_S
    found = packet_times(
        schedule_plan("star:hosts=4", Schedule.of(4, ops, sends, (Gate(2, 0, (0,), 500_000_000),)))
    )
    assert found.ends_s == pytest.approx([one_s, 2 * one_s, one_s + 0.5 + one_s], abs=1e-5)
    assert found.opened_s == pytest.approx([one_s + 0.5], abs=1e-5)


@needs_ns3
def test_a_queue_that_is_too_short_drops_and_tcp_sends_again() -> None:
    nbytes = 1000 * SEGMENT
    found = packet_times(
        schedule_plan("star:hosts=3,queue=30000", messages(3, [(0, 2, nbytes), (1, 2, nbytes)]))
    )
    assert 0 < found.n_dropped <= found.n_resent
    assert found.time_s > 2000 * FRAME_S


def test_what_a_driver_says_is_its_progress_or_its_last_words() -> None:
    said: list[str] = []
    shares: list[float] = []
    _listen(BytesIO(b"carried 0.25\na warning\ncarried 1.0000\nno room\n"), said, shares.append)
    assert (said, shares) == (["no room"], [0.25, 1.0])


def _run(octets: bytes) -> tuple[int, str]:
    done = subprocess.run([NS3_DRIVER], input=octets, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.long
@needs_ns3
def test_the_driver_refuses_what_is_not_a_plan() -> None:
    columns = problem(_small_plan())
    octets = b"".join(column.tobytes() for column in columns)
    assert _run(octets)[0] == 0
    assert _run(octets[:-8]) == (1, "the plan ends too early\n")
    words = np.frombuffer(octets, np.int64)
    for place in range(0, len(words), ceil(len(words) / 25)):
        for value in (-2, 1 << 62, 3):
            wrong = words.copy()
            wrong[place] = value
            code, said = _run(wrong.tobytes())
            assert code in (0, 1), (place, value, said)


def _small_plan() -> Plan:
    return allreduce_plan("star:hosts=3", "ring", nbytes=3000)
