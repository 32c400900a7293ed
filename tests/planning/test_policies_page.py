"""The page on policies: its example works, and its table lists all of them."""

import re
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from gradwire.planning.plancheck import check_path
from gradwire.planning.routing import policies
from gradwire.planning.routing.policies import BUILT_IN, policy_names
from tests.made_plans import allreduce_plan

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_table_names_every_policy() -> None:
    table = PAGE.split("\n## Placements\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(BUILT_IN)


def test_the_example_is_a_policy_that_a_package_can_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drawnpaths.py").write_text(block("python"))
    monkeypatch.delitem(sys.modules, "drawnpaths", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    offered = tomllib.loads(block("toml"))["project"]["entry-points"][policies.GROUP]
    entries = EntryPoints([EntryPoint(name, value, policies.GROUP) for name, value in offered.items()])
    monkeypatch.setattr(policies, "entry_points", entries.select)
    assert "drawn" in policy_names()
    plans = [allreduce_plan("fat-tree:k=4", "halving-doubling", routes="drawn", seed=seed) for seed in (1, 2)]
    for plan in plans:
        for flow in plan.flows:
            check_path(plan.fabric, plan.placement[flow.src], plan.placement[flow.dst], flow.path)
    assert {flow.path for flow in plans[0].flows} != {flow.path for flow in plans[1].flows}
    del sys.modules["drawnpaths"]


def test_the_example_has_at_most_20_lines() -> None:
    assert len(block("python").splitlines()) <= 20
