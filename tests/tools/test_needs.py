"""What a command cannot do without is named before it begins, with what to do about it."""

from pathlib import Path

import pytest

from gradwire.tools import thismachine as needs
from gradwire.tools.thismachine import RUN_TOOLS, need_root_and_tools

COMPILED = ("SWITCH_OBJECT", "WORKER_LIBRARY")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One with everything, and us root on it."""
    monkeypatch.setattr(needs, "is_root", lambda: True)
    monkeypatch.setattr("shutil.which", lambda tool: f"/usr/bin/{tool}")
    for compiled in COMPILED:
        monkeypatch.setattr(needs, compiled, Path(__file__))
    return monkeypatch


def without(machine: pytest.MonkeyPatch, missing: str) -> None:
    def which(tool: str) -> str | None:
        return None if tool == missing else f"/usr/bin/{tool}"

    machine.setattr("shutil.which", which)


@pytest.mark.parametrize("switch", ["gradwire", "ovs"])
def test_with_everything_there_nothing_is_said(machine: pytest.MonkeyPatch, switch: str) -> None:
    need_root_and_tools("replay", switch)


def test_without_root_the_command_to_type_is_told(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(needs, "is_root", lambda: False)
    with pytest.raises(PermissionError, match=r"replay .* needs root: run sudo \./gradwire replay …"):
        need_root_and_tools("replay")


@pytest.mark.parametrize("tool", RUN_TOOLS)
@pytest.mark.parametrize("switch", ["gradwire", "ovs"])
def test_a_missing_tool_is_named_with_the_set_up(machine: pytest.MonkeyPatch, tool: str, switch: str) -> None:
    without(machine, tool)
    with pytest.raises(FileNotFoundError, match=rf"^{tool} is not installed: run sudo \./gradwire setup$"):
        need_root_and_tools("bench", switch)


@pytest.mark.parametrize("tool", ["ethtool", "ovs-vswitchd"])
def test_what_only_open_vswitch_needs_is_asked_of_it_alone(machine: pytest.MonkeyPatch, tool: str) -> None:
    without(machine, tool)
    need_root_and_tools("bench")
    with pytest.raises(FileNotFoundError, match=tool):
        need_root_and_tools("bench", "ovs")


@pytest.mark.parametrize("compiled", COMPILED)
def test_what_our_switch_needs_must_be_compiled_and_open_vswitch_does_not_care(
    machine: pytest.MonkeyPatch, compiled: str
) -> None:
    machine.setattr(needs, compiled, Path("nowhere.o"))
    need_root_and_tools("up", "ovs")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.o is not compiled: run sudo \./gradwire setup"):
        need_root_and_tools("up")


def test_ryu_that_is_not_there_is_named_with_its_set_up(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(needs, "RYU_PYTHON", Path("nowhere/python"))
    need_root_and_tools("bench")
    with pytest.raises(FileNotFoundError, match=r"Ryu is not installed: run sudo \./gradwire setup --ryu$"):
        need_root_and_tools("bench", controller="ryu")
