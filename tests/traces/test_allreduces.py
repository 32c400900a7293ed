"""Algorithms by name: the table, their closed forms, and those of other packages."""

from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.refused import Refused
from gradwire.results.schedulesizes import collective_of
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules import names
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.allreduces import FAMILIES
from gradwire.traces.schedules.collectives import BUILT_IN, algorithm
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.hints import NO_HINTS, Hints
from gradwire.traces.schedules.names import OF_HOSTS, OF_NETWORK
from tests.made_orders import step_by_step_s

ALPHA, BETA = 3e-5, 8e-8
LEAVES = Hints(leaves=((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)))
GRID = Hints(grid=(3, 4))
EXACT = ("ring", "halving-doubling", "halving-doubling:far", "recursive-doubling", "all-pairs", "tree:chain")


def test_the_table_has_the_names_that_help_pages_list() -> None:
    assert [name for kind, name in BUILT_IN if kind == "allreduce"] == [*OF_HOSTS, *OF_NETWORK]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("p", range(2, 18))
def test_an_algorithm_of_hosts_takes_the_time_of_its_closed_form(name: str, p: int) -> None:
    nbytes = 4 * 16 * p * 30  # in whole elements, however it is cut
    time_s = step_by_step_s(algorithm(name).sends(p, nbytes, NO_HINTS), ALPHA, BETA)
    assert algorithm(name).time_s(p, nbytes, ALPHA, BETA, NO_HINTS) == pytest.approx(time_s)


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_a_binomial_tree_of_a_power_of_two_takes_the_time_of_its_closed_form(p: int) -> None:
    time_s = step_by_step_s(algorithm("tree:binomial").sends(p, 4000, NO_HINTS), ALPHA, BETA)
    assert algorithm("tree:binomial").time_s(p, 4000, ALPHA, BETA, NO_HINTS) == pytest.approx(time_s)


@pytest.mark.parametrize(("name", "hints"), [("hierarchical", LEAVES), ("hierarchical:grid", GRID)])
def test_a_hierarchy_takes_the_time_of_its_closed_form(name: str, hints: Hints) -> None:
    time_s = step_by_step_s(algorithm(name).sends(12, 4800, hints), ALPHA, BETA)
    assert algorithm(name).time_s(12, 4800, ALPHA, BETA, hints) == pytest.approx(time_s)


def test_on_a_square_torus_a_2d_ring_takes_the_time_of_its_closed_form_on_each_link() -> None:
    square = Hints(grid=(3, 3))
    time_s = step_by_step_s(algorithm("2d-ring").sends(9, 3600, square), ALPHA, BETA, by_link=True)
    assert algorithm("2d-ring").time_s(9, 3600, ALPHA, BETA, square) == pytest.approx(time_s)
    assert algorithm("2d-ring").time_s(12, 4800, ALPHA, BETA, GRID) is None
    assert algorithm("2d-ring").time_s(9, 3600, ALPHA, BETA, NO_HINTS) is None


@pytest.mark.parametrize("name", ["multitree", "multitree:reference"])
def test_under_one_switch_multitree_takes_the_time_of_its_closed_form(name: str) -> None:
    """alpha is 0: the formula counts only the hops that wait for each other, a step by step sum all steps."""
    fabric = parse_fabric("star:hosts=8")
    hints = hints_of(fabric, fabric.hosts)
    time_s = step_by_step_s(algorithm(name).sends(8, 3200, hints), 0.0, BETA)
    assert algorithm(name).time_s(8, 3200, 0.0, BETA, hints) == pytest.approx(time_s)


@pytest.mark.parametrize("p", range(2, 18))
def test_a_double_binary_tree_takes_its_closed_form_at_most(p: int) -> None:
    hints, nbytes = replace(NO_HINTS, host_bps=50_000_000), 1 << 20
    time_s = step_by_step_s(algorithm("double-binary-tree").sends(p, nbytes, hints), ALPHA, BETA)
    most_s = algorithm("double-binary-tree").time_s(p, nbytes, ALPHA, BETA, hints)
    assert most_s is not None
    assert 0.4 * most_s < time_s <= most_s * 1.001  # pieces differ by an element


EXPERIMENT = Experiment(made_allreduce(4, 4000), "test")


def offer(monkeypatch: pytest.MonkeyPatch, *offered: tuple[str, str]) -> None:
    entries = EntryPoints([EntryPoint(name, value, names.GROUP) for name, value in offered])
    monkeypatch.setattr(names, "entry_points", entries.select)


def test_every_algorithm_that_ranks_do_allreduces_by_replaces_servers() -> None:
    kept = {name for name in names.CHOICES if not names.replaces_servers(name)}
    assert kept == {"as-captured", "ina", "ina:leaf", "pairwise", "bruck"}
    assert names.replaces_servers("topk:0.1")
    assert names.replaces_servers("of-a-package")


def test_families_have_the_names_that_help_pages_list() -> None:
    assert FAMILIES.keys() == names.FAMILIES.keys()
    assert [names.family_of(name) for name in ("ps:servers=2", "topk:1/2", "tree:flat", "ring")] == [
        ("ps", "servers=2"),
        ("topk", "1/2"),
        None,
        None,
    ]


def test_a_package_cannot_replace_a_built_in_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("ring", "nowhere:ring"), ("ina", "nowhere:ina"), ("pairwise", "nowhere:pairwise"))
    assert names.algorithm_names() == names.ALGORITHMS
    assert algorithm("ring") is BUILT_IN["allreduce", "ring"]


HALF = algorithm("topk:1/2")


def test_a_package_may_do_an_allreduce_in_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("half", "tests.traces.test_allreduces:HALF"))
    plan = plan_of(Cell(parse_fabric("star:hosts=4"), "half", "linear", "ecmp"), EXPERIMENT)
    check_correct(plan.schedule)
    assert [op.kind for op in plan.schedule.ops] == ["topk"]
    assert plan.schedule.payload_nbytes == 4 * 3 * 8 * 500  # 500 pairs of each to each other
    assert collective_of(plan.schedule) == "allreduce"
    with pytest.raises(Refused, match="half sends pairs of a float32 and an index, not float16"):
        plan_of(
            Cell(parse_fabric("star:hosts=4"), "half", "linear", "ecmp"), replace(EXPERIMENT, wire="float16")
        )


def test_what_is_not_an_algorithm_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("mine", "gradwire.traces.schedules.algorithms.ring:ring"))
    assert names.algorithm_names()[-1] == "mine"
    with pytest.raises(
        ValueError, match=r"'mine': its package must offer an Algorithm, and .*ring is a func"
    ):
        algorithm("mine")


def test_a_name_that_nobody_offers_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch, ("mine", "nowhere:mine"))
    with pytest.raises(
        ValueError, match=r"no algorithm 'butterfly'; choose from as-captured, ring, .*, mine"
    ):
        algorithm("butterfly")


def test_an_algorithm_of_another_collective_is_refused_with_what_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch)
    with pytest.raises(
        NotServedError,
        match=r"recursive-doubling does allreduce, not alltoall; choose from pairwise, bruck, hierarchical$",
    ):
        algorithm("recursive-doubling", "alltoall")
