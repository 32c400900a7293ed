"""Plans: deterministic, with connections that can be opened as they are."""

from pathlib import Path

import pytest

from gradwire.planning import plan as plans
from gradwire.planning import resolve as resolving
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.refused import Refused
from gradwire.planning.transport import fabric_transport
from gradwire.planning.trees.grants import Terms
from gradwire.traces.framing.setups import STORE_PORT
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import allreduce_plan, messages, schedule_plan


def test_the_same_arguments_give_the_same_plan() -> None:
    one, two = (allreduce_plan("fat-tree:k=4", placement="random", seed=5) for _ in range(2))
    assert one == two


def test_another_seed_gives_other_ports() -> None:
    one, two = (allreduce_plan("fat-tree:k=4", seed=seed) for seed in (5, 6))
    assert {flow.sport for flow in one.flows} != {flow.sport for flow in two.flows}


def test_a_plan_read_back_from_its_file_is_the_same(tmp_path: Path) -> None:
    plan = allreduce_plan("bigraph:n=4,m=2", "halving-doubling", "hdrm", "direct", seed=3)
    plans.save(plan, tmp_path / "plan.json")
    assert plans.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "as-captured"])
def test_every_pair_that_sends_has_one_connection_opened_by_the_higher_rank(algorithm: str) -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", algorithm, placement="random")
    pairs = {frozenset((send.src, send.dst)) for send in plan.schedule.sends}
    assert len(plan.flows) == 2 * len(pairs)
    back = {(flow.src, flow.dst): flow for flow in plan.flows}
    listening: dict[int, int] = {}
    for flow in plan.flows:
        assert (flow.src_ip, flow.dst_ip) == tuple(
            plan.fabric.ip(plan.placement[r]) for r in (flow.src, flow.dst)
        )
        reverse = back[flow.dst, flow.src]
        assert (flow.sport, flow.dport) == (reverse.dport, reverse.sport)
        if flow.src > flow.dst:
            assert listening.setdefault(flow.dst, flow.dport) == flow.dport


def test_no_host_uses_a_port_twice_even_when_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "LAST_PORT", resolving.FIRST_PORT + 59)
    n = 40
    every = messages(n, [(a, b, 1) for a in range(n) for b in range(a)])
    plan = schedule_plan("star:hosts=40", every)
    used: dict[str, set[int]] = {}
    listens = {flow.dst: flow.dport for flow in plan.flows if flow.src > flow.dst}
    for flow in plan.flows:
        if flow.src > flow.dst:
            ports = used.setdefault(flow.src_ip, {listens.get(flow.src, 0)})
            assert flow.sport not in ports
            ports.add(flow.sport)


def test_ports_are_registered_or_ephemeral_ones() -> None:
    plan = allreduce_plan("star:hosts=32", "halving-doubling")
    used = {port for flow in plan.flows for port in (flow.sport, flow.dport)}
    assert min(used) >= 20_000
    assert max(used) <= 60_999


def test_the_port_of_pytorchs_rendezvous_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "FIRST_PORT", STORE_PORT)
    monkeypatch.setattr(resolving, "LAST_PORT", STORE_PORT + 3)
    plan = schedule_plan("star:hosts=3", messages(3, [(0, 1, 1), (1, 2, 1), (2, 0, 1)]))
    assert STORE_PORT not in {port for flow in plan.flows for port in (flow.sport, flow.dport)}


def test_ranks_can_be_put_on_hosts_chosen_beforehand() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    plan = resolving.resolve_placed(
        fabric,
        ("h15", "h0"),
        messages(2, [(0, 1, 1000)]),
        algorithm="made",
        placement="chosen",
        routes="dmodk",
        seed=0,
        transport=fabric_transport(fabric),
    )
    there = next(flow for flow in plan.flows if flow.src == 0)
    assert (there.path[0].node, fabric.peers[there.path[-1]].node) == ("h15", "h0")


def test_more_ranks_than_hosts_are_refused() -> None:
    with pytest.raises(Refused, match="16 ranks need 16 hosts, but star:hosts=8 has 8"):
        allreduce_plan("star:hosts=8", n_ranks=16)


@pytest.mark.parametrize(
    "send", [Send(0, 0, 0, 0, 4, False), Send(0, 0, 2, 0, 4, False), Send(0, -1, 0, 0, 4, False)]
)
def test_a_send_that_leaves_the_ranks_is_refused(send: Send) -> None:
    with pytest.raises(ValueError, match="send 0 goes from rank"):
        schedule_plan("star:hosts=2", Schedule.of(2, (Op("message", 4),), (send,)))


def test_a_schedule_whose_groups_get_no_tree_is_refused() -> None:
    schedule = expand(made_allreduce(4, 4096), "ina")
    assert len(schedule_plan("star:hosts=4", schedule).trees) == 1
    with pytest.raises(
        Refused, match="the switches of star:hosts=4 cannot add this up: switch0 has 7 of 7 slots"
    ):
        resolving.resolve(
            parse_fabric("star:hosts=4"),
            schedule,
            algorithm="ina",
            placement="linear",
            routes="ecmp",
            seed=0,
            transport=fabric_transport(parse_fabric("star:hosts=4")),
            terms=Terms(switch_slots=7),
        )


@pytest.mark.parametrize("routes", ["ecmp", "dmodk", "direct", "planned", "adaptive"])
def test_every_policy_serves_a_plan_without_flows(routes: str) -> None:
    plan = schedule_plan("bigraph:n=4,m=2", expand(made_allreduce(8, 4096), "ina"), routes=routes)
    assert (plan.flows, len(plan.trees)) == ((), 1)
