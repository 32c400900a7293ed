"""Every algorithm of every collective: what it achieves, what each rank sends, whom it does not serve."""

from functools import cache

import numpy as np
import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.hints import hints_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.closedform import closed_time, nominal_costs
from gradwire.planning.plan import Plan
from gradwire.planning.plancheck import check_schedule
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.algorithm import NotServedError, no_closed_form
from gradwire.traces.schedules.collectives import BUILT_IN
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import CONTRACTS, CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE, DEFAULTS, PACES, Pace
from gradwire.traces.schedules.schedule import Schedule, sent_nbytes
from tests.made_orders import step_by_step_s

ONE_ALLREDUCE = Experiment(made_allreduce(8, 16 << 20), "test")
ALPHA, BETA = 3e-5, 8e-8
Name = tuple[CollectiveKind, str]
OTHERS: list[Name] = [key for key in BUILT_IN if key[0] != "allreduce"]
POWERS = {2, 4, 8, 16}
COMPOSITE = {4, 6, 8, 9, 10, 12, 14, 15, 16}
SERVED = {  # 2 to 17 where nothing is said; leaves, rows and columns of at least 2
    "halving-doubling": POWERS,
    "halving-doubling:far": POWERS,
    "hierarchical": COMPOSITE,
    "hierarchical:grid": COMPOSITE,
}


@cache
def hints(p: int) -> Hints:
    """Of as few hosts under a switch as there can be; of one switch where p is prime."""
    size = next((m for m in range(2, p) if p % m == 0), None)
    spec = f"leaf-spine:leaves={p // size},spines=1,hosts={size}" if size else f"star:hosts={p}"
    fabric = parse_fabric(spec)
    return hints_of(fabric, fabric.hosts)


def made(key: Name, p: int, nbytes: int) -> Schedule:
    return expand(made_collective(key[0], p, nbytes), key[1], hints=hints(p))


def test_every_collective_has_the_algorithms_that_help_pages_list_and_one_of_them_by_default() -> None:
    for kind, names in BY_COLLECTIVE.items():
        assert DEFAULTS[kind] in names
        if kind != "allreduce":
            assert [name for has, name in BUILT_IN if has == kind] == list(names)


@pytest.mark.broad(8)
@pytest.mark.parametrize("key", OTHERS, ids=" ".join)
def test_an_algorithm_keeps_its_contract_for_every_number_of_ranks_and_refuses_others_in_words(
    key: Name,
) -> None:
    nbytes = 1004 if CONTRACTS[key[0]].adds else 1003  # in elements or bytes, no multiple of a p above 2
    for p in range(2, 18):
        if p in SERVED.get(key[1], range(2, 18)):
            check(made(key, p, nbytes))
        else:
            with pytest.raises(NotServedError, match=r"choose (ring|pairwise)"):
                made(key, p, nbytes)


@pytest.mark.parametrize("key", OTHERS, ids=" ".join)
def test_an_algorithm_keeps_its_contract_where_most_chunks_are_empty(key: Name) -> None:
    for nbytes in (4, 12) if CONTRACTS[key[0]].adds else (1, 4, 13):
        check(made(key, 8, nbytes))


def check(schedule: Schedule) -> None:
    check_schedule(schedule)
    check_correct(schedule)
    assert schedule.sends.nbytes.min(initial=1) > 0


@pytest.mark.parametrize("key", [key for key in BUILT_IN if CONTRACTS[key[0]].adds], ids=" ".join)
def test_half_an_element_is_refused_where_data_are_added(key: Name) -> None:
    with pytest.raises(ValueError, match="1002 is not a multiple of 4"):
        BUILT_IN[key].sends(8, 1002, hints(8))


