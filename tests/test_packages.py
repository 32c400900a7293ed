"""The example packages of the pages, all of them installed beside each other as pip does it."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Flow
from gradwire.traces.plugins import NOUNS

pytestmark = pytest.mark.long

DOCS = PROJECT / "docs"
LAB = PROJECT / "labs" / "07-policy"
PAGES = ("collectives", "fabrics", "framings", "placements", "policies")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)


def project(page: str) -> dict[str, object]:
    (text,) = blocks(page, "toml")
    return tomllib.loads(text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the path of modules, into which pip has installed the packages of pages and of a lab."""
    folder, target = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("installed")
    places = [str(copytree(LAB / "answer", folder / "lab"))]
    for page in PAGES:
        place = folder / page
        place.mkdir()
        (place / "pyproject.toml").write_text(blocks(page, "toml")[0])
        (name,) = project(page)["tool"]["setuptools"]["py-modules"]  # type: ignore[index]
        (place / f"{name}.py").write_text(blocks(page, "python")[0])
        places.append(str(place))
    pip = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(target), *places], check=True)
    return target


def gradwire(installed: Path, *arguments: str) -> str:
    path = os.pathsep.join((str(installed), str(PROJECT)))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gradwire.tools", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kind_of_extension_has_a_page_with_a_package_of_its_own_name() -> None:
    groups = [*(next(iter(project(page)["project"]["entry-points"])) for page in PAGES)]  # type: ignore[index]
    assert sorted(groups) == sorted(NOUNS)
    assert len({project(page)["project"]["name"] for page in PAGES}) == len(PAGES)  # type: ignore[index]


def test_all_packages_of_the_pages_work_beside_each_other(installed: Path) -> None:
    """One plan with the fabric, the placement, the algorithm and the routes of four of them."""
    shown = gradwire(installed, "plan", "--help")
    assert all(name in shown for name in ("ring:…", "far-apart", "two-rings", "drawn"))
    job = installed / "job.workload.json"
    gradwire(installed, "make", "collective", "--workers", "6", "--nbytes", "6KiB", "--out", str(job))
    words = ["--placement", "far-apart", "--algorithm", "two-rings", "--routes", "drawn"]
    plan = gradwire(installed, "plan", str(job), "--fabric", "ring:switches=4", *words)
    assert "far-apart" in plan
    assert "two-rings" in plan
    offered = {entry.group for each in distributions(path=[str(installed)]) for entry in each.entry_points}
    assert offered == set(NOUNS)


def test_the_policy_that_a_lab_has_for_an_answer_does_what_its_page_says(
    installed: Path, tmp_path: Path
) -> None:
    """No collision where ranks are in the order of hosts; else some, all of them on the way down."""
    gradwire(installed, "run", str(LAB / "lab.yaml"), "--out", str(tmp_path / "out"))


def test_the_skeleton_of_a_labs_policy_sends_all_through_the_first_spine() -> None:
    """Two flows on an uplink in two of three exchanges: (1/2 + 2/4 + 2/8) / (7/8) = 10/7 of the bound."""
    text = (LAB / "README.md").read_text()
    (skeleton,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(skeleton, names)
    fabric = parse_fabric("fat-tree:k=4,levels=2")
    flows = [Flow(src, dst, "", "", 0, 0) for src in range(8) for dst in (src ^ 2, src ^ 4)]
    paths = names["mine"](fabric, fabric.hosts, flows, None, 0)
    spines = {fabric.peers[path[1]].node for path in paths}
    assert spines == {"spine0"}
