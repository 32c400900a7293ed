"""For all tests: what runs without root, and the same generated examples everywhere."""

import os
from typing import Any

import hypothesis
import pytest

# A failure must come back on the next machine, and a shared machine's slowness is not a failure.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=20
)
# Others every time, and many: --hypothesis-profile=thorough
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("repeatable")

left_out = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    real = [item for item in items if item.get_closest_marker("real")]
    config.stash[left_out] = len(real)
    config.hook.pytest_deselected(items=real)
    items[:] = [item for item in items if item not in real]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With several processes each knows how many it has left out, and only the first one has a terminal."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(left_out, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[left_out] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(left_out, 0):
        terminalreporter.write_line(
            f"{count} tests on a real network were left out: they need root (sudo ./gradwire test)",
            yellow=True,
        )
