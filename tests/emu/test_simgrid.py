"""SimGrid is given the plan, and says the same of it."""

from dataclasses import replace

import numpy as np
import pytest

from gradwire.emu.engines.simgrid import problem, simgrid_s
from gradwire.emu.project import SIMGRID_DRIVER
from gradwire.planning.refused import Refused
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import allreduce_plan, schedule_plan

needs_simgrid = pytest.mark.skipif(
    not SIMGRID_DRIVER.exists(), reason="SimGrid is not set up: ./gradwire setup --simgrid"
)
EFFICIENCY = 1448 / 1514  # of a frame of 1,514 bytes 52 are TCP's and IP's headers, 14 Ethernet's
SECOND = int(100e6 / 8 * EFFICIENCY)  # the bytes that 100 Mb/s carry in one


def test_what_is_handed_over_has_each_send_with_its_bytes_and_each_link_of_its_path() -> None:
    plan = allreduce_plan("fat-tree:k=4", "ring", nbytes=16_000)
    octets = b"".join(column.tobytes() for column in problem(plan))
    words = np.frombuffer(octets, np.int64)
    n_ranks, n_links, n_flows, n_sends, n_gates, _ = words[:6].tolist()
    assert (n_ranks, n_flows, n_sends, n_gates) == (16, len(plan.flows), len(plan.schedule.sends), 0)
    ends = words[6 + n_links : 6 + n_links + 2 * n_flows].tolist()
    assert ends == [flow.src for flow in plan.flows] + [flow.dst for flow in plan.flows]
    starts = words[6 + n_links + 2 * n_flows :][: n_flows + 1]
    assert np.diff(starts).tolist() == [len(flow.path) for flow in plan.flows]
    rates = np.frombuffer(octets)[6 : 6 + n_links]
    assert rates == pytest.approx(100e6 / 8 * EFFICIENCY)


def test_what_it_cannot_carry_out_is_refused_in_words() -> None:
    plan = allreduce_plan("star:hosts=4", "ring", nbytes=4000)
    newest = replace(plan, schedule=replace(plan.schedule, order="newest-first"))
    with pytest.raises(
        Refused, match=r"^gradwire does not give an order of sends to SimGrid: leave out --engine"
    ):
        simgrid_s(newest)


@needs_simgrid
def test_a_message_takes_its_bytes_over_the_link_and_a_gate_its_gap() -> None:
    sends = (Send(0, 0, 1, 0, SECOND, False), Send(1, 0, 2, 0, 2 * SECOND, False))
    ops = (Op("message", SECOND), Op("message", 2 * SECOND))
    alone = Schedule.of(3, ops[:1], sends[:1])
    assert simgrid_s(schedule_plan("star:hosts=3", alone)) == pytest.approx(1, abs=1e-6)
    both = Schedule.of(3, ops, sends)
    assert simgrid_s(schedule_plan("star:hosts=3", both)) == pytest.approx(3, abs=1e-6)
    late = Schedule.of(3, ops, sends, (Gate(1, 0, (0,), 500_000_000),))
    assert simgrid_s(schedule_plan("star:hosts=3", late)) == pytest.approx(3.5, abs=1e-6)


@needs_simgrid
@pytest.mark.parametrize("spec", ["star:hosts=8", "bigraph:n=4,m=2", "fat-tree:k=4,levels=2"])
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "all-pairs", "tree:flat", "ps:servers=2"])
def test_it_agrees_with_the_fluid_model(spec: str, algorithm: str) -> None:
    n_ranks = 6 if algorithm.startswith("ps") else 8
    plan = allreduce_plan(spec, algorithm, n_ranks=n_ranks, nbytes=800_000)
    assert simgrid_s(plan) == pytest.approx(plan.prediction.fluid_s, rel=5e-3)


@pytest.mark.long
@needs_simgrid
def test_a_long_chain_of_what_takes_no_time_is_no_deeper_than_a_short_one() -> None:
    n = 50_000
    ops = (*(Op("compute", 0) for _ in range(n)), Op("message", SECOND))
    gates = tuple(Gate(op, 0, (op - 1,) if op else ()) for op in range(n + 1))
    chain = Schedule.of(2, ops, (Send(n, 0, 1, 0, SECOND, False),), gates)
    assert simgrid_s(schedule_plan("star:hosts=2", chain)) == pytest.approx(1, abs=1e-6)
