"""Whole runs on small fabrics: what was sent, which way it went, and that nothing is left."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gradwire.emu import records, run
from gradwire.emu.options import RunOptions
from gradwire.emu.project import PROJECT
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.reader import open_trace
from gradwire.traces.schedules.expand import expand

pytestmark = pytest.mark.real

KINDS = ("gradwire", "ovs")


def plan_of(spec: str, algorithm: str, nbytes: int, placement: str = "linear", routes: str = "ecmp") -> Plan:
    fabric = parse_fabric(spec)
    n_ranks = len(fabric.hosts)
    return resolve(
        fabric,
        expand(made_allreduce(n_ranks, nbytes), algorithm),
        algorithm=algorithm,
        placement=placement,
        routes=routes,
        seed=3,
        transport=fabric_transport(fabric),
    )


def carried_out(plan: Plan, folder: Path, **options: Any) -> Path:
    run.run(plan, folder, RunOptions(**options), lambda phase, more: None, lambda work: None)
    return folder


def flow_nbytes(folder: Path) -> Counter[tuple[str, str, str]]:
    """Bytes by (source, destination, switch) that the rules of the plan's flows counted.

    One cable joins two switches of these fabrics, so the switches that a flow met tell its ports.
    """
    counted: Counter[tuple[str, str, str]] = Counter()
    for flow in json.loads((folder / "switches.json").read_text())["flows"]:
        match = flow["match"]
        if "tcp_src" in match:
            counted[match["ipv4_src"], match["ipv4_dst"], flow["switch"]] += flow["bytes"]
    return counted


@pytest.mark.parametrize(
    ("spec", "algorithm", "placement", "routes"),
    [
        ("star:hosts=4,rate=100M", "ring", "linear", "dmodk"),
        ("fat-tree:k=4,levels=2,rate=50M", "as-captured", "random", "ecmp"),
        ("bigraph:n=4,m=2,rate=50M", "halving-doubling", "hdrm", "direct"),
        (str(PROJECT / "docs" / "examples" / "bigraph.yaml"), "ring", "linear", "ecmp"),
    ],
)
def test_every_host_sends_what_the_closed_form_says_on_the_planned_links(
    spec: str, algorithm: str, placement: str, routes: str, tmp_path: Path
) -> None:
    nbytes = 16 * 4 * 8400
    plan = plan_of(spec, algorithm, nbytes, placement, routes)
    folder = carried_out(plan, tmp_path / "run", repeats=2)
    p = plan.n_ranks
    for repeat in records.load_repeats(folder):
        assert repeat.wrong == 0
        assert set(repeat.sent_nbytes) == {2 * (p - 1) * nbytes // p}
        assert not repeat.queue_dropped
    counted = flow_nbytes(folder)
    for flow in plan.flows:
        ends = (flow.src_ip, flow.dst_ip)
        met = {switch for (*pair, switch), n in counted.items() if n and tuple(pair) == ends}
        assert met == {end.node for end in flow.path[1:]}


def test_with_hdrm_every_link_between_switches_carries_one_flow_per_step(tmp_path: Path) -> None:
    plan = plan_of("bigraph:n=4,m=2,rate=50M", "halving-doubling", 8 * 42_000, "hdrm", "direct")
    folder = carried_out(plan, tmp_path / "run", repeats=1)
    steps = {(send.src, send.dst): send.step % 3 for send in plan.schedule.sends if send.reduce}
    rank_at = {plan.fabric.ip(host): rank for rank, host in enumerate(plan.placement)}
    at = {plan.fabric.ip(host): access_switch(plan.fabric, host) for host in plan.fabric.hosts}
    payload = Counter[tuple[str, str, int]]()
    for (src, dst, switch), count in flow_nbytes(folder).items():
        if count > 42_000 and switch == at[src] != at[dst]:  # data, not only acknowledgements
            payload[at[src], at[dst], steps[rank_at[src], rank_at[dst]]] += 1
    assert payload
    assert set(payload.values()) == {1}
    assert plan_load(plan).worst.together == 1


def test_the_messages_read_back_from_a_replays_captures_are_the_plans_sends(tmp_path: Path) -> None:
    plan = plan_of("star:hosts=4,rate=100M", "as-captured", 400_008)
    folder = carried_out(plan, tmp_path / "run", repeats=1, captures=True)
    trace = open_trace([folder / "captures"], None)
    data = trace.messages.where(trace.messages.is_data)
    rank = [[plan.fabric.ip(host) for host in plan.placement].index(address) for address in data.addresses]
    read = Counter(
        (rank[src], rank[dst], int(nbytes))
        for src, dst, nbytes in zip(data.src, data.dst, data.nbytes, strict=True)
    )
    n_repeats = len(records.load_repeats(folder))  # more than one if the machine disturbed the first
    sends = [(send.src, send.dst, send.nbytes) for send in plan.schedule.sends]
    assert read == Counter(sends * n_repeats)


def test_the_same_plan_takes_the_same_paths_on_open_vswitch(tmp_path: Path) -> None:
    plan = plan_of("fat-tree:k=4,levels=2,rate=5M", "halving-doubling", 8 * 2000)
    used = []
    for kind in KINDS:
        long = tmp_path / ("x" * 100) / kind  # no socket could be in there
        folder = carried_out(plan, long, repeats=1, switch=kind)
        assert records.load_repeats(folder)[0].wrong == 0
        used.append({key for key, count in flow_nbytes(folder).items() if count})
    assert used[0] == used[1]
    assert len(used[0]) == sum(len(flow.path) - 1 for flow in plan.flows)


def test_every_port_of_a_larger_fabric_is_sampled(tmp_path: Path) -> None:
    plan = plan_of("fat-tree:k=4,rate=100M", "ring", 16 * 4200, routes="dmodk")
    folder = carried_out(plan, tmp_path / "run", repeats=1)
    table = pq.read_table(folder / "links.parquet")
    sampled = set(table["interface"].to_pylist())
    ports = {interface(end.node, end.port) for end in plan.fabric.peers if end.node in plan.fabric.switches}
    assert ports <= sampled
    read = table.filter(pc.is_valid(table["queue_nbytes"]))
    assert set(read["interface"].to_pylist()) == ports  # their queues: no others are shaped


def test_a_run_in_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="already exists"):
        carried_out(plan_of("star:hosts=2", "ring", 400), tmp_path)


def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    plan = plan_of("star:hosts=4,rate=20M", "ring", 400_000)
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from gradwire.emu import run\nfrom gradwire.planning import plan\n"
        "from gradwire.emu.options import RunOptions\n"
        "made = plan.load(Path(sys.argv[1]))\n"
        "run.run(made, Path(sys.argv[2]), RunOptions(1), lambda phase, more: None, print)\n"
    )
    plans.save(plan, tmp_path / "plan.json")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "plan.json"), str(tmp_path / name)], cwd=PROJECT
        )
        for name in ("a", "b")
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    for name in ("a", "b"):
        assert records.load_repeats(tmp_path / name)[0].wrong == 0
