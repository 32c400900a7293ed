"""What `doctor` makes of a machine that has this and lacks that."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from gradwire.tools import checks, thismachine
from gradwire.tools.checks import MachineCheck, all_checks, can_run_demo
from gradwire.tools.commands.doctor import doctor

Machine = pytest.MonkeyPatch


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine that has everything."""
    answers: dict[str, object] = {
        "is_root": True,
        "kernel": "6.1.0-amd64",
        "n_cpus": 4,
        "congestion_controls": ("reno", "cubic"),
        "kernel_has_openvswitch": True,
        "probed": dict.fromkeys(checks.PROBES, "ok"),
        "packages_unlike_the_lock": (),
        "compiled_fault": "",
    }
    for name, value in answers.items():
        monkeypatch.setattr(thismachine, name, lambda value=value: value)
    monkeypatch.setattr(checks, "free_nbytes", lambda: 8_000_000_000)
    monkeypatch.setattr(thismachine, "free_disk_nbytes", lambda folder: 10_000_000_000)
    monkeypatch.setattr(thismachine, "tool_version", lambda command: "1.0")
    monkeypatch.setattr(checks, "SAMPLE", tmp_path)
    return monkeypatch


def found(name: str) -> MachineCheck:
    (check,) = (check for check in all_checks() if check.name == name)
    return check


def test_a_machine_with_everything_has_nothing_to_mend(good: Machine) -> None:
    assert {check.state for check in all_checks()} == {"ok"}
    assert not [check for check in all_checks() if check.mend]
    assert can_run_demo(all_checks())


def without(tool: str, good: Machine) -> None:
    def version(command: Sequence[str]) -> str | None:
        return None if command[0] == tool else "1.0"

    good.setattr(thismachine, "tool_version", version)


@pytest.mark.parametrize(("tool", "can_run"), [("tc", False), ("clang", False), ("tshark", True)])
def test_a_missing_tool_is_mended_by_the_set_up(tool: str, can_run: bool, good: Machine) -> None:
    without(tool, good)
    check = found(tool)
    assert (check.state, check.mend) == ("missing", "sudo ./gradwire setup")
    assert can_run_demo(all_checks()) is can_run


def test_open_vswitch_is_not_needed(good: Machine) -> None:
    without("ovs-vswitchd", good)
    assert found("Open vSwitch").state == "missing"
    assert can_run_demo(all_checks())


def test_open_vswitch_without_its_kernel_module_is_weak(good: Machine) -> None:
    good.setattr(thismachine, "kernel_has_openvswitch", lambda: False)
    assert found("Open vSwitch").state == "weak"
    assert "user space" in found("Open vSwitch").found
    assert can_run_demo(all_checks())


@pytest.mark.parametrize("name", checks.PROBES)
def test_a_kernel_that_lacks_something_cannot_run_the_demo_if_that_needs_it(name: str, good: Machine) -> None:
    good.setattr(
        thismachine, "probed", lambda: dict.fromkeys(checks.PROBES, "ok") | {name: "Error: unknown qdisc"}
    )
    good.setattr(checks, "SWITCH_OBJECT", Path(__file__))
    assert (found(name).state, found(name).found) == ("missing", "Error: unknown qdisc")
    assert "vagrant up" in found(name).mend
    assert can_run_demo(all_checks()) == (name == "mirred")


def test_a_limit_that_keeps_the_kernel_from_loading_the_switch_is_mended_by_raising_it(good: Machine) -> None:
    said = "libbpf: map 'packet_ins': failed to create: Too many open files(-24)"
    good.setattr(thismachine, "probed", lambda: dict.fromkeys(checks.PROBES, "ok") | {"htb": said})
    check = found("htb")
    assert (check.state, check.mend) == ("missing", "raise the limit on open files (ulimit -n)")


def test_a_switch_that_was_not_compiled_is_mended_by_the_set_up(good: Machine) -> None:
    good.setattr(
        thismachine, "probed", lambda: dict.fromkeys(checks.PROBES, "ok") | {"switch program": "no file"}
    )
    good.setattr(checks, "SWITCH_OBJECT", Path("nowhere.o"))
    assert found("switch program").mend == "sudo ./gradwire setup"


def test_a_library_that_cannot_be_loaded_is_mended_by_the_set_up(good: Machine) -> None:
    good.setattr(thismachine, "compiled_fault", lambda: "libworker.so: cannot open shared object file")
    check = found("compiled ranks")
    assert (check.state, check.mend) == ("missing", "sudo ./gradwire setup")
    assert "cannot open" in check.found
    assert not can_run_demo(all_checks())


def test_what_could_not_be_tried_without_root_is_unknown_and_does_not_fail(good: Machine) -> None:
    good.setattr(thismachine, "is_root", lambda: False)
    good.setattr(
        thismachine, "probed", lambda: {"namespaces": "ok", "veth": "ok", "htb": "Operation not permitted"}
    )
    assert found("veth").state == "ok"
    assert {found(name).state for name in ("htb", "cls_bpf", "mnexec", "root")} == {"unknown"}
    assert can_run_demo(all_checks())


def test_a_machine_of_one_processor_and_little_memory_is_weak(good: Machine) -> None:
    good.setattr(thismachine, "n_cpus", lambda: 1)
    good.setattr(checks, "free_nbytes", lambda: 500_000_000)
    assert (found("processors").state, found("free memory").state) == ("weak", "weak")
    assert can_run_demo(all_checks())


def test_wrong_python_packages_are_named_a_few_at_most(good: Machine) -> None:
    good.setattr(
        thismachine, "packages_unlike_the_lock", lambda: tuple(f"p{i} is missing" for i in range(40))
    )
    assert found("Python packages").found == "p0 is missing; p1 is missing; p2 is missing …"
    assert not can_run_demo(all_checks())


def test_doctor_exits_with_1_where_the_demo_cannot_run(
    good: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    without("tc", good)
    with pytest.raises(typer.Exit) as left:
        doctor()
    assert left.value.exit_code == 1
    assert "it needs: tc" in capsys.readouterr().out


def test_the_json_says_what_the_table_says(good: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    doctor(as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "gradwire.doctor/1"
    assert report["can_run_demo"] is True
    assert [check["name"] for check in report["checks"]] == [check.name for check in all_checks()]
