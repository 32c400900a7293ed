"""Whose an error is that came through the code of another package, and what is said of it."""

from pathlib import Path

import pytest

from gradwire.planning.routing.policies import policy
from gradwire.tools.exits import report
from gradwire.traces.plugins import BadPlugin

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
