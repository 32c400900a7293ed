"""Frames of 9,000 bytes on real cables: sums in packets of 2,048 elements, and TCP in full frames.

Expected values are closed forms: each link of a tree carries the buffer once each way, a ring's host link
2 (p - 1) / p of it (Patarasuk, Yuan, JPDC 2009); each packet of either kind has 66 bytes of headers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gradwire.emu import run
from gradwire.emu.options import RunOptions
from gradwire.emu.records import Repeat, load_repeats
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.results.audit.runaudit import audit_run, middle
from gradwire.traces.making.collectives import made_allreduce

pytestmark = pytest.mark.real

FABRIC = parse_fabric("fat-tree:k=4,levels=2,rate=100M,mtu=9000")
N_RANKS, NBYTES = 8, 2 << 20
N_CHUNKS = NBYTES // (2048 * 4)


class Run(NamedTuple):
    plan: Plan
    folder: Path
    repeats: list[Repeat]  # the machine may have disturbed some

    @property
    def counted(self) -> Any:
        return json.loads((self.folder / "switches.json").read_text())

    @property
    def hosts_ports(self) -> list[dict[str, int]]:
        """The counters of the leaves' ports towards hosts."""
        near = [FABRIC.peers[end] for end in FABRIC.peers if end.node in FABRIC.host_set]
        return [port for port in self.counted["ports"] if (port["switch"], port["port"]) in near]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """The same allreduce round a ring of hosts, and added up by switches."""
    made = {}
    for algorithm in ("ring", "ina"):
        job = Experiment(made_allreduce(N_RANKS, NBYTES), "made", elements=2048)
        plan = plan_of(Cell(FABRIC, algorithm, "linear", "ecmp"), job)
        folder = tmp_path_factory.mktemp("jumbo") / algorithm
        run.run(plan, folder, RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
        made[algorithm] = Run(plan, folder, load_repeats(folder, plan))
    return made


@pytest.mark.parametrize("algorithm", ["ring", "ina"])
def test_all_sums_are_right_and_the_counters_are_the_plans(algorithm: str, runs: Mapping[str, Run]) -> None:
    plan, folder, repeats = runs[algorithm]
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    found = audit_run(folder, plan, repeats, middle(repeats))
    assert found is not None
    assert found.agrees, found.sentence


def test_a_sum_is_one_packet_of_8258_bytes_for_2048_elements(runs: Mapping[str, Run]) -> None:
    ina, n = runs["ina"], len(runs["ina"].repeats)
    again = sum(rank.retransmitted for repeat in ina.repeats for rank in repeat.aggregated)
    # A host that has waited long asks, and gets an answer.
    again += sum(pool["counts"]["other_epoch"] for pool in ina.counted["pools"])
    packets = 1 + n * (1 + N_CHUNKS)  # where the stream begins; the exponents of each sum, and its elements
    assert len(ina.hosts_ports) == N_RANKS
    for port in ina.hosts_ports:
        assert 0 <= port["rx_packets"] - packets <= again
        assert 0 <= port["rx_bytes"] - packets * 66 - n * NBYTES <= again * 8258
        assert 0 <= port["tx_packets"] - packets <= N_RANKS * again


def test_a_ring_has_fewer_packets_than_full_frames_of_1514_bytes_would_be(runs: Mapping[str, Run]) -> None:
    ring, n = runs["ring"], len(runs["ring"].repeats)
    sends = n * 2 * (N_RANKS - 1)
    payload = sends * NBYTES // N_RANKS
    assert len(ring.hosts_ports) == N_RANKS
    for port in ring.hosts_ports:
        stream = port["tx_bytes"] - 66 * port["tx_packets"]
        assert payload <= stream <= 1.01 * payload
        assert payload // 8948 <= port["tx_packets"] < payload // 1448