@pytest.mark.parametrize(
    "key", [key for key in OTHERS if key[0] in ("reducescatter", "allgather")], ids=" ".join
)
@pytest.mark.parametrize("p", [4, 8, 16])
def test_a_half_sends_all_but_its_own_chunk_or_is_sent_it(key: Name, p: int) -> None:
    """(p-1)/p S out of each rank, and into it; a tree's ranks of MultiTree send what each passes on."""
    schedule = made(key, p, 240 * p)
    into = [int(schedule.sends.nbytes[schedule.sends.dst == rank].sum()) for rank in range(p)]
    expected = [(p - 1) * 240] * p
    assert sum(into) == sum(expected)
    if key[0] == "reducescatter":
        assert sent_nbytes(schedule) == expected
    else:
        assert into == expected


@pytest.mark.parametrize("key", [key for key in OTHERS if key[0] in ("broadcast", "reduce")], ids=" ".join)
@pytest.mark.parametrize("p", [2, 6, 13])
def test_a_tree_passes_the_buffer_once_into_or_out_of_every_rank_but_the_root(key: Name, p: int) -> None:
    sends = made(key, p, 1000).sends
    there = sends.dst if key[0] == "broadcast" else sends.src
    assert sorted(there.tolist()) == list(range(1, p))
    assert set(sends.nbytes.tolist()) == {1000}


EXACT = [  # all its sends of a step at once, or one a rank
    key
    for key in OTHERS
    if key[1].partition(":")[0] not in ("multitree", "tree")
    or key[1] == "tree:chain"
    or key == ("reduce", "tree:flat")
]


@pytest.mark.broad(6)
@pytest.mark.parametrize("key", EXACT, ids=" ".join)
def test_an_algorithm_takes_the_time_of_its_closed_form(key: Name) -> None:
    for p in SERVED.get(key[1], range(2, 18)):
        nbytes = 240 * p
        time_s = step_by_step_s(made(key, p, nbytes).sends, ALPHA, BETA)
        assert BUILT_IN[key].time_s(p, nbytes, ALPHA, BETA, hints(p)) == pytest.approx(time_s), p


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_a_binomial_tree_of_a_power_of_two_takes_the_time_of_its_closed_form(
    kind: CollectiveKind, p: int
) -> None:
    key: Name = (kind, "tree:binomial")
    time_s = step_by_step_s(made(key, p, 4000).sends, ALPHA, BETA)
    assert BUILT_IN[key].time_s(p, 4000, ALPHA, BETA, hints(p)) == pytest.approx(time_s)


EXACT_BY_FLUID = [  # a double binary tree's is a bound
    key
    for key in BUILT_IN
    if BUILT_IN[key].time_s is not no_closed_form and key[1] not in ("double-binary-tree", "2d-ring")
]


@pytest.mark.parametrize("key", EXACT_BY_FLUID, ids=" ".join)
def test_where_no_flows_share_a_link_the_fluid_time_is_the_closed_form(key: Name) -> None:
    """Of large buffers; step by step, so that nobody sends two at once."""
    kind, name = key
    spec, routes = "star:hosts=8", "ecmp"
    if name == "hierarchical":
        spec, routes = "leaf-spine:leaves=4,spines=2,hosts=2", "planned"
    elif name == "hierarchical:grid" or name.startswith("multitree"):
        spec = "mesh:x=2,y=4"
    cell = Cell(parse_fabric(spec), name, "linear", routes)
    plan = plan_of(cell, Experiment(made_collective(kind, 8, 16 << 20), "test"))
    closed = closed_time(plan, nominal_costs(plan))
    assert plan.prediction.fluid_s == pytest.approx(closed.time_s, rel=1e-3)


def paced_plan(kind: CollectiveKind, name: str, p: int, pace: Pace, delay_ns: int = 0) -> Plan:
    job = Experiment(made_collective(kind, p, 16 * 2520), "test", pace=pace, send_delay_ns=delay_ns)
    return plan_of(Cell(parse_fabric(f"star:hosts={p + 2}"), name, "linear", "ecmp"), job)


