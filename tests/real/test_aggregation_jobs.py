"""Whole jobs added up by switches: lossy cables, jobs that share slots, leaves, servers, a captured training.

Expected bytes are closed forms (docs/aggregation.md); what was counted is the switch ports' own.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.controller.counters import load_counters
from gradwire.emu import run
from gradwire.emu.options import RunOptions
from gradwire.emu.records import Repeat, load_repeats
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import HOST_PORT, Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import Failure
from gradwire.planning.plan import Plan, load
from gradwire.results.audit.runaudit import audit_run, middle
from gradwire.results.audit.runfigures import aggregation_row
from gradwire.traces.making.collectives import made_allreduce
from tests.real.commands import CARRIED_OUT, PS, gradwire, rows, with_given_calibration

pytestmark = pytest.mark.real

TWO_LEVELS = "leaf-spine:leaves=4,spines=1,hosts=2,rate=50M"
PACKET_NBYTES = 256 * 4
HEADERS_NBYTES = 66  # of TCP with timestamps, and of a packet of a sum
FRAMING = 1.01  # gloo's preambles, connections, what TCP's options hold
RESNET = "traces/samples/ddp_gloo_4_resnet18_tso"


def allreduce_plan(
    spec: str,
    algorithm: str,
    n_ranks: int,
    nbytes: int,
    placement: str = "linear",
    loss: tuple[str, ...] = (),
) -> Plan:
    cell = Cell(parse_fabric(spec), algorithm, placement, "ecmp")
    return plan_of(cell, Experiment(made_allreduce(n_ranks, nbytes), "test", seed=3, loss=loss))


def carried_out(plan: Plan, folder: Path) -> list[Repeat]:
    """Repeats that the machine disturbed are carried out again, and are here too: sums are right in all."""
    run.run(plan, folder, RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
    repeats = load_repeats(folder, plan)
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    return repeats


def audited(plan: Plan, folder: Path, repeats: list[Repeat]) -> None:
    found = audit_run(folder, plan, repeats, middle(repeats))
    assert found is not None
    assert [str(finding) for finding in found.findings] == []


def streams(folder: Path, n_repeats: int) -> dict[Egress, tuple[float, float]]:
    """Bytes without headers in one repeat that (went out of, came into) each switch port."""
    return {
        Egress(row["switch"], row["port"]): (
            (row["tx_bytes"] - HEADERS_NBYTES * row["tx_packets"]) / n_repeats,
            (row["rx_bytes"] - HEADERS_NBYTES * row["rx_packets"]) / n_repeats,
        )
        for row in json.loads((folder / "switches.json").read_text())["ports"]
    }


def hosts_port(plan: Plan, rank: int) -> Egress:
    return plan.fabric.peers[Egress(plan.placement[rank], HOST_PORT)]


def uplinks(plan: Plan, counted: Mapping[Egress, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The sums over each first switch's ports that lead to no host."""
    firsts = {hosts_port(plan, rank).node for rank in range(plan.n_ranks)}
    sums: dict[str, tuple[float, float]] = dict.fromkeys(firsts, (0.0, 0.0))
    for port, (out, into) in counted.items():
        if port.node in firsts and plan.fabric.peers[port].node not in plan.fabric.hosts:
            sums[port.node] = sums[port.node][0] + out, sums[port.node][1] + into
    return sums


def n_again(repeats: list[Repeat]) -> int:
    return sum(figures.retransmitted for repeat in repeats for figures in repeat.aggregated)


@pytest.mark.parametrize("loss", [0, 0.001, 0.01, 0.05])
def test_of_ten_thousand_packets_of_each_of_eight_workers_every_sum_is_right(
    loss: float, tmp_path: Path
) -> None:
    """A chunk goes up 12 cables; what is lost there is made up for by one sent again at least."""
    n_packets, p = 10_000, 8
    plan = allreduce_plan(TWO_LEVELS, "ina", p, n_packets * PACKET_NBYTES, loss=(f"{loss:%}",))
    folder = tmp_path / "run"
    repeats = carried_out(plan, folder)
    for number, repeat in enumerate(repeats):
        for figures in repeat.aggregated:
            assert figures.sent == figures.received == n_packets + 1 + (number == 0)
    counters = load_counters(folder / "switches.json")
    row = aggregation_row(plan, repeats, counters)
    assert row is not None
    assert (row.contributions, row.saturated) == (p * (n_packets + 1) + 1 * p * (len(repeats) == 1), 0)
    assert row.largest_error <= row.error_bound
    assert row.retransmitted >= 0.8 * loss * 12 * n_packets
    ports = json.loads((folder / "switches.json").read_text())["ports"]
    n_sent = len(repeats) * n_packets * 24  # on a cable, either way
    assert sum(row["rx_dropped"] + row["tx_dropped"] for row in ports) >= 0.8 * loss * n_sent
    audited(plan, folder, repeats)


