"""Planned routes: optimal where theory says that they can be, legal and no worse than others everywhere."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.model.phases import nbytes_by_phase
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check_path
from gradwire.planning.resolve import flows_of, resolve_placed
from gradwire.planning.routing.balance import Balance
from gradwire.planning.routing.links import Alternatives
from gradwire.planning.routing.planned import reassigned
from gradwire.planning.routing.policies import policy
from gradwire.planning.routing.shortest import Path
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Gate, Op, Schedule, together
from gradwire.traces.schedules.sends import Send, Sends
from gradwire.traces.seeded import draw
from tests.made_plans import MIB, all_to_all, allreduce_plan, messages, schedule_plan

BIGRAPHS = ["bigraph:n=4,m=3", "bigraph:n=6,m=1", "bigraph:n=6,m=2"]


def permuted(partners: Sequence[int], nbytes: int = 1000) -> Schedule:
    return messages(len(partners), [(a, b, nbytes) for a, b in enumerate(partners) if a != b])


def most_together(fabric: Fabric, schedule: Schedule, routes: str = "planned") -> int:
    """The most flows of a schedule of one phase on a link, ranks on hosts in their order."""
    flows = list(flows_of(fabric, fabric.hosts, schedule, 0))
    paths = policy(routes)(fabric, fabric.hosts, flows, schedule, 0)
    sending = {(send.src, send.dst) for send in schedule.sends}
    used = Counter(
        egress
        for flow, path in zip(flows, paths, strict=True)
        if (flow.src, flow.dst) in sending
        for egress in path
    )
    return max(used.values(), default=0)


@given(
    st.sampled_from(
        ["fat-tree:k=4", "fat-tree:k=6", "fat-tree:k=6,levels=2", "leaf-spine:leaves=5,spines=3,hosts=3"]
    ),
    st.randoms(use_true_random=False),
    st.integers(1, 30),
)
def test_flows_of_a_permutation_never_meet_in_a_non_blocking_tree(
    spec: str, random: Random, n_ranks: int
) -> None:
    fabric = parse_fabric(spec)
    hosts = list(range(len(fabric.hosts)))
    partners = random.sample(hosts, len(hosts))
    sending = set(random.sample(hosts, min(n_ranks, len(hosts))))
    schedule = permuted([b if a in sending else a for a, b in enumerate(partners)])
    assert most_together(fabric, schedule) <= 1


@pytest.mark.parametrize(("spines", "most"), [(1, 4), (2, 2), (3, 2), (4, 1), (5, 1)])
def test_on_fewer_spines_than_hosts_the_quotient_rounded_up_shares_a_cable(spines: int, most: int) -> None:
    fabric = parse_fabric(f"leaf-spine:leaves=4,spines={spines},hosts=4")
    schedule = permuted([(a + 4) % 16 for a in range(16)])
    assert most_together(fabric, schedule) == most


def least_together(fabric: Fabric, partners: Sequence[int]) -> int:
    """The same by trying all combinations of shortest paths."""
    known = Alternatives(fabric)
    choices = [known.paths(fabric.hosts[a], fabric.hosts[b]) for a, b in enumerate(partners) if a != b]
    return min(
        max(Counter(egress for path in chosen for egress in path[1:-1]).values(), default=1)
        for chosen in product(*choices)
    )


@pytest.mark.parametrize("spec", BIGRAPHS[:2])
@pytest.mark.parametrize("seed", range(12))
def test_permutations_on_a_bigraph_meet_as_little_as_any_choice_of_shortest_paths_allows(
    spec: str, seed: int
) -> None:
    fabric = parse_fabric(spec)
    hosts = range(len(fabric.hosts))
    partners = sorted(hosts, key=lambda host: draw(seed, spec, host))
    assert most_together(fabric, permuted(partners)) == least_together(fabric, partners)


@pytest.mark.parametrize("spec", ["fat-tree:k=6", "leaf-spine:leaves=5,spines=3,hosts=3"])
def test_planes_are_found_by_their_cables_and_not_by_the_familys_name(spec: str) -> None:
    fabric = replace(parse_fabric(spec), family="file", shape={})
    hosts = range(len(fabric.hosts))
    for seed in range(5):
        assert most_together(fabric, permuted(sorted(hosts, key=lambda host: draw(seed, host)))) == 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("spec", ["fat-tree:k=4", "leaf-spine:leaves=4,spines=4,hosts=4"])
def test_halving_doubling_on_drawn_hosts_takes_its_bound(spec: str, seed: int) -> None:
    plan = allreduce_plan(spec, "halving-doubling", "random", "planned", seed)
    assert plan.prediction.fluid_s == pytest.approx(plan.prediction.bound_s, rel=1e-6)


@pytest.mark.parametrize(
    ("spec", "routes", "expected"),
    [
        ("bigraph:n=8,m=4", "direct", 40 / 31),
        ("bigraph:n=8,m=4", "planned", 40 / 31),
        ("leaf-spine:leaves=8,spines=4,hosts=4", "planned", 1),
        ("bigraph:n=8,m=2", "direct", 16 / 15),
        ("bigraph:n=8,m=2", "planned", 1),
        ("fat-tree:k=4", "planned", 1),
    ],
)
def test_alltoall_takes_what_the_model_says(spec: str, routes: str, expected: float) -> None:
    n_ranks = len(parse_fabric(spec).hosts)
    plan = schedule_plan(spec, all_to_all(n_ranks, 10**5), routes=routes)
    assert plan.prediction.fluid_s / plan.prediction.bound_s == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_alltoall_of_16_is_faster_on_a_bigraph_than_hashed_on_a_fat_tree(seed: int) -> None:
    schedule = all_to_all(16, 10**5)
    mesh = schedule_plan("bigraph:n=8,m=2", schedule, routes="direct", seed=seed)
    tree = schedule_plan("fat-tree:k=4", schedule, routes="ecmp", seed=seed)
    assert mesh.prediction.fluid_s < tree.prediction.fluid_s


SPECS = [
    "fat-tree:k=4",
    "fat-tree:k=4,uplink_rate=30M",
    "leaf-spine:leaves=3,spines=4,hosts=4",
    "star:hosts=12",
    *BIGRAPHS,
]
SENDS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 10**6)).filter(lambda s: s[0] != s[1]),
    min_size=1,
    max_size=40,
)


@given(st.sampled_from(SPECS), SENDS, st.integers(0, 9))
def test_whatever_is_sent_planned_is_legal_and_no_slower_than_the_others(
    spec: str, sends: list[tuple[int, int, int]], seed: int
) -> None:
    schedule = messages(6, sends)
    plan = schedule_plan(spec, schedule, placement="random", routes="planned", seed=seed)
    for flow in plan.flows:
        source, destination = plan.placement[flow.src], plan.placement[flow.dst]
        shortest = Alternatives(plan.fabric).paths(source, destination)
        assert flow.path in shortest
    assert_no_slower(plan)


def assert_no_slower(plan: Plan) -> None:
    """In the fluid model, than any policy that does not know the schedule."""
    for routes in ("ecmp", "dmodk", *(["direct"] if plan.fabric.family == "bigraph" else [])):
        other = schedule_plan(
            plan.fabric.spec, plan.schedule, placement="random", routes=routes, seed=plan.seed
        )
        assert plan.prediction.fluid_s <= other.prediction.fluid_s * (1 + 1e-9)


@pytest.mark.long
@given(
    st.sampled_from(["fat-tree:k=4", "leaf-spine:leaves=4,spines=3,hosts=3", *BIGRAPHS]),
    st.lists(st.tuples(st.integers(2, 4), st.sampled_from(["ring", "halving-doubling"])), max_size=3),
    st.integers(0, 99),
)
@example("bigraph:n=6,m=2", [(4, "halving-doubling")] * 3, 76)
def test_no_other_policy_is_faster_for_one_to_three_jobs(
    spec: str, sizes: list[tuple[int, str]], seed: int
) -> None:
    jobs = [expand(made_allreduce(n if kind == "ring" else 4, MIB), kind) for n, kind in sizes]
    schedule = together(jobs or [expand(made_collective("alltoall", 5, MIB), "pairwise")])
    n_hosts = len(parse_fabric(spec).hosts)
    while schedule.n_ranks > n_hosts:
        jobs.pop()
        schedule = together(jobs)
    assert_no_slower(schedule_plan(spec, schedule, placement="random", routes="planned", seed=seed))


@pytest.mark.parametrize("most_sends", [0, 10**6])
def test_both_comparisons_find_what_is_faster(most_sends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the fluid model, and by the sum of the phases where there are too many sends for it."""
    monkeypatch.setattr("gradwire.planning.routing.planned.MOST_SENDS", most_sends)
    test_when_another_policy_is_better_its_paths_are_taken(monkeypatch)


