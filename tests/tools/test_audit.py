"""The audit of plans: phases against closed forms, and collisions worked out by hand from the hash."""

from collections import Counter
from ipaddress import IPv4Address
from itertools import permutations

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.flowhash import flow_hash, switch_salt
from gradwire.planning.model.loads import PhaseLoad, plan_load, slowest, worst_shares
from gradwire.planning.openflow.rules import plan_rules, table_sizes
from gradwire.planning.plan import Plan
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan


def phases(plan: Plan) -> tuple[PhaseLoad, ...]:
    return plan_load(plan).parts


def alltoall_plan(spec: str, n_ranks: int, routes: str, nbytes: int = 1000) -> Plan:
    pairs = [(src, dst, nbytes) for src, dst in permutations(range(n_ranks), 2)]
    return schedule_plan(spec, messages(n_ranks, pairs), routes=routes)


def test_halving_doubling_in_order_with_dmodk_collides_nowhere_on_a_fat_tree() -> None:
    found = phases(allreduce_plan("fat-tree:k=4", "halving-doubling", routes="dmodk", nbytes=16 * MIB))
    assert all(one.collisions == () for one in found)
    assert all(one.phase.least_s == one.phase.bound_s for one in found)
    assert {len(link.flows) for one in found for link in one.links} == {1}


def test_a_step_and_its_mirror_are_one_phase() -> None:
    """Halving over distance d sends the same bytes between the same ranks as doubling over d."""
    found = phases(allreduce_plan("fat-tree:k=4", "halving-doubling", nbytes=16 * MIB))
    assert [one.keys for one in found] == [((0, s), (0, 7 - s)) for s in range(4)]
    assert [one.nbytes for one in found] == [16 * 8 * MIB, 16 * 4 * MIB, 16 * 2 * MIB, 16 * MIB]


def test_a_rings_steps_are_all_one_phase() -> None:
    (one,) = phases(allreduce_plan("fat-tree:k=4", "ring", nbytes=16 * MIB))
    assert len(one.keys) == 2 * 15
    assert one.phase.least_s == pytest.approx(MIB * 8 / (100e6 * PAYLOAD_EFFICIENCY))


@pytest.mark.parametrize("seed", range(5))
def test_collisions_of_ecmp_are_those_of_the_published_hash(seed: int) -> None:
    """4 leaves, 2 spines: a leaf's first uplink leads to spine 0; it is port 3, after its two hosts."""
    plan = allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", "random", seed=seed)
    fabric = plan.fabric
    for one in phases(plan):
        steps = {send.step for send in plan.schedule.sends if (send.op, send.step) in one.keys[:1]}
        pairs = {(send.src, send.dst) for send in plan.schedule.sends if send.step in steps}
        carried: Counter[tuple[str, str]] = Counter()
        for flow in plan.flows:
            near, far = (access_switch(fabric, plan.placement[rank]) for rank in (flow.src, flow.dst))
            if (flow.src, flow.dst) in pairs and near != far:
                src, dst = int(IPv4Address(flow.src_ip)), int(IPv4Address(flow.dst_ip))
                salt = switch_salt(fabric.dpid(near), seed)
                spine = f"spine{flow_hash(src, dst, 6, flow.sport, flow.dport, salt) % 2}"
                carried.update([(near, spine), (spine, far)])
        collisions = {
            (link.egress.node, fabric.peers[link.egress].node): len(link.flows) for link in one.collisions
        }
        assert collisions == {link: count for link, count in carried.items() if count > 1}


def test_alltoall_on_a_bigraph_puts_40_flows_on_a_link_where_a_host_has_31() -> None:
    """m^2 flows go straight over a link, and m^2 (n/2 - 1) / (n/2) from within each half: 16 + 2 * 12."""
    (one,) = phases(alltoall_plan("bigraph:n=8,m=4", 32, "direct"))
    assert len(one.host.flows) == 31
    assert [len(link.flows) for link in one.collisions] == [40] * 32
    assert one.worst.share == pytest.approx(40 / 31)


def test_the_worst_phase_is_the_one_that_adds_most_and_else_the_longest() -> None:
    found = phases(allreduce_plan("bigraph:n=4,m=2", "halving-doubling"))
    added = [len(one.keys) * (one.worst.busy_s - one.host.busy_s) for one in found]
    assert added[slowest(found)] == max(added) > 0
    free = phases(allreduce_plan("star:hosts=4", "halving-doubling"))
    assert slowest(free) == 0  # halves first: the most bytes


def test_the_worst_share_of_a_link_is_that_of_its_worst_phase() -> None:
    found = phases(allreduce_plan("bigraph:n=4,m=2", "halving-doubling", routes="direct"))
    shares = worst_shares(found)
    assert max(shares.values()) == 2  # all m flows of a switch over its one cable to its partner
    assert shares[Egress("h0", 0)] == 1


def test_a_phase_of_empty_messages_has_no_share() -> None:
    (one,) = phases(schedule_plan("star:hosts=2", messages(2, [(0, 1, 0)])))
    assert (one.worst.share, one.collisions) == (0.0, ())


def test_a_star_has_a_rule_for_each_flow_and_each_host_and_no_group() -> None:
    (size,) = table_sizes(plan_rules(allreduce_plan("star:hosts=4", "ring")))
    assert (size.n_rules, size.n_groups) == (8 + 4, 0)


def test_a_spine_has_rules_for_the_flows_through_it_and_for_every_host() -> None:
    plan = alltoall_plan("leaf-spine:leaves=2,spines=1,hosts=2", 4, "ecmp")
    sizes = {size.switch: size for size in table_sizes(plan_rules(plan))}
    assert sizes["spine0"].n_rules == 2 * 2 * 2 + 4  # the flows between the leaves, both ways
    assert sizes["leaf0"].n_rules == 12 - 2 + 4  # all but those within the other leaf
