"""How well a replay's messages match its capture's."""

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.replayedmessages import likeness
from gradwire.traces.fidelity import SentMessage
from tests.made_servers import NBYTES, first_come_job, with_set_up

CELL = Cell(parse_fabric("star:hosts=3"), "as-captured", "linear", "ecmp")


def test_what_a_replay_sends_of_the_set_up_makes_it_no_less_like_its_capture() -> None:
    workload, _ = first_come_job([[5, 5], [7, 7]], 2)
    plan = plan_of(CELL, Experiment(with_set_up(workload), "made"))
    captured = [SentMessage(0, 1, 0, NBYTES, 10, 20), SentMessage(0, 2, 0, NBYTES, 15, 25)]
    set_up = SentMessage(-1, 1, 0, NBYTES, 1, 5)
    assert {op.iteration for op in plan.schedule.ops} == {-1, 0}
    assert likeness(plan, captured, [[set_up, *captured]]) == 1.0
    assert likeness(plan, captured, [[set_up, captured[0]]]) == pytest.approx(2 / 3)  # one of two is missing
    assert likeness(plan, [set_up], [[set_up]]) is None
