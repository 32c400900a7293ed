"""One sentence: the best cell, by how much, and what holds it up."""

from dataclasses import replace

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.closedform import Costs, closed_time, nominal_costs
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results.answer import Contender, answer, answer_of_rows
from gradwire.results.limits import COMPUTING, HOSTS_LINKS, MESSAGES, Limit, limit_of, show_limit
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.schedule import Gate, Op
from tests.made_plans import allreduce_plan

ROW = Row("star:hosts=4", "ring", "linear", "ecmp", ranks=4, bytes=4000, verdict="valid", limit=COMPUTING)


def row(algorithm: str, median_s: float, spread_s: float = 0.0, nbytes: int = 4000) -> Row:
    spread = Spread(median_s, median_s - spread_s / 2, median_s + spread_s / 2)
    return replace(ROW, algorithm=algorithm, time_s=spread, bytes=nbytes)


def test_the_best_beats_the_next_and_the_first() -> None:
    rows = [row("ring", 0.4), row("all-pairs", 0.3), row("multitree", 0.2)]
    assert answer_of_rows(rows) == (
        "Best: multitree, linear, ecmp on star:hosts=4: 200 ms, 1.50 × as fast as the next, all-pairs, "
        "linear, ecmp on star:hosts=4, and 2.00 × as fast as the first, ring, linear, ecmp on star:hosts=4; "
        "computing holds it up now."
    )


def test_the_first_is_named_once_if_it_is_the_next_or_the_best() -> None:
    assert answer_of_rows([row("ring", 0.4), row("multitree", 0.2)]).count("ring") == 1
    assert answer_of_rows([row("ring", 0.1), row("multitree", 0.2)]).count("ring") == 1


def test_what_repeats_differ_by_is_no_lead() -> None:
    said = answer_of_rows([row("ring", 1.04), row("multitree", 1.0, spread_s=0.05)])
    assert "no more than 5.0% faster than the next, ring" in said
    assert "1.04 × as fast" in answer_of_rows([row("ring", 1.04), row("multitree", 1.0)])


def test_cells_that_are_alike_are_counted_and_the_first_of_them_named() -> None:
    rows = [row("tree:flat", 2.0), row("ring", 1.0 + 1e-12), row("all-pairs", 1.0), row("multitree", 1.005)]
    said = answer_of_rows(rows)
    assert said.startswith("Best: ring, linear")
    assert "no more than 1.0% faster than 2 other cells, and 2.00 × as fast as the first, tree:flat" in said


def test_only_valid_rows_compete_and_of_several_sizes_the_largest() -> None:
    rows = [row("ring", 0.4), row("ring", 4.0, nbytes=40_000), row("all-pairs", 3.0, nbytes=40_000)]
    rows += [replace(row("bad", 0.1, nbytes=40_000), verdict="not valid"), replace(ROW, verdict=REFUSED)]
    said = answer_of_rows(rows)
    assert said.startswith("Best with 40 kB: all-pairs")
    assert "bad" not in said
    assert answer_of_rows(rows[4:]) == ""


def test_where_no_row_is_valid_the_answer_says_what_would_help_most() -> None:
    busy, short, quick, slow = (
        replace(row("ring", 0.1), verdict="not valid", **why)
        for why in ({"machine": ("CPU idle 5%",)}, {"machine_share": 0.3}, {"ratio": 0.9}, {"ratio": 2.0})
    )
    refused = replace(ROW, verdict=REFUSED)
    assert answer_of_rows([busy, short, refused, quick]) == (
        "None of the 3 rows is valid; what would help most is larger sizes (for 2 rows)."
    )
    assert answer_of_rows([busy]) == (
        "The row is not valid; what would help most is a lower rate, fewer hosts, or nothing else on this "
        "machine."
    )
    assert "the same again" in answer_of_rows([slow])
    assert "gradwire audit" in answer_of_rows([replace(busy, wrong=3)])
    assert "a capture that leaves no doubts" in answer_of_rows([replace(slow, capture=("unread",))])
    assert answer_of_rows([busy, row("ring", 0.2)]).startswith("ring")


def test_a_cell_alone_has_its_time_and_its_limit() -> None:
    said = answer([Contender("ring on a star", 4, 1.5, HOSTS_LINKS)])
    assert said == "ring on a star takes 1.5 s; the hosts' own links hold it up now."


def limit(plan: Plan, costs: Costs | None = None) -> Limit:
    known = costs or nominal_costs(plan)
    return limit_of(plan, plan_load(plan), known, closed_time(plan, known))


def test_where_no_flows_meet_the_hosts_own_links_hold_a_ring_up() -> None:
    assert limit(allreduce_plan("star:hosts=4")) == HOSTS_LINKS


def test_a_link_that_flows_share_holds_them_up() -> None:
    plan = allreduce_plan("leaf-spine:leaves=2,spines=1,hosts=2,uplink_rate=100M", "halving-doubling")
    assert limit(plan) == Limit("link", "leaf0→spine0", 2)
    assert show_limit(limit(plan)) == "link leaf0→spine0 (2 flows at once) holds it up"


def test_what_messages_cost_holds_up_what_has_few_bytes() -> None:
    plan = allreduce_plan("star:hosts=4", nbytes=4000)
    byte_s = nominal_costs(plan).beta_s_per_byte
    ring_bytes_s = 6 / 4 * 4000 * byte_s
    assert limit(plan, Costs(ring_bytes_s / 6 * 1.1, byte_s, "")) == MESSAGES
    assert limit(plan, Costs(ring_bytes_s / 6 * 0.9, byte_s, "")) == HOSTS_LINKS


@pytest.mark.parametrize(("delay_ns", "said"), [(0, HOSTS_LINKS), (10**7, MESSAGES)])
def test_delays_hold_up_what_has_no_closed_form_if_nothing_else_takes_as_long(
    delay_ns: int, said: Limit
) -> None:
    gloos_own = Experiment(made_allreduce(4, 4000), "test", send_delay_ns=delay_ns)
    assert (
        limit(plan_of(Cell(parse_fabric("star:hosts=4"), "as-captured", "linear", "ecmp"), gloos_own)) == said
    )


@pytest.mark.parametrize(("share", "said"), [(0.6, COMPUTING), (0.4, HOSTS_LINKS)])
def test_computing_holds_up_what_computes_most_of_the_time(share: float, said: Limit) -> None:
    plan = allreduce_plan("star:hosts=2")
    computing_s = plan.prediction.fluid_s * share / (1 - share)
    schedule = replace(
        plan.schedule,
        ops=(*plan.schedule.ops, Op("compute", 0)),
        gates=(Gate(1, 0, (0,), round(computing_s * 1e9)),),
    )
    longer = replace(plan.prediction, fluid_s=plan.prediction.fluid_s + computing_s)
    assert limit(replace(plan, schedule=schedule, prediction=longer)) == said
