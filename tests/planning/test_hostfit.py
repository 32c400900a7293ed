"""What hosts cost is found again in times made by hand from known costs."""

from functools import cache
from math import log2

import pytest

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.calibration import (
    CROWD_CHUNKS,
    N_PAIR,
    N_RESTED,
    HostTimes,
    crowd_times_s,
)
from gradwire.planning.model.hostfit import fit_hosts
from gradwire.planning.plan import Plan
from gradwire.planning.transport import fabric_transport
from gradwire.results.calibrating import calibration_plan
from tests.made_plans import PAYLOAD_EFFICIENCY

P = 8
RATE_BPS = 10e9  # links that take next to no time
LATENCY_S = 0.0003
START_S = 0.001


@cache
def plan(spec: str = f"star:hosts={P},rate=10G") -> Plan:
    fabric = parse_fabric(spec)
    return calibration_plan(fabric, fabric_transport(fabric))


def full_s(message_s: float, n_cpus: int) -> list[float]:
    """Of each kind, when processors never rest: after the first step, each step has p sends and p notices."""
    steps = (2 * (P - 1) - 1, 2 * log2(P) - 1)
    return [n * P * 2 * message_s / n_cpus for _ in CROWD_CHUNKS for n in steps]


def fitted(times_s: list[list[float]], starts_s: list[float], n_cpus: int = 1) -> HostTimes:
    found = fit_hosts(plan(), times_s, starts_s, LATENCY_S, PAYLOAD_EFFICIENCY, n_cpus)
    assert found is not None
    return found


@pytest.mark.parametrize("n_cpus", [1, 2])
@pytest.mark.parametrize("message_s", [0.0001, 0.0004])
def test_the_time_of_a_message_is_found_again(message_s: float, n_cpus: int) -> None:
    found = fitted([[time_s] for time_s in full_s(message_s, n_cpus)], [P * START_S], n_cpus)
    assert found.message_s.middle == pytest.approx(message_s, rel=0.1)
    assert found.message_s.low == pytest.approx(message_s, rel=0.2)
    assert found.message_s.high == pytest.approx(message_s, rel=0.2)
    assert found.wire_s == pytest.approx(max(0.0, LATENCY_S - found.message_s.middle))
    assert found.n_cpus == n_cpus


def test_the_time_of_a_start_is_found_again() -> None:
    """All p starts, one notice or two for each, and the sends of the first step, on one processor."""
    message_s = 0.0001
    started_s = P * (START_S + 3 * message_s)
    found = fitted([[time_s] for time_s in full_s(message_s, 1)], [started_s])
    assert found.start_s.middle == pytest.approx(START_S, rel=0.15)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_kinds_that_their_links_bound_say_nothing_of_hosts(factor: float) -> None:
    """On links of 20 Mb/s 4 KiB of each rank take 1.7 ms a step, and no host is as slow."""
    made = plan(f"star:hosts={P},rate=20M")
    on_wire_s = 4096 * 8 / (20e6 * PAYLOAD_EFFICIENCY)
    small = full_s(0.0004, 1)[:2]
    large = [factor * on_wire_s * n_steps for n_steps in (2 * (P - 1) - 1, 2 * P - 2 - P / 2)]
    times_s = [[time_s] for time_s in (*small, *large)]
    found = fit_hosts(made, times_s, [P * START_S], LATENCY_S, PAYLOAD_EFFICIENCY, 1)
    assert found is not None
    assert found.message_s.low == pytest.approx(0.0004, rel=0.2)
    assert found.message_s.high == pytest.approx(0.0004, rel=0.2)


def test_samples_that_differ_make_a_range_as_wide() -> None:
    usual = full_s(0.0002, 1)
    found = fitted([[time_s * factor for factor in (0.8, 0.9, 1.0, 1.2, 1.4)] for time_s in usual], [0.02])
    assert found.message_s.low == pytest.approx(0.9 * 0.0002, rel=0.15)
    assert found.message_s.high == pytest.approx(1.2 * 0.0002, rel=0.15)
    assert found.message_s.low < found.message_s.middle < found.message_s.high


def test_kinds_that_disagree_make_the_range_wider() -> None:
    ring_s, doubling_s, *_ = full_s(0.0002, 1)
    agreeing = fitted([[ring_s], [doubling_s]] * 2, [0.02]).message_s
    odd = fitted([[ring_s], [2 * doubling_s]] * 2, [0.02]).message_s
    assert odd.high > 1.5 * agreeing.high
    assert odd.low == pytest.approx(agreeing.low, rel=0.05)


def test_times_of_samples_are_from_the_first_step_to_the_last_arrival() -> None:
    made = plan("star:hosts=4")
    first = [number for number, send in enumerate(made.schedule.sends) if send.op == 0]
    arrived_ns = [0] * len(made.schedule.sends)
    for number in first:
        arrived_ns[number] = 5_000_000 if made.schedule.sends[number].step == 0 else 6_000_000
    arrived_ns[first[-1]] = 9_000_000
    assert crowd_times_s(made, arrived_ns)[0][0] == pytest.approx(0.004)


@pytest.mark.parametrize("spec", ["star:hosts=2", "star:hosts=5", "fat-tree:k=4", "bigraph:n=8,m=4"])
def test_shifts_begin_when_the_crowd_is_done_and_two_ranks_after_them(spec: str) -> None:
    made = plan(spec)
    kinds = [op.kind for op in made.schedule.ops]
    n_crowd = kinds.index("message")
    assert set(kinds[n_crowd:]) == {"message"}
    opened = {(gate.op, gate.rank): gate for gate in made.schedule.gates}
    sends = list(made.schedule.sends)
    shifts = [send for send in sends[: len(sends) - N_PAIR] if send.op >= n_crowd]
    begins = [opened[send.op, send.src] for send in shifts if (send.op, send.src) in opened]
    assert begins and all(gate.after == tuple(range(n_crowd)) and gate.gap_ns > 0 for gate in begins)
    for number, send in enumerate(sends[len(sends) - N_PAIR :]):
        for rank in (send.dst,) if 0 < number < N_RESTED else (send.src, send.dst):
            assert (
                opened[send.op, rank].after
                == tuple(shift.op for shift in shifts if rank in (shift.src, shift.dst))[-2:]
            )
            assert opened[send.op, rank].gap_ns > 0


def test_without_a_crowd_nothing_is_known_of_hosts() -> None:
    assert fit_hosts(plan("star:hosts=2"), [[]], [], LATENCY_S, PAYLOAD_EFFICIENCY, 1) is None
