"""The end of a run whose agents do not hear of it: no root, no network."""

import os
import time
from typing import Any

import pytest

from emu.replay import fleet
from emu.watch import Watch
from tests.made_tree_plans import star_tree, summed, tree_plan


def test_agents_that_do_not_end_by_themselves_are_waited_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those that wait for a switch's answer do, and stopped ones: three cost no more time than one."""

    def deaf(*arguments: Any) -> None:
        del arguments
        time.sleep(60)

    monkeypatch.setattr(fleet, "_agent_main", deaf)
    monkeypatch.setattr(fleet, "_END_S", 0.4)
    plan = tree_plan("star:hosts=3", summed(star_tree((0, 1, 2)), 3, [400]), [star_tree((0, 1, 2))])
    with fleet.started(plan, dict.fromkeys(plan.placement, os.getpid()), Watch()) as agents:
        pids, began = agents.pids, time.monotonic()
    assert time.monotonic() - began < 2 * 0.4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
