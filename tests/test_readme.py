"""What the documents promise is there: commands, fabrics, files."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from gradwire.planning.fabrics.spec import FAMILIES, parse_fabric
from gradwire.planning.placement import PLACEMENTS
from gradwire.planning.routing.policies import BUILT_IN
from gradwire.tools import cli
from gradwire.traces.schedules.names import CHOICES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "tests/vm/README.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))),
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "labs").glob("**/README.md"))),
]


def test_the_readme_lists_every_command_and_no_other() -> None:
    listed = set(re.findall(r"^\| `(\w+)", README, re.MULTILINE))
    assert listed == {command.name for command in cli.TABLE}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_command_that_is_named_exists(document: str) -> None:
    named = set(re.findall(r"\./gradwire ([a-z]+)", (ROOT / document).read_text()))
    assert named <= {command.name for command in cli.TABLE}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_file_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    folder = (ROOT / document).parent
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (folder / target).exists(), target
    for path in re.findall(r"\b(?:traces|emu|controller|tools|tests|docs|benchmarks)/[\w/.-]+\w", text):
        assert "NAME" in path or (ROOT / path).exists(), path


def test_a_fabric_that_the_readme_writes_can_be_built() -> None:
    specs = [
        spec for spec in re.findall(r"`([a-z-]+:[a-z]+=[^`]+)`", README) if spec.split(":")[0] in FAMILIES
    ]
    assert {spec.split(":")[0] for spec in specs} == set(FAMILIES)
    for spec in specs:
        assert parse_fabric(spec).hosts


@pytest.mark.parametrize(
    ("option", "names"), [("algorithm", CHOICES), ("placement", PLACEMENTS), ("routes", BUILT_IN)]
)
def test_the_readme_names_every_choice_in_the_row_of_its_option(option: str, names: Iterable[str]) -> None:
    (row,) = re.findall(rf"^\| `--{option}` \|([^|]*)\|", README, re.MULTILINE)
    assert re.findall(r"`([^`]+)`", row) == list(names)


def test_every_option_in_the_readmes_tables_of_choices_is_one_of_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["plan", "--help"])
    known = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    chosen = README.split("### Choices\n")[1].split("\n### ")[0]
    cells = re.findall(r"^\|([^|]*--[^|]*)\|", chosen, re.MULTILINE)
    assert {option for cell in cells for option in re.findall(r"`(--[\w-]+)`", cell)} <= known


def test_the_page_on_policies_says_what_every_placement_is() -> None:
    page = (ROOT / "docs" / "policies.md").read_text().split("\n## Placements\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(PLACEMENTS)


def test_the_readmes_inspect_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (capture,) = re.findall(r"^\./gradwire inspect (\S+)", README, re.MULTILINE)
    with pytest.raises(SystemExit) as left:
        cli.main(["inspect", str(ROOT / capture)])
    assert left.value.code == 0
    assert "8 ranks" in capsys.readouterr().out
