"""The page on collective algorithms: its example works, and its table lists all of them."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from gradwire.traces.schedules import names
from gradwire.traces.schedules.algorithm import Algorithm, no_closed_form
from gradwire.traces.schedules.collectives import BUILT_IN, algorithm
from gradwire.traces.schedules.hints import NO_HINTS
from gradwire.traces.schedules.kinds import CollectiveKind
from tests.made_orders import step_by_step_s
from tests.made_plans import allreduce_plan

PAGE = (Path(__file__).parents[2] / "docs" / "collectives.md").read_text()
ALPHA, BETA = 3e-5, 8e-8


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def two_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Algorithm]:
    """The example's algorithm, its package as pip would make it known."""
    (tmp_path / "tworings.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    offered = tomllib.loads(block("toml"))["project"]["entry-points"][names.GROUP]
    entries = EntryPoints([EntryPoint(name, value, names.GROUP) for name, value in offered.items()])
    monkeypatch.setattr(names, "entry_points", entries.select)
    yield algorithm("two-rings")
    sys.modules.pop("tworings", None)


TABLES: list[tuple[CollectiveKind, ...]] = [  # of the page, in its order
    ("allreduce",),
    ("reducescatter", "allgather"),
    ("broadcast", "reduce"),
    ("alltoall",),
]


def tables() -> list[list[tuple[str, str]]]:
    """(name, T) of each row of each table of algorithms."""
    bodies = re.findall(r"^\| algorithm \|.*\n\|[-|]*\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    return [re.findall(r"^\| `([\w:-]+)` \|[^|]*\|([^|]*)\|", body, re.MULTILINE) for body in bodies]


@pytest.mark.parametrize("kinds", TABLES)
def test_a_table_names_every_algorithm_and_has_a_time_for_those_with_a_closed_form(
    kinds: tuple[CollectiveKind, ...],
) -> None:
    table = tables()[TABLES.index(kinds)]
    families = [*names.FAMILIES.values()] if kinds == ("allreduce",) else []
    for kind in kinds:
        found = [name for has, name in BUILT_IN if has == kind]
        assert [name for name, _ in table] == [*found, *families]
        without = [name for name in found if BUILT_IN[kind, name].time_s is no_closed_form]
        assert [name for name, time in table if not time.strip()] == without


def test_there_is_a_table_for_every_collective() -> None:
    assert len(tables()) == len(TABLES)
    assert {kind for kinds in TABLES for kind in kinds} == set(names.BY_COLLECTIVE)


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
