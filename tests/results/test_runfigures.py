"""What a row says of tiers and of sums, against counts made by hand or packet by packet."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.controller.counters import Counters, load_counters
from gradwire.emu.aggregation.figures import RankFigures, SumError
from gradwire.planning.plan import Plan
from gradwire.results.audit.runfigures import aggregation_row, tier_nbytes
from tests.made_counters import write_counters
from tests.made_plans import allreduce_plan
from tests.made_runs import made_repeat
from tests.made_sums import sums_json

NBYTES = 4 * 1024
PLAN = allreduce_plan("fat-tree:k=4,levels=2", "ina", nbytes=NBYTES)
REPEATS = 2
PACKETS = 1 + REPEATS * (1 + 4)


def counters(folder: Path, plan: Plan = PLAN) -> Counters:
    write_counters(folder, sums_json(plan, REPEATS))
    return load_counters(folder / "switches.json")


@pytest.mark.parametrize(
    ("spec", "links"),
    [
        ("star:hosts=4", {"host→switch": 4, "switch→host": 4}),
        ("fat-tree:k=4,levels=2", {"host→leaf": 8, "leaf→host": 8, "leaf→spine": 4, "spine→leaf": 4}),
        ("bigraph:n=4,m=2", {"host→upper": 4, "host→lower": 4}),
    ],
)
def test_a_tier_carries_the_buffer_on_each_link_of_the_tree_and_the_headers(
    tmp_path: Path, spec: str, links: dict[str, int]
) -> None:
    plan = allreduce_plan(spec, "ina", nbytes=NBYTES)
    tiers = tier_nbytes(plan.fabric, counters(tmp_path, plan), REPEATS)
    on_a_link = (REPEATS * NBYTES + 66 * PACKETS) / REPEATS
    assert {name: tiers[name] for name in links} == {name: n * on_a_link for name, n in links.items()}


def test_a_tree_adds_once_for_each_link_that_leads_up(tmp_path: Path) -> None:
    """8 hosts and 4 leaves: 12 contributions for each sum."""
    plain = replace(made_repeat(8, 1.0), aggregated=(RankFigures(sent=5, received=5),) * 8)
    again = replace(plain, aggregated=(RankFigures(sent=6, retransmitted=2, statuses=1, moves=1),) * 8)
    row = aggregation_row(PLAN, [plain, again, again], counters(tmp_path))
    assert row is not None
    assert (row.trees, row.slots, row.elements) == (1, PLAN.trees[0].slots, 256)
    assert row.additions_per_result == 12
    assert (row.contributions, row.retransmitted, row.statuses, row.moves) == (48, 16, 8, 1)
    assert row.saturated == 0


def test_the_error_shown_is_of_the_sum_that_comes_nearest_to_its_bound(tmp_path: Path) -> None:
    large = SumError(op=0, largest=1.0, rms=0.5, bound=10.0)
    near = SumError(op=1, largest=0.9, rms=0.1, bound=1.0)
    repeat = replace(made_repeat(8, 1.0), aggregated=(RankFigures(errors=(large, near)),) * 8)
    row = aggregation_row(PLAN, [repeat], counters(tmp_path))
    assert row is not None
    assert (row.largest_error, row.rms_error, row.error_bound) == (0.9, 0.1, 1.0)


def test_what_switches_have_not_counted_is_not_known() -> None:
    row = aggregation_row(PLAN, [made_repeat(8, 1.0)], None)
    assert row is not None
    assert (row.additions_per_result, row.saturated) == (None, None)


def test_a_plan_without_trees_has_no_figures_of_sums(tmp_path: Path) -> None:
    plan = allreduce_plan("star:hosts=2", "ring")
    assert aggregation_row(plan, [made_repeat(2, 1.0)], counters(tmp_path, plan)) is None