def test_each_cable_of_a_tree_of_three_levels_carries_the_buffer_once_each_way(tmp_path: Path) -> None:
    """s switches have s - 1 cables: 8 edges, 4 above them and a core.  Of two: test_aggregation_counters."""
    n_switches, nbytes = 13, 128 * PACKET_NBYTES
    plan = allreduce_plan("fat-tree:k=4,rate=20M", "ina", 16, nbytes)
    folder = tmp_path / "run"
    repeats = carried_out(plan, folder)
    counted = streams(folder, len(repeats))
    most = nbytes + n_again(repeats) * PACKET_NBYTES
    ports = [hosts_port(plan, rank) for rank in range(plan.n_ranks)]
    inner = [both for port, both in counted.items() if port not in ports and any(both)]
    assert len(inner) == 2 * (n_switches - 1)
    for out, into in [*inner, *(counted[port] for port in ports)]:
        assert nbytes <= out <= most
        assert nbytes <= into <= most
    audited(plan, folder, repeats)


@pytest.mark.parametrize(
    ("spec", "n_ranks", "placement"),
    [("leaf-spine:leaves=4,spines=2,hosts=2,rate=50M", 8, "linear"), ("fat-tree:k=4,rate=50M", 10, "random")],
)
def test_a_leafs_uplinks_carry_a_ring_of_leaves_when_leaves_add_up(
    spec: str, n_ranks: int, placement: str, tmp_path: Path
) -> None:
    """2 (L-1)/L S each way, however many ranks are below it."""
    nbytes = 8 * 9 * 7 * 5 * 4 * 64
    plan = allreduce_plan(spec, "ina:leaf", n_ranks, nbytes, placement)
    sizes = Counter(hosts_port(plan, rank).node for rank in range(n_ranks))
    assert (len(set(sizes.values())) > 1) == (placement == "random")
    folder = tmp_path / "run"
    repeats = carried_out(plan, folder)
    n_leaves = len(sizes)
    ring_nbytes = 2 * (n_leaves - 1) / n_leaves * nbytes
    for both in uplinks(plan, streams(folder, len(repeats))).values():
        for carried in both:
            assert ring_nbytes <= carried <= FRAMING * ring_nbytes
    audited(plan, folder, repeats)


def test_a_cable_of_the_tree_fails_while_packets_are_lost_and_every_sum_is_right(tmp_path: Path) -> None:
    spec = "leaf-spine:leaves=3,spines=2,hosts=1,rate=50M"
    plan = allreduce_plan(spec, "ina", 3, 6_000_000, loss=("1%",))  # 1 s without loss
    leaf = plan.trees[0].nodes[1]
    assert leaf.parent_port is not None
    down = Failure(Egress(leaf.switch, leaf.parent_port), 300_000_000, None)
    repeats = carried_out(replace(plan, failures=(down,)), tmp_path / "run")
    lines = (tmp_path / "run" / "control.jsonl").read_text().splitlines()
    assert "tree_moved" in {json.loads(line)["event"] for line in lines}
    assert n_again(repeats)
    assert any(figures.moves for repeat in repeats for figures in repeat.aggregated)


def two_jobs(folder: Path, switch_slots: int) -> tuple[dict[str, Any], str, str, Plan]:
    """Two jobs of four ranks at one switch, both of which want 64 slots: row, table, page and plan."""
    # A busy machine adds notes, of which without --verbose some are left out.
    out = ("--out", str(folder / "runs"), "--html", str(folder / "page.html"), "--verbose")
    common = ("bench", "allreduce", "-b", "512KiB", "--ranks", "4", "--jobs", "2", "--ina", "on", "-n", "1")
    done = with_given_calibration(
        *common,
        *("--fabric", "star:hosts=8,rate=50M", "--slots", "64", "--switch-slots", str(switch_slots)),
        *out,
    )
    assert done.returncode in CARRIED_OUT, done.stdout + done.stderr
    (folder_of_run,) = (folder / "runs").glob("01-*")
    row = json.loads((folder_of_run / "result.json").read_text())
    assert row["wrong"] == 0, done.stderr
    plan = load(folder_of_run / "plan.json")
    return row, done.stdout + done.stderr, (folder / "page.html").read_text(), plan