AT_ANY_PACE: list[Name] = [
    *(key for key, known in BUILT_IN.items() if known.any_pace),
    ("allreduce", "topk:0.1"),
]


@pytest.mark.broad(6)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(("kind", "name"), AT_ANY_PACE)
def test_a_closed_form_of_any_pace_is_the_time_at_each(kind: CollectiveKind, name: str, pace: Pace) -> None:
    for p, delay_ns in ((4, 0), (6, 2_000_000), (8, 2_000_000)):
        plan = paced_plan(kind, name, p, pace, delay_ns)
        closed = closed_time(plan, nominal_costs(plan))
        assert plan.prediction.fluid_s == pytest.approx(closed.time_s, rel=1e-3), (p, delay_ns)


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("ps:central", "early", "step"),
        ("ps:servers=2", "early", "step"),
        ("multitree", "early", "step"),
        ("double-binary-tree", "step", "early"),
        ("tree:binomial", "step", "early"),
        ("halving-doubling", "step", "early"),
    ],
)
def test_a_closed_form_of_one_pace_is_not_shown_at_another(name: str, own: Pace, other: Pace) -> None:
    """At the other one pushes and pulls do not overlap, or those of one step share links."""
    known, unknown = (paced_plan("allreduce", name, 6, pace, 2_000_000) for pace in (own, other))
    assert closed_time(known, nominal_costs(known)).time_s is not None
    closed = closed_time(unknown, nominal_costs(unknown))
    assert (closed.text, closed.time_s) == (None, None)
    assert closed.missing == f"there is no formula for allreduce by {name} at the pace {other}"


def test_a_2d_ring_has_no_closed_form() -> None:
    plan = plan_of(Cell(parse_fabric("star:hosts=8"), "2d-ring", "linear", "ecmp"), ONE_ALLREDUCE)
    assert closed_time(plan, nominal_costs(plan)).time_s is None


@pytest.mark.parametrize("kind", ["reducescatter", "allgather"])
def test_two_halves_take_as_long_as_the_allreduce(kind: CollectiveKind) -> None:
    for name in BY_COLLECTIVE[kind]:
        half_s = BUILT_IN[kind, name].time_s(8, 8000, ALPHA, BETA, hints(8))
        both_s = BUILT_IN["allreduce", name].time_s(8, 8000, ALPHA, BETA, hints(8))
        assert half_s is not None
        assert both_s == pytest.approx(2 * half_s), name


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
@pytest.mark.parametrize("name", BY_COLLECTIVE["broadcast"])
def test_another_root_than_rank_0_is_served(kind: CollectiveKind, name: str) -> None:
    workload = made_collective(kind, 7, 1000)
    items = tuple(item.model_copy(update={"root": 5}) for item in workload.items)
    schedule = expand(workload.model_copy(update={"items": items}), name)
    check_correct(schedule)
    at_root = schedule.sends.src if kind == "broadcast" else schedule.sends.dst
    assert 5 in at_root


@pytest.mark.parametrize("kind", [kind for kind in BY_COLLECTIVE if kind != "allreduce"])
def test_beside_allreduces_another_collective_stays_as_it_is_whatever_algorithm_and_pace(
    kind: CollectiveKind,
) -> None:
    """An algorithm is for one kind; the others are done as captured, or by their default."""
    one, other = (made_collective(each, 8, 4096).items[0] for each in (kind, "allreduce"))
    both = made_allreduce(8, 4096).model_copy(update={"items": (one, other.model_copy(update={"tag": 1}))})
    first = [
        expand(both, *how).sends.chosen(np.arange(7)) for how in (("as-captured",), ("halving-doubling",))
    ]
    stepped = expand(both, "halving-doubling", pace="early").sends.chosen(np.arange(7))
    assert first[0] == first[1] == stepped
    assert {op.algorithm for op in expand(both, "halving-doubling").ops} == {
        "halving-doubling",
        DEFAULTS[kind],
    }
