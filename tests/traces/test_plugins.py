"""Errors that came through another package's code: which package they name, and in what words."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.experiment import Experiment, cells
from gradwire.planning.fabrics.spec import family_names, parse_fabric
from gradwire.planning.placement import place, placement_names
from gradwire.planning.routing.policies import policy
from gradwire.tools.exits import report
from gradwire.tools.sweep.cellreplaying import plan_cell
from gradwire.tools.sweep.study import StudyCell
from gradwire.traces.framing.framings import framings
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.plugins import BadPlugin, keep_whose, whose

SOURCE = """
def policy(fabric, placement, flows, schedule, seed):
    return {FAULT}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a package's module `drawnpaths`, which offers the routing policy `drawn`."""
    info = tmp_path / "drawn_paths-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drawn-paths\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text("[gradwire.routing]\ndrawn = drawnpaths:policy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "drawnpaths", raising=False)
    return tmp_path / "drawnpaths.py"


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(Exception) as raised:
        policy("drawn")(None, (), (), None, 0)  # type: ignore[arg-type]
    assert report(raised.value) == 1
    return capsys.readouterr().err.splitlines()


WHO = "routing policy 'drawn' of the package drawn-paths 0.3"


@pytest.mark.parametrize("fault", ["placement[7]", "len(7)", "fabric.hosts"])
def test_a_bug_in_a_packages_policy_is_called_that(
    fault: str, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text(SOURCE.replace("{FAULT}", fault))
    first, *_, last = said(capsys)
    assert first.startswith("Traceback")
    assert last == f"gradwire: this is a bug in the {WHO}, not in gradwire: show its authors the lines above"


def test_an_error_that_a_policy_raises_for_people_says_whose_it_is(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text(SOURCE.replace("{FAULT}", "max(())"))
    (line,) = said(capsys)
    assert line.startswith(f"gradwire: {WHO}: max()")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import nosuchlibrary", "ModuleNotFoundError: No module named 'nosuchlibrary'"),
        ("def other(): ...", "AttributeError: module 'drawnpaths' has no attribute 'policy'"),
        ("def policy(:", "SyntaxError: invalid syntax"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_one_line(source: str, why: str, package: Path) -> None:
    package.write_text(source)
    with pytest.raises(BadPlugin) as raised:
        policy("drawn")
    assert str(raised.value).startswith(f"{WHO} cannot be loaded: {why}")


def test_a_bug_of_our_own_is_still_ours_beside_such_a_package(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text(SOURCE)
    report(KeyError("x"))
    assert capsys.readouterr().err.splitlines()[-1].startswith("gradwire: this is a bug in gradwire")


def offering(group: str, monkeypatch: pytest.MonkeyPatch, folder: Path, source: str) -> None:
    """A package `odd` whose module `oddpackage` offers `odd` in this group."""
    info = folder / "odd-2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 2\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nodd = oddpackage:odd\n")
    (folder / "oddpackage.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "oddpackage", raising=False)


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ("fabric.hosts[:2]", "places 2 ranks, not 3"),
        ("('h0', 'h1', 'h1')", "puts two ranks on one host"),
        ("('h0', 'h1', 'leaf0')", "names 'leaf0', which is not a host of star:hosts=4"),
    ],
)
def test_a_placement_that_gives_no_host_to_each_rank_is_refused_with_its_package(
    hosts: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"def odd(fabric, n_ranks, seed):\n    return {hosts}\n"
    offering("gradwire.placement", monkeypatch, tmp_path, source)
    assert placement_names()[-1] == "odd"
    with pytest.raises(BadPlugin) as raised:
        place("odd", parse_fabric("star:hosts=4"), 3, 0)
    assert str(raised.value) == f"placement 'odd' of the package odd 2 {why}"


FAMILY = """
from gradwire.planning.fabrics.family import Family, build
odd = Family(lambda size, links: {MADE}, {"n": None}, "odd:n=2")
"""


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("None", "makes no Fabric of the family odd"),
        ("build('even', size, ['a'], ['a', 'a'], [], links)", "makes no Fabric of the family odd"),
        ("build('odd', size, ['a', 'b'], ['a', 'b'], [], links)", "makes an impossible fabric: "),
        ("build('odd', size, ['a' * 40], ['a' * 40] * 2, [], links)", "makes an impossible fabric: "),
    ],
)
def test_a_fabric_of_a_package_is_held_to_what_one_from_a_file_is(
    made: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering("gradwire.fabric", monkeypatch, tmp_path, FAMILY.replace("{MADE}", made))
    assert family_names()[-1] == "odd"
    with pytest.raises(BadPlugin) as raised:
        parse_fabric("odd:n=2")
    assert str(raised.value).startswith(f"fabric family 'odd' of the package odd 2 {why}")


def test_a_family_is_a_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offering("gradwire.fabric", monkeypatch, tmp_path, "odd = 3\n")
    with pytest.raises(BadPlugin, match=r"package odd 2 is of type int, not a Family$"):
        parse_fabric("odd:n=2")


def test_a_fabric_of_a_package_is_read_back_from_its_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "build('odd', size, ['a'], ['a'] * size['n'], [], links)"
    offering("gradwire.fabric", monkeypatch, tmp_path, FAMILY.replace("{MADE}", made))
    fabric = parse_fabric("odd:n=3,rate=50M")
    assert (fabric.spec, len(fabric.hosts)) == ("odd:n=3,rate=50M", 3)
    assert parse_fabric(fabric.spec) == fabric


@pytest.mark.parametrize("code", ["0", "'bye'"])
def test_a_package_that_ends_the_program_while_it_is_loaded_cannot_be_loaded(
    code: str, package: Path
) -> None:
    package.write_text(f"raise SystemExit({code})\n")
    with pytest.raises(BadPlugin, match=f"{WHO} cannot be loaded: SystemExit: "):
        policy("drawn")


def test_a_policy_that_ends_the_program_is_a_fault_of_its_package(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text("def policy(*given):\n    raise SystemExit(0)\n")
    with pytest.raises(SystemExit) as raised:
        policy("drawn")(None, (), (), None, 0)  # type: ignore[arg-type]
    assert report(raised.value) == 1
    assert capsys.readouterr().err.startswith(f"gradwire: the {WHO} ended gradwire")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("policy = 5", "cannot be called: drawnpaths:policy is of type int"),
        ("def policy(*given): ...", "gives a NoneType, not the path of each flow"),
        ("def policy(*given): return iter(())", "gives a tuple_iterator, not the path of each flow"),
        ("def policy(*given): return [5]", "gives '5', which is not a path of Egress"),
        ("def policy(*given): return [['h0']]", "gives \"['h0']\", which is not a path of Egress"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_package(source: str, why: str, package: Path) -> None:
    package.write_text(source)
    with pytest.raises(BadPlugin) as raised:
        policy("drawn")(None, (), (), None, 0)  # type: ignore[arg-type]
    assert str(raised.value) == f"{WHO} {why}"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("odd = 5", "cannot be called: oddpackage:odd is of type int"),
        ("def odd(*given): ...", "gives a NoneType, not the host of each rank"),
    ],
)
def test_what_is_no_placement_is_refused_with_its_package(
    source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering("gradwire.placement", monkeypatch, tmp_path, source)
    with pytest.raises(BadPlugin) as raised:
        place("odd", parse_fabric("star:hosts=4"), 3, 0)
    assert str(raised.value) == f"placement 'odd' of the package odd 2 {why}"


def test_what_is_no_framing_is_refused_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering("gradwire.framing", monkeypatch, tmp_path, "class odd:\n    name, is_training = 'odd', True\n")
    with pytest.raises(BadPlugin, match=r"^framing 'odd' of the package odd 2 has no fit: oddpackage:odd is"):
        framings.__wrapped__()


def test_a_bug_of_a_package_says_whose_it_is_in_another_process_too(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sweep` plans in several processes, from which errors come without their tracebacks."""
    package.write_text(SOURCE.replace("{FAULT}", "placement[7]"))
    with pytest.raises(IndexError) as raised:
        policy("drawn")(None, (), (), None, 0)  # type: ignore[arg-type]
    keep_whose(raised.value)
    arrived = pickle.loads(pickle.dumps(raised.value))
    assert report(arrived) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"gradwire: this is a bug in the {WHO}, ")


@pytest.mark.parametrize("fault", ["placement[7]", "max(())"])
def test_a_cell_of_a_study_says_whose_policy_failed(fault: str, package: Path) -> None:
    package.write_text(SOURCE.replace("{FAULT}", fault))
    (cell,) = cells([parse_fabric("star:hosts=2")], ["ring"], ["linear"], ["drawn"])
    study_cell = StudyCell("", 0, cell, Experiment(made_allreduce(2, 4096), "test"), key="")
    if fault == "max(())":
        assert (plan_cell(study_cell).cell.refused or "").startswith(f"{WHO}: max()")
        return
    with pytest.raises(IndexError) as raised:
        plan_cell(study_cell)
    assert whose(pickle.loads(pickle.dumps(raised.value))) == WHO


@pytest.mark.parametrize(
    ("fault", "line"),
    [("placement[7]", f"controller: this is a bug in the {WHO}, "), ("max(())", f"controller: {WHO}: max()")],
)
def test_the_controller_says_whose_policy_failed(fault: str, line: str, package: Path) -> None:
    package.write_text(SOURCE.replace("{FAULT}", fault))
    command = [sys.executable, str(PROJECT / "emu" / "interpreter.py"), "gradwire.controller"]
    command += ["--fabric", "star:hosts=2", "--routes", "drawn", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(line)
