"""For all tests: what runs without root or a browser, and the same generated examples everywhere."""

import gc
import os
from collections import Counter
from typing import Any

import hypothesis
import pytest

from tests.browser import CHROMIUM

# A failure must come back on the next machine, and a shared machine's slowness is not a failure.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=20
)
# Others every time, and many: --hypothesis-profile=thorough
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("repeatable")

# Of 9,000 tests and their modules nearly all lives to the end, as in a command (tools/__main__.py): to walk
# it after every 700 new objects took 8 % of all.
COLLECT_AFTER = 100_000
gc.set_threshold(COLLECT_AFTER)

NEEDS = {  # by marker
    "real": "tests on a real network were left out: they need root (sudo ./gradwire test)",
    "browser": "tests in a browser were left out: they need Debian's chromium",
}
left_out = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(tryfirst=True)  # -m looks at marks afterwards
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_most_of_broad_ones_long(items)
    missing = {"real": os.geteuid() != 0, "browser": CHROMIUM is None}
    counts = config.stash.setdefault(left_out, {})
    for marker in [marker for marker, is_so in missing.items() if is_so]:
        some = [item for item in items if item.get_closest_marker(marker)]
        counts[marker] = len(some)
        config.hook.pytest_deselected(items=some)
        items[:] = [item for item in items if item not in some]


def mark_most_of_broad_ones_long(items: list[pytest.Item]) -> None:
    """Of a test marked `broad(n)` all cases but the first, the n-th after it and so on are `long` as well."""
    numbers: Counter[str] = Counter()
    for item in items:
        if broad := item.get_closest_marker("broad"):
            function = item.nodeid.partition("[")[0]
            (every,) = broad.args
            if numbers[function] % every:
                item.add_marker("long")
            numbers[function] += 1


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With several processes each knows how many it has left out, and only the first one has a terminal."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(left_out, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[left_out] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for marker, count in config.stash.get(left_out, {}).items():
        if count:
            terminalreporter.write_line(f"{count} {NEEDS[marker]}", yellow=True)
