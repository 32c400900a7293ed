"""Around a cable that is down every flow finds a way, and nobody else's path changes."""

from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Egress, Link
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check_path
from gradwire.planning.routing.reroute import rerouted
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan

SPECS = ("fat-tree:k=4", "fat-tree:k=4,levels=2", "bigraph:n=4,m=2", "leaf-spine:leaves=3,spines=2,hosts=2")


def link_between(plan: Plan, a: str, b: str) -> Link:
    return next(link for link in plan.fabric.links if {link.a, link.b} == {a, b})


def ends(link: Link) -> set[Egress]:
    return {Egress(link.a, link.a_port), Egress(link.b, link.b_port)}


@given(spec=st.sampled_from(SPECS), seed=st.integers(0, 20), number=st.integers(0, 1000))
def test_any_cable_between_switches_is_avoided_and_only_its_flows_move(
    spec: str, seed: int, number: int
) -> None:
    plan = allreduce_plan(spec, "halving-doubling", "random", seed=seed, n_ranks=4)
    inner = [link for link in plan.fabric.links if not {link.a, link.b} & set(plan.fabric.hosts)]
    link = inner[number % len(inner)]
    made = rerouted(plan, frozenset({link}))
    for old, new in zip(plan.flows, made.flows, strict=True):
        check_path(plan.fabric, plan.placement[new.src], plan.placement[new.dst], new.path)
        assert not ends(link) & set(new.path)
        assert (old == new) == (not ends(link) & set(old.path))


def test_when_nothing_used_the_cable_the_plan_is_the_same() -> None:
    plan = schedule_plan("leaf-spine:leaves=2,spines=2,hosts=2", messages(2, [(0, 1, 1000)]))
    assert rerouted(plan, frozenset({link_between(plan, "leaf0", "spine0")})) is plan


def test_a_host_that_is_cut_off_keeps_its_paths_and_the_others_get_theirs() -> None:
    plan = allreduce_plan("leaf-spine:leaves=2,spines=2,hosts=2")
    down = {link_between(plan, "h0", "leaf0"), link_between(plan, "leaf0", "spine0")}
    made = rerouted(plan, down)
    for old, new in zip(plan.flows, made.flows, strict=True):
        if "h0" in (plan.placement[new.src], plan.placement[new.dst]):
            assert new == old
        else:
            assert not ends(link_between(plan, "leaf0", "spine0")) & set(new.path)


def test_when_a_leaf_has_lost_all_its_cables_its_flows_keep_their_paths() -> None:
    plan = allreduce_plan("leaf-spine:leaves=2,spines=2,hosts=1")
    assert rerouted(plan, [link_between(plan, "leaf0", f"spine{i}") for i in range(2)]) is plan


def test_the_flows_of_a_cable_are_spread_over_those_that_are_left() -> None:
    # Six hosts of leaf0 send to leaf1 at once, by D-mod-k two over each of three spines; two spines are left,
    # so the best that can be is three on each.
    plan = schedule_plan(
        "leaf-spine:leaves=2,spines=3,hosts=6",
        messages(12, [(rank, rank + 6, MIB) for rank in range(6)]),
        routes="dmodk",
    )
    assert plan_load(plan).worst.together == 2
    made = rerouted(plan, [link_between(plan, "leaf0", "spine1")])
    assert plan_load(made).worst.together == 3


def test_what_the_other_flows_of_a_phase_put_on_a_link_counts() -> None:
    # Two flows at a time leave each leaf, in one phase of three; after the failure two spines are left.
    plan = allreduce_plan(
        "leaf-spine:leaves=2,spines=3,hosts=2", "halving-doubling", routes="dmodk", nbytes=MIB
    )
    made = rerouted(plan, [link_between(plan, "leaf0", "spine0")])
    assert plan_load(made).worst.together == 1
