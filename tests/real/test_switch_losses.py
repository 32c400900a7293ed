"""The cables of the switch's ports that lose packets, in the kernel: which, and how they are counted."""

from typing import Any

import pytest

from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch.plane.bpf import BpfObject
from gradwire.emu.switch.plane.maps import PortState
from gradwire.emu.switch.table.planeoperations import SetRule
from gradwire.planning.openflow.entries import Aggregate, Output
from gradwire.planning.openflow.match import Match
from gradwire.traces.framing.aggregation import Header, PacketKind
from tests.real.aggregation_bench import SHOT, STOLEN, Bench, contribution, host_frame
from tests.real.inside import inside

pytestmark = [pytest.mark.real, pytest.mark.untimed]


def splitmix64(state: int) -> int:
    """Steele, Lea and Flood 2014, as Vigna's splitmix64.c has it; `state` after its increment."""
    mask = (1 << 64) - 1
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return state ^ state >> 31


def drawn(seed: int, way: int, n: int, ratio: float) -> list[int]:
    """The numbers of the packets that are lost."""
    states = ((seed << 1 | way) + (number + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for number in range(n))
    return [number for number, state in enumerate(states) if splitmix64(state) >> 32 < round(ratio * 2**32)]


def lost(ratio: float, seed: int, n: int, way: int) -> list[Any]:
    """[the numbers of the packets that did not come from port 1 to port 2, and the ports' counters]"""
    losses = (0, round(ratio * 2**32)) if way else (round(ratio * 2**32), 0)
    lossy = PortState(0, 1 + way, 0, 1 + way, True, *losses, loss_seed=seed, switch_loses=bool(way))
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, 2)
        bench.maps.set_port(bench.ifindex[1 + way], lossy)
        other = PortState(0, 2 - way, 0, 2 - way, True, switch_loses=bool(way))
        bench.maps.set_port(bench.ifindex[2 - way], other)
        bench.maps.apply(0, bench.ifindex, SetRule(Match(), 0, (Output(2),), 0))
        results = [bench.receive(1, host_frame(bytes(10))) for _ in range(n)]
        received = bench.maps.received(1)
        numbers = [number for number, returned in enumerate(results) if returned in (SHOT, STOLEN)]
        return [
            numbers,
            received.packets,
            received.dropped_packets,
            bench.maps.received(1 + way).lost_in,
            bench.maps.received(1 + way).lost_out,
        ]


@pytest.mark.parametrize(("way", "seed"), [(0, 1), (0, 2), (1, 1), (1, 0xFFFFFFFF)])
def test_a_cable_loses_the_packets_that_its_seed_draws(way: int, seed: int) -> None:
    """As many as the ratio says within 4 standard deviations, and just those that SplitMix64 names."""
    n, ratio = 4000, 0.05
    numbers, packets, dropped, lost_in, lost_out = inside(lost, ratio, seed, n, way)
    assert numbers == drawn(seed, way, n, ratio)
    assert abs(len(numbers) - n * ratio) < 4 * (n * ratio * (1 - ratio)) ** 0.5
    assert (lost_in, lost_out) == ((0, len(numbers)) if way else (len(numbers), 0))
    assert (packets, dropped) == (n - lost_in, 0)


def results_lost(n_lost: int) -> list[Any]:
    """[results that came to each of two ports, of which the second loses half; the ports' lost_out]"""
    rule = Aggregate(1, 0, 0, 8, 1, None, (1, 2), 0b11, 0b11)
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, 2)
        lossy = PortState(0, 2, 0, 2, True, tx_loss=1 << 31, loss_seed=5, switch_loses=True)
        bench.maps.set_port(bench.ifindex[1], PortState(0, 1, 0, 1, True, switch_loses=True))
        bench.maps.set_port(bench.ifindex[2], lossy)
        bench.grant(0, rule)
        for chunk in range(200):
            for child in range(2):
                bench.receive(
                    rule.ports[child], contribution(Header(PacketKind.CONTRIBUTION, 1, 0, 1, chunk), (1,))
                )
        come = [seen.port for seen in bench.sent(400 - n_lost)]
        return [[come.count(port), bench.maps.received(port).lost_out] for port in (1, 2)]


def test_results_are_lost_at_the_port_that_loses_and_no_other() -> None:
    n = len(drawn(5, 1, 200, 0.5))
    assert inside(results_lost, n) == [[200, 0], [200 - n, n]]