def test_when_another_policy_is_better_its_paths_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_on_the_first_way(balance: Balance, fabric: Fabric, first: int) -> None:
        del fabric, first
        for flow in balance.sends:
            balance.put(flow, balance.links.ways(flow)[0])

    monkeypatch.setattr("gradwire.planning.routing.planned.put_by_colours", all_on_the_first_way)
    monkeypatch.setattr("gradwire.planning.routing.planned.improve", lambda balance: None)
    monkeypatch.setattr("gradwire.planning.routing.planned.shake", lambda balance, random: None)
    shift = permuted([(a + 5) % 16 for a in range(16)])  # D-mod-k's own pattern: no two flows meet
    assert most_together(parse_fabric("fat-tree:k=4"), shift) == 1


def test_the_same_seed_gives_the_same_paths_and_another_one_others() -> None:
    one, two, other = (
        allreduce_plan("fat-tree:k=4", "halving-doubling", "random", "planned", seed) for seed in (3, 3, 4)
    )
    assert one == two
    assert {flow.path for flow in one.flows} != {flow.path for flow in other.flows}


def test_large_flows_are_kept_apart_before_small_ones() -> None:
    # Two of 4 MB and four of 1 MB from one leaf with two uplinks: 6 MB on each is the best there is.
    sizes = [4, 4, 1, 1, 1, 1]
    schedule = messages(12, [(a, a + 6, size * 10**6) for a, size in enumerate(sizes)])
    (phase,) = plan_load(
        schedule_plan("leaf-spine:leaves=2,spines=2,hosts=6", schedule, routes="planned")
    ).phases
    assert phase.nbytes == 6_000_000


