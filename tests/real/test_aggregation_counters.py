"""What the switches' ports count of an allreduce that they add up: the buffer once each way on every link.

Expected values are closed forms (Sapio et al., NSDI 2021; for the ring Patarasuk, Yuan, JPDC 2009), the
counts are the ports' own: the plan is asked for nothing.  Each packet of either kind has 66 bytes of headers.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real.commands import CARRIED_OUT, gradwire, with_given_calibration

pytestmark = [pytest.mark.real, pytest.mark.untimed]

FABRICS = ("fat-tree:k=4,levels=2,rate=50M", "bigraph:n=4,m=2,rate=50M")
N_RANKS, NBYTES, REPEATS = 8, 512 * 1024, 2
ELEMENTS_NBYTES = 256 * 4
RING_NBYTES = 2 * (N_RANKS - 1) * NBYTES // N_RANKS
FRAMING = 1.01  # gloo's preambles, set-up, and what TCP's options hold


class Run(NamedTuple):
    row: dict[str, Any]
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    @property
    def n_repeats(self) -> int:
        """Those that the machine disturbed are carried out once more."""
        return len(self.read("repeats.json"))

    @property
    def n_chunks(self) -> int:
        """A stream's beginning; then of each sum its exponents and its elements."""
        return 1 + self.n_repeats * (1 + NBYTES // ELEMENTS_NBYTES)

    @property
    def n_again(self) -> int:
        """Packets of sums that hosts sent again."""
        return sum(
            rank["retransmitted"] for repeat in self.read("repeats.json") for rank in repeat["aggregated"]
        )

    def streams(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Bytes without headers in one repeat that (went out of, came into) each switch port."""
        n = self.n_repeats
        return {
            (row["switch"], row["port"]): (
                (row["tx_bytes"] - 66 * row["tx_packets"]) // n,
                (row["rx_bytes"] - 66 * row["rx_packets"]) // n,
            )
            for row in self.read("switches.json")["ports"]
        }


@pytest.fixture(scope="module", params=FABRICS)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same allreduce added up by switches, and round a ring of hosts."""
    out = tmp_path_factory.mktemp("sums") / "runs"
    done = with_given_calibration(
        *("bench", "allreduce", "-b", str(NBYTES), "--repeat", str(REPEATS), "--fabric", request.param),
        *("--algorithm", "ina", "--algorithm", "ring", "--out", str(out), "--json"),
    )
    assert done.returncode in CARRIED_OUT, done.stderr
    rows = json.loads(done.stdout)
    assert [row["wrong"] for row in rows] == [0, 0]
    return {row["algorithm"]: Run(row, Path(row["folder"])) for row in rows}


def hosts_ports(run: Run) -> list[tuple[str, int]]:
    """A switch's first ports are its hosts': two on each of four switches."""
    switches = sorted({switch for switch, _ in run.streams()})
    with_hosts = [switch for switch in switches if not switch.startswith("spine")]
    return [(switch, port) for switch in with_hosts for port in (1, 2)]


def is_once(nbytes: int, run: Run) -> bool:
    """As many bytes as the buffer has, or more by what was sent again."""
    return NBYTES <= nbytes <= NBYTES + run.n_again * ELEMENTS_NBYTES


def test_every_host_sends_the_buffer_once_and_gets_it_once(runs: dict[str, Run]) -> None:
    ina = runs["ina"]
    streams = ina.streams()
    ports = hosts_ports(ina)
    assert len(ports) == N_RANKS
    assert all(is_once(nbytes, ina) for port in ports for nbytes in streams[port])


def test_every_link_of_the_tree_carries_the_buffer_once_each_way_and_no_other_anything(
    runs: dict[str, Run],
) -> None:
    """A tree of s switches has s - 1 cables: 4 leaves and a spine, or the BiGraph's 4 switches."""
    ina = runs["ina"]
    ports = hosts_ports(ina)
    inner = {port: both for port, both in ina.streams().items() if port not in ports}
    used = [both for both in inner.values() if any(both)]
    n_switches = 5 if any(switch.startswith("spine") for switch, _ in inner) else 4
    assert len(used) == 2 * (n_switches - 1)  # both ends of each
    assert all(is_once(nbytes, ina) for both in used for nbytes in both)


@pytest.mark.parametrize("runs", FABRICS[:1], indirect=True)  # a BiGraph's switches pass on others' sums
def test_the_uplinks_of_a_leaf_carry_one_buffer_for_both_its_hosts_and_a_rings_nearly_two(
    runs: dict[str, Run],
) -> None:
    """Of leaves in order one flow of the ring leaves each: 2 (p-1)/p S."""
    sums: dict[str, Counter[str]] = {}
    for name, run in runs.items():
        sums[name] = Counter()
        for (switch, port), (out, _) in run.streams().items():
            if switch.startswith("leaf") and port > 2:
                sums[name][switch] += out
    assert len(sums["ina"]) == len(sums["ring"]) == 4
    assert all(is_once(nbytes, runs["ina"]) for nbytes in sums["ina"].values())
    assert all(RING_NBYTES <= nbytes <= FRAMING * RING_NBYTES for nbytes in sums["ring"].values())


def test_a_ring_puts_2_p_minus_1_over_p_of_the_buffer_on_every_hosts_link(runs: dict[str, Run]) -> None:
    streams = runs["ring"].streams()
    for port in hosts_ports(runs["ring"]):
        assert all(RING_NBYTES <= nbytes <= FRAMING * RING_NBYTES for nbytes in streams[port])


def test_every_childs_rule_counts_each_chunk_once_and_what_was_sent_again(runs: dict[str, Run]) -> None:
    ina = runs["ina"]
    counts = [row["packets"] for row in ina.read("switches.json")["flows"] if "udp_dst" in row["match"]]
    n_children = len(hosts_ports(ina)) + (4 if ina.row["fabric"].startswith("fat-tree") else 3)
    n_parents = n_children - N_RANKS
    assert len(counts) == n_children + n_parents
    assert all(packets >= ina.n_chunks for packets in counts)
    n_asked = sum(pool["counts"]["other_epoch"] for pool in ina.read("switches.json")["pools"])
    if not ina.n_again + n_asked:
        assert set(counts) == {ina.n_chunks}


def test_switches_added_each_childs_chunk_once(runs: dict[str, Run]) -> None:
    n_chunks = runs["ina"].n_chunks
    for pool in runs["ina"].read("switches.json")["pools"]:
        assert pool["counts"]["added"] == pool["children"] * n_chunks
        assert pool["counts"]["completed"] == n_chunks
        refused = ("malformed", "early", "saturated")
        assert {event: pool["counts"][event] for event in refused} == dict.fromkeys(refused, 0)


def test_the_audit_finds_the_counters_as_planned(runs: dict[str, Run]) -> None:
    done = gradwire("audit", *(str(run.folder) for run in runs.values()), "--json")
    assert [found["run"]["findings"] for found in json.loads(done.stdout)] == [[], []]
    assert done.returncode == 0


def test_the_row_tells_the_bytes_of_every_tier(runs: dict[str, Run]) -> None:
    ina, ring = runs["ina"], runs["ring"]
    tiers = ina.row["tier_nbytes"]
    host_to_switch = sum(nbytes for name, nbytes in tiers.items() if name.startswith("host→"))
    least = N_RANKS * (NBYTES + 66 * ina.n_chunks / ina.n_repeats) - 1
    assert least <= host_to_switch <= 1.001 * least + ina.n_again * (66 + ELEMENTS_NBYTES)
    others = sum(nbytes for name, nbytes in ring.row["tier_nbytes"].items() if name.startswith("host→"))
    assert others > 1.6 * host_to_switch  # 1.75, less the headers of smaller packets, and TCP's answers


def test_a_switch_adds_once_for_each_link_that_leads_up(runs: dict[str, Run]) -> None:
    ina = runs["ina"].row
    assert ina["aggregation"]["additions_per_result"] == (12 if ina["fabric"].startswith("fat-tree") else 11)
    assert ina["aggregation"]["largest_error"] <= ina["aggregation"]["error_bound"]
    assert ina["ratio"] > 0.95
