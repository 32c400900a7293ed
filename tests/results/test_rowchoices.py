"""How a job is sent, as rows say it: of cells that were run, of refused ones, and in the names of cells."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.planning import plan as plans
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.sentas import sent_as
from gradwire.results.laboratory import planned
from gradwire.results.matrixfile import cell_of
from gradwire.results.row import Row
from gradwire.results.rowchoices import Choices, choices_of, planned_choices, show_choices
from gradwire.traces.making.collectives import made_allreduce
from tests.made_runs import made_run

STAR = parse_fabric("star:hosts=4")
PLAIN = Experiment(made_allreduce(4, 4000), "test")
CHOSEN = sent_as(
    replace(PLAIN, seed=3),
    wire="bfloat16",
    keys=None,
    pace="step",
    send_delay="50ms",
    order="newest-first",
)
SAID = Choices(seed=3, dtype="bfloat16", send_delay_s=0.05, order="newest-first", pace="step")


def test_all_choices_of_a_job_are_those_of_its_plan_and_of_its_rows(tmp_path: Path) -> None:
    """A fabric with too few hosts is refused."""
    good, bad = (Cell(fabric, "ring", "linear", "ecmp") for fabric in (STAR, parse_fabric("star:hosts=2")))
    plan, refused = planned([(good, CHOSEN), (bad, CHOSEN)])
    assert isinstance(plan, plans.Plan) and isinstance(refused, Row)
    assert choices_of(CHOSEN) == planned_choices(plan) == SAID
    assert refused.choices == made_run(tmp_path / "run", plan).choices == SAID
    defaults = choices_of(PLAIN)
    assert defaults == planned_choices(plan_of(good, PLAIN))
    assert not {name for name, value in defaults.items() if value == dict(SAID)[name]}


def test_a_plan_file_keeps_its_pace_and_an_old_one_has_none(tmp_path: Path) -> None:
    plan = plan_of(Cell(STAR, "ring", "linear", "ecmp"), replace(PLAIN, pace="step"))
    path = tmp_path / "plan.json"
    plans.save(plan, path)
    assert plans.load(path).pace == "step"
    path.write_text(path.read_text().replace('"pace": "step", ', ""))
    assert plans.load(path).pace is None
    path.write_text(path.read_text().replace('"keys": []', '"keys": [], "pace": "late"'))
    with pytest.raises(plans.BadPlan, match="pace"):
        plans.load(path)


def test_a_cell_is_named_by_the_choices_that_are_not_the_default(tmp_path: Path) -> None:
    cell = Cell(STAR, "ring", "linear", "ecmp")
    rows = [made_run(tmp_path / name, plan_of(cell, job)) for name, job in (("a", PLAIN), ("b", CHOSEN))]
    plain, chosen = (cell_of(row).cell for row in rows)
    assert plain == "star:hosts=4, ring, linear, ecmp, 4 ranks, 4000 bytes"
    words = "sent as bfloat16, each send 50ms late, newest-first, pace step"
    assert chosen == f"star:hosts=4, ring, linear, ecmp, 4 ranks, 2000 bytes, {words}"
    assert ", ".join(show_choices(SAID)) == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"send_delay": "10.1s"}, "a send's delay can be at most 10s, got 10100ms"),
        ({"pace": "late"}, "there is no pace 'late'; choose from early, step"),
        ({"order": "lifo"}, "there is no order 'lifo'"),
    ],
)
def test_a_choice_that_there_cannot_be_is_refused(words: dict[str, str], said: str) -> None:
    given = {"wire": "float32", "keys": None, "pace": None, "send_delay": "0", "order": "fifo"}
    with pytest.raises(ValueError, match=said):
        sent_as(PLAIN, **(given | words))  # type: ignore[arg-type]
