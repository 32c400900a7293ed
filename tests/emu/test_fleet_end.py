"""The end of a run whose agents do not hear of it: no root, no network."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.replay import processes
from gradwire.emu.watch import RunFailed, Watch
from tests.made_tree_plans import star_tree, summed, tree_plan


@pytest.mark.long
def test_agents_that_do_not_end_by_themselves_are_waited_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those that wait for a switch's answer do, and stopped ones: three cost no more time than one."""
    with deaf_agents(monkeypatch, end_s=1) as pids:
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert not any(map(is_there, pids))


def test_agents_of_a_run_that_failed_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    with pytest.raises(RunFailed, match="because"), deaf_agents(monkeypatch, end_s=30) as pids:
        raise RunFailed("because")
    assert time.monotonic() - began < 10
    assert not any(map(is_there, pids))


@contextmanager
def deaf_agents(monkeypatch: pytest.MonkeyPatch, end_s: float) -> Iterator[list[int]]:
    """The process ids of three agents that hear nothing; `end_s` is how long their end is waited for."""

    def deaf(*arguments: Any) -> None:
        del arguments
        time.sleep(60)

    monkeypatch.setattr(processes, "_agent_main", deaf)
    monkeypatch.setattr(processes, "_END_S", end_s)
    plan = tree_plan("star:hosts=3", summed(star_tree((0, 1, 2)), 3, [400]), [star_tree((0, 1, 2))])
    with processes.started(plan, dict.fromkeys(plan.placement, os.getpid()), Watch()) as agents:
        yield list(agents.pids.values())


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
