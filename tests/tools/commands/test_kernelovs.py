"""The comparison with Open vSwitch in the kernel prints no figures where they would say nothing."""

import pytest

from benchmarks.kernelovs import refusal

XEON = "model name\t: Intel(R) Xeon(R) Processor\n"
QEMU = "model name\t: QEMU Virtual CPU version 2.5+\n"
TCG = "model name\t: QEMU TCG CPU version 2.5+\n"


@pytest.mark.parametrize(
    ("cpuinfo", "virtualization", "has_module", "words"),
    [
        (QEMU, "", True, "emulated"),
        (TCG, "kvm", True, "emulated"),
        (XEON, "qemu", True, "emulated"),
        (XEON, "none", False, "openvswitch module"),
    ],
)
def test_figures_are_refused_with_the_reason(
    cpuinfo: str, virtualization: str, has_module: bool, words: str
) -> None:
    reason = refusal(cpuinfo, virtualization, has_module=has_module)
    assert reason is not None
    assert words in reason
    assert "\n" not in reason


@pytest.mark.parametrize("virtualization", ["none", "kvm", "oracle", ""])
def test_a_real_processor_with_the_module_is_measured(virtualization: str) -> None:
    assert refusal(XEON, virtualization, has_module=True) is None
