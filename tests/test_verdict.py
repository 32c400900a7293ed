"""A verdict tells what the machine did from what the fabric did."""

from dataclasses import replace

import pytest

from emu.calibration import Calibration
from emu.records import Repeat
from emu.transport import PAYLOAD_EFFICIENCY
from emu.verdict import judge

GOOD = Repeat(
    time_s=1.0,
    rank_time_s=(1.0, 0.9),
    start_skew_s=0.001,
    gap_lateness_s=0.0,
    wrong=0,
    sent_nbytes=(10, 10),
    retransmits=(0, 0),
    cpu_idle=0.6,
    softnet_dropped=0,
    queue_dropped={},
)
CALIBRATED = Calibration(alpha_s=0.004, latency_s=0.001, eta=PAYLOAD_EFFICIENCY)


def test_a_quiet_run_is_valid_without_warnings() -> None:
    verdict = judge([GOOD, GOOD], CALIBRATED)
    assert (verdict.valid, verdict.reasons, verdict.warnings) == (True, (), ())


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (replace(GOOD, wrong=3), "3 wrong elements"),
        (replace(GOOD, cpu_idle=0.1), "CPU idle only 10%"),
        (replace(GOOD, start_skew_s=0.030), "30 ms late"),
        (replace(GOOD, gap_lateness_s=0.030), "30 ms late"),
        (replace(GOOD, softnet_dropped=2), "2 packets lost"),
    ],
)
def test_one_spoiled_repeat_makes_a_run_not_valid(spoiled: Repeat, reason: str) -> None:
    verdict = judge([GOOD, spoiled, GOOD], CALIBRATED)
    assert not verdict.valid
    assert reason in verdict.reasons[0]
    assert reason in str(verdict)


def test_a_fabric_that_cannot_carry_one_flow_makes_a_run_not_valid() -> None:
    verdict = judge([GOOD], replace(CALIBRATED, eta=0.9 * PAYLOAD_EFFICIENCY))
    assert "one flow alone reached 90% of its link" in verdict.reasons


def test_what_the_fabric_does_is_a_result_and_no_fault() -> None:
    assert judge([replace(GOOD, retransmits=(50, 7), queue_dropped={"leaf0-eth3": 57})], CALIBRATED).valid


def test_a_busy_machine_is_a_warning_first() -> None:
    verdict = judge([replace(GOOD, cpu_idle=0.2)], CALIBRATED)
    assert verdict.valid
    assert verdict.warnings == ("CPU idle 20%",)