def two_jobs(n: int, algorithm: str) -> Schedule:
    one = expand(made_allreduce(n, MIB), algorithm)
    return together((one, one))


def jobs_plan(fabric: Fabric, hosts: Sequence[str], algorithm: str) -> Plan:
    return resolve_placed(
        fabric,
        tuple(hosts),
        two_jobs(len(hosts) // 2, algorithm),
        algorithm=algorithm,
        placement="chosen",
        routes="planned",
        seed=1,
        transport=fabric_transport(fabric),
    )


def most_of_both_jobs(plan: Plan) -> int:
    """The most flows on a link, whichever phases of the two jobs fall together."""
    path = {(flow.src, flow.dst): flow.path for flow in plan.flows}
    peaks: dict[int, Counter[Egress]] = {0: Counter(), 1: Counter()}
    for (job, _), pairs in nbytes_by_phase(plan.schedule).items():
        peaks[job] |= Counter(egress for pair in pairs for egress in path[pair])
    return max((peaks[0] + peaks[1]).values())


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("spec", "m"), [("leaf-spine:leaves=4,spines=4,hosts=4", 4), ("fat-tree:k=4", 2)])
def test_two_jobs_side_by_side_never_meet_whatever_their_phases(
    spec: str, m: int, seed: int, algorithm: str
) -> None:
    fabric = parse_fabric(spec)
    left = [host for number, host in enumerate(fabric.hosts) if number % m < m // 2]
    right = [host for host in fabric.hosts if host not in left]
    hosts = [*sorted(left, key=lambda h: draw(seed, h)), *sorted(right, key=lambda h: draw(seed, h))]
    assert most_of_both_jobs(jobs_plan(fabric, hosts, algorithm)) == 1


def two_operations_of_one_job(*ranks_of: Sequence[int]) -> Schedule:
    """A halving-doubling of each of these ranks; a message makes them one job."""
    p = len(ranks_of[0])
    one = expand(made_allreduce(p, MIB), "halving-doubling")
    parts = []
    for op, ranks in enumerate(ranks_of):
        rank_of = np.array(ranks, np.int32)
        parts.append(replace(one.sends.moved(op=op), src=rank_of[one.sends.src], dst=rank_of[one.sends.dst]))
    a, b = ranks_of[0][0], ranks_of[1][0]
    parts.append(Sends.of([Send(2, a, b, 0, 8, reduce=False)]))
    ops = (*(replace(one.ops[0], members=()),) * 2, Op("message", 8, root=a))
    return Schedule(2 * p, ops, Sends.joined(parts), (Gate(2, a, (0,)),))


def test_operations_of_one_job_that_may_be_under_way_together_share_links_in_one_phase() -> None:
    """Each leaf sends four flows over two uplinks: two at once on each, in the two steps across."""
    schedule = two_operations_of_one_job([0, 1, 4, 5], [2, 3, 6, 7])
    load = plan_load(schedule_plan("leaf-spine:leaves=2,spines=2,hosts=4", schedule, routes="planned"))
    assert load.worst.together == 2
    across = [phase for phase in load.phases if phase.key in {(0, 1), (0, 2)}]
    assert [phase.least_s / phase.host_s for phase in across] == pytest.approx([2, 2])
    assert load.n_collisions == 2


@pytest.mark.parametrize("spec", ["leaf-spine:leaves=4,spines=4,hosts=4", "fat-tree:k=4"])
@pytest.mark.parametrize("seed", range(3))
def test_operations_of_one_job_that_may_be_under_way_together_are_routed_apart(spec: str, seed: int) -> None:
    """On fabrics that are non-blocking, whatever the hosts."""
    fabric = parse_fabric(spec)
    plan = resolve_placed(
        fabric,
        tuple(sorted(fabric.hosts, key=lambda host: draw(seed, "any", host))),
        two_operations_of_one_job(range(8), range(8, 16)),
        algorithm="halving-doubling",
        placement="chosen",
        routes="planned",
        seed=seed,
        transport=fabric_transport(fabric),
    )
    path_of = {(flow.src, flow.dst): flow.path for flow in plan.flows}
    for step in range(6):
        pairs = {(each.src, each.dst) for each in plan.schedule.sends if each.step == step and each.op < 2}
        assert max(Counter(egress for pair in pairs for egress in path_of[pair]).values()) == 1


@pytest.mark.parametrize("seed", range(5))
def test_two_rings_on_any_hosts_of_a_non_blocking_tree_never_meet(seed: int) -> None:
    fabric = parse_fabric("fat-tree:k=4")
    hosts = sorted(fabric.hosts, key=lambda host: draw(seed, "any", host))
    assert most_of_both_jobs(jobs_plan(fabric, hosts, "ring")) == 1


def without_cable(plan: Plan, a: str, b: str) -> Fabric:
    return replace(plan.fabric, links=tuple(link for link in plan.fabric.links if {link.a, link.b} != {a, b}))


def moved_by(plan: Plan, left: Fabric) -> tuple[set[int], dict[int, Path]]:
    affected = {i for i, flow in enumerate(plan.flows) if not left.peers.keys() >= set(flow.path)}
    return affected, reassigned(left, plan.placement, plan.flows, plan.schedule, sorted(affected))


def test_flows_are_led_round_a_failed_cable_and_spread_over_what_is_left() -> None:
    plan = allreduce_plan("leaf-spine:leaves=4,spines=4,hosts=4", "halving-doubling", "random", "planned", 2)
    left = without_cable(plan, "leaf0", "spine1")
    affected, paths = moved_by(plan, left)
    assert affected == paths.keys() != set()
    flows = [replace(flow, path=paths.get(i, flow.path)) for i, flow in enumerate(plan.flows)]
    for flow in flows:
        check_path(left, plan.placement[flow.src], plan.placement[flow.dst], flow.path)
        assert len(flow.path) == 4 or "spine" not in str(flow.path)
    # Four flows leave the leaf over three cables: two share one, and nowhere three.
    assert plan_load(replace(plan, flows=tuple(flows))).worst.together == 2


def test_a_host_that_is_cut_off_keeps_its_flows_as_they_were() -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", "ring", routes="planned")
    left = without_cable(plan, "h3", "leaf1")
    affected, paths = moved_by(plan, left)
    assert {(plan.flows[i].src, plan.flows[i].dst) for i in affected} == {(2, 3), (3, 4), (3, 2), (4, 3)}
    assert paths == {}


def test_every_flow_gets_a_path_though_none_sends() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    flows = list(
        flows_of(fabric, fabric.hosts, messages(16, [(a, b, 1) for a, b in permutations(range(16), 2)]), 0)
    )
    paths = policy("planned")(fabric, fabric.hosts, flows, messages(16, []), 0)
    for flow, path in zip(flows, paths, strict=True):
        check_path(fabric, fabric.hosts[flow.src], fabric.hosts[flow.dst], path)