@pytest.mark.untimed
def test_of_two_jobs_the_one_without_slots_is_done_by_hosts_and_all_reports_say_so(tmp_path: Path) -> None:
    row, table, page, plan = two_jobs(tmp_path, 70)
    reason = "job 2 of 2: switch0 has 6 of 70 slots left, 8 are needed"
    assert row["host_side"] == [reason]
    assert (row["aggregation"]["trees"], row["aggregation"]["slots"]) == (1, 64)
    assert reason in " ".join(table.split())
    assert reason in page
    assert [len(tree.members) for tree in plan.trees] == [4]
    assert {send.src for send in plan.schedule.sends} == {4, 5, 6, 7}


@pytest.mark.untimed
def test_of_two_jobs_the_second_takes_the_slots_that_are_left(tmp_path: Path) -> None:
    row, _, _, plan = two_jobs(tmp_path, 80)
    assert row["host_side"] == []
    assert [tree.slots for tree in plan.trees] == [64, 16]
    assert (row["aggregation"]["trees"], row["aggregation"]["slots"]) == (2, 80)


@pytest.mark.untimed
def test_a_parameter_server_gets_one_sum_in_place_of_four_pushes(tmp_path: Path) -> None:
    """Each iteration 4 workers push 340,008 bytes and pull as many."""
    pushed, n_workers = 340_008, 4
    done = gradwire(
        *("replay", PS, "--fabric", "star:hosts=5,rate=50M", "--compute", "none", "--iteration", "1"),
        *("-n", "1", "--ina", "off,on", "--out", str(tmp_path / "runs"), "--json"),
    )
    off, on = rows(done)
    to_server = {}
    for row in (off, on):
        assert row["wrong"] == 0
        folder = Path(row["folder"])
        plan = load(folder / "plan.json")
        repeats = load_repeats(folder, plan)
        counted = streams(folder, len(repeats))
        server = max(range(5), key=lambda rank: counted[hosts_port(plan, rank)][1])  # it is pulled from
        out, into = counted[hosts_port(plan, server)]
        assert n_workers * pushed <= into <= FRAMING * n_workers * pushed + n_again(repeats) * PACKET_NBYTES
        to_server[row["algorithm"]] = out, n_again(repeats)
        audited(plan, folder, repeats)
    assert n_workers * pushed <= to_server["as-captured"][0] <= FRAMING * n_workers * pushed
    sum_nbytes, again = to_server["ina"]
    assert pushed <= sum_nbytes <= FRAMING * pushed + again * PACKET_NBYTES
    assert off["bytes"] == on["bytes"] == 2 * n_workers * pushed
    # Pushes and pulls do not overlap: 4 and 4 messages' times, or 1 and 4.
    assert on["predicted_s"] == pytest.approx(5 / 8 * off["predicted_s"], rel=0.1)


@pytest.mark.untimed
def test_a_captured_training_with_and_without_aggregation_on_two_fabrics_is_one_table_and_one_page(
    tmp_path: Path,
) -> None:
    done = with_given_calibration(
        *("replay", RESNET, "--fabric", "fat-tree:k=4,rate=50M"),
        *("--fabric", "bigraph:n=4,m=2,rate=50M"),
        *("--ina", "off,on", "--iteration", "1", "--scale-bytes", "1/16", "--compute", "none", "-n", "1"),
        *("--out", str(tmp_path / "runs"), "--html", str(tmp_path / "page.html")),
    )
    assert done.returncode in (0, 3), done.stderr
    made = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("runs/0*/result.json"))]
    assert [row["algorithm"] for row in made] == ["as-captured", "ina"] * 2
    assert [row["wrong"] for row in made] == [0] * 4
    grids = [
        line
        for line in done.stdout.splitlines()
        if not line.startswith(("not valid:", "note:", "runs:", "report:"))
    ]
    assert max(map(len, grids)) <= 100
    assert not any("…" in line for line in grids)  # nothing was cut off to fit
    assert done.stdout.count("In-network aggregation") == 2
    page = (tmp_path / "page.html").read_text()
    assert page.count("In-network aggregation") >= 2
