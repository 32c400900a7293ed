"""The page on collective algorithms: its example is one, and its table names those that there are."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from gradwire.traces.schedules import names
from gradwire.traces.schedules.algorithm import Algorithm, no_closed_form
from gradwire.traces.schedules.collectives import BUILT_IN, algorithm
from gradwire.traces.schedules.hints import NO_HINTS
from tests.made_orders import step_by_step_s
from tests.made_plans import allreduce_plan

PAGE = (Path(__file__).parents[2] / "docs" / "collectives.md").read_text()
ALPHA, BETA = 3e-5, 8e-8
ALLREDUCES = [name for collective, name in BUILT_IN if collective == "allreduce"]


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def two_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Algorithm]:
    """The example's algorithm, its package as pip would make it known."""
    (tmp_path / "mine.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    offered = tomllib.loads(block("toml"))["project"]["entry-points"][names.GROUP]
    entries = EntryPoints([EntryPoint(name, value, names.GROUP) for name, value in offered.items()])
    monkeypatch.setattr(names, "entry_points", entries.select)
    yield algorithm("two-rings")
    sys.modules.pop("mine", None)  # the pages on policies and framings have modules of this name too


def listed(pattern: str = r"^\| `([\w:-]+)` \|") -> list[Any]:
    """What the page's first table has."""
    return re.findall(pattern, PAGE.split("\n## ")[1], re.MULTILINE)


def test_the_table_names_every_algorithm() -> None:
    assert listed() == [*ALLREDUCES, *names.FAMILIES.values()]


def test_the_table_has_a_time_for_every_algorithm_with_a_closed_form() -> None:
    cells = listed(r"^\| `([\w:-]+)` \|[^|]*\|([^|]*)\|")
    without = [name for name, time in cells if not time.strip()]
    assert without == [name for (_, name), each in BUILT_IN.items() if each.time_s is no_closed_form]


def test_an_algorithm_has_its_formula_in_words_if_it_has_one() -> None:
    for known in BUILT_IN.values():
        assert bool(known.closed_form) == (known.time_s is not no_closed_form)
        assert not known.closed_form or known.closed_form.endswith(")")


@pytest.mark.parametrize("n_ranks", range(2, 10))
@pytest.mark.parametrize("nbytes", [4, 1004, 28 * 720])
def test_the_example_is_an_algorithm_that_a_package_can_add(
    two_rings: Algorithm, n_ranks: int, nbytes: int
) -> None:
    """A plan is checked when it is made, so its schedule is right."""
    assert two_rings.name in names.algorithm_names()
    plan = allreduce_plan("star:hosts=9", "two-rings", nbytes=nbytes, n_ranks=n_ranks)
    ways = {(send.dst - send.src) % n_ranks for send in plan.schedule.sends}
    assert ways == ({1, n_ranks - 1} if nbytes > 4 else {n_ranks - 1})  # an element has no halves


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 7])
def test_the_example_takes_the_time_of_its_closed_form(two_rings: Algorithm, n_ranks: int) -> None:
    nbytes = 8 * n_ranks * 30
    time_s = step_by_step_s(two_rings.sends(n_ranks, nbytes, NO_HINTS), ALPHA, BETA)
    assert two_rings.time_s(n_ranks, nbytes, ALPHA, BETA, NO_HINTS) == pytest.approx(time_s)


def test_the_example_has_at_most_20_lines() -> None:
    assert len(block("python").splitlines()) <= 20
