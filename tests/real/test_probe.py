"""The probe of `doctor`, on the machine's own kernel."""

import subprocess

import pytest

from gradwire.tools import thismachine
from gradwire.tools.checks import PROBES

pytestmark = [pytest.mark.real, pytest.mark.untimed]


def test_the_probe_tries_everything_that_a_run_needs_and_finds_it() -> None:
    assert thismachine.probed() == dict.fromkeys(PROBES, "ok")


def test_the_probe_leaves_nothing_behind() -> None:
    thismachine.probed()
    links = subprocess.check_output(["ip", "-o", "link"], text=True)
    assert "probe" not in links


def test_a_switch_program_that_the_kernel_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thismachine, "SWITCH_OBJECT", thismachine.PROBE)
    found = thismachine.probed()
    assert found["veth"] == found["htb"] == "ok"
    assert found["switch program"] != "ok"
    assert "\n" not in found["switch program"]
