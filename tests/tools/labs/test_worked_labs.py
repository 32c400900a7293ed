"""The labs in labs/: files that can be run, answers that hold, commands that are there."""

import re
import shlex
from pathlib import Path

import pytest
from typer.exceptions import TyperException
from typer.testing import CliRunner

from gradwire.tools import cli
from tests.commandlines import options_of

ROOT = Path(__file__).parents[3]
LABS = ROOT / "labs"
FILES = sorted(
    set(LABS.glob("*/*.yaml")) - {LABS / "07-policy" / "lab.yaml"}
)  # needs its package: test_packages
PAGES = sorted(LABS.glob("*/README.md"))
NAMES = {str(lab.relative_to(ROOT)) for lab in LABS.glob("*/*.yaml")}


def commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def invoked(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.application(words[0]), list(words))
    return done.exit_code, done.output


def mode(lab: Path) -> str:
    (found,) = re.findall(r"^mode: (\w+)$", lab.read_text(), re.MULTILINE) or ["packets"]
    return str(found)


def test_every_lab_that_sends_packets_can_be_planned_and_its_expectations_computed() -> None:
    code, said = invoked("run", "--check", *(str(lab) for lab in FILES if mode(lab) != "plan"))
    assert code == 0, said


@pytest.mark.long
def test_what_the_pages_work_out_by_hand_is_what_is_planned(tmp_path: Path) -> None:
    """The figures in these files are the closed forms of the pages' answers."""
    planned = [str(lab) for lab in FILES if mode(lab) == "plan"]
    assert planned
    code, said = invoked("run", *planned, "--out", str(tmp_path / "out"))
    assert code == 0, said
    assert "fails" not in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_commands_on_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without root are carried out, one after the other; of others the options are read."""
    monkeypatch.chdir(ROOT)
    lines = [line for line in commands(page) if "./gradwire " in line]
    assert lines
    for line in lines:
        options_of(line)
        _, *words = shlex.split(line.removeprefix("sudo ").replace(" runs/", f" {tmp_path}/"))
        if words[0] == "run":
            assert set(words[1:]) & NAMES, line
        elif not line.startswith("sudo "):
            code, said = invoked(*words)
            assert code == 0, f"{line}: {said}"


def test_a_command_with_an_option_that_there_is_not_is_found() -> None:
    with pytest.raises(TyperException):
        options_of("./gradwire up star:hosts=2 --rotues ecmp")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_question_of_a_page_has_an_answer(page: Path) -> None:
    asked, answers = page.read_text().split("\n## Answers\n")
    numbers = re.findall(r"\*\*Question (\d+)\.\*\*", asked)
    assert numbers == [str(n + 1) for n in range(len(numbers))]
    assert re.findall(r"^(\d+)\. ", answers, re.MULTILINE) == numbers


def test_the_way_through_has_every_lab_in_order() -> None:
    linked = re.findall(r"\]\((\d\d-[\w-]+)/README\.md\)", (LABS / "README.md").read_text())
    assert linked == [page.parent.name for page in PAGES]
