"""A verdict separates what the machine did from what the fabric did."""

from dataclasses import replace

from gradwire.emu.disturbance import Reason
from gradwire.emu.records import Repeat
from gradwire.planning.model.calibration import Calibration
from gradwire.planning.model.errorbar import Expected
from gradwire.planning.model.shifts import Tunnels
from gradwire.results.verdict import Verdict, counted, judge, with_model
from tests.made_plans import PAYLOAD_EFFICIENCY

GOOD = Repeat(
    time_s=1.0,
    rank_time_s=(1.0, 0.9),
    start_skew_s=0.001,
    gap_lateness_s=0.0,
    wrong=0,
    sent_nbytes=(10, 10),
    retransmits=(0, 0),
    cpu_idle=0.6,
    cpu_stolen=0.0,
    stall_s=0.004,
    softnet_dropped=0,
    queue_dropped={},
)
MTU = 1500
CALIBRATED = Calibration(alpha_s=0.004, latency_s=0.001, eta=PAYLOAD_EFFICIENCY)


STALLED = replace(GOOD, time_s=1.9, disturbed=(Reason("the machine stood still for {} ms", (149,)),))


def test_a_quiet_run_is_valid_without_warnings() -> None:
    verdict = judge([GOOD, GOOD], 2, CALIBRATED, 0.99, MTU)
    assert (verdict.valid, verdict.reasons, verdict.warnings) == (True, (), ())


def test_a_disturbed_repeat_is_left_out_when_enough_others_were_measured() -> None:
    verdict = judge([GOOD, STALLED, GOOD], 2, CALIBRATED, 0.99, MTU)
    assert verdict.valid
    assert verdict.warnings == ("1 of 3 repeats left out: the machine stood still for 149 ms",)
    assert counted([GOOD, STALLED, GOOD]) == [GOOD, GOOD]


def test_a_warm_up_is_no_repeat_that_was_asked_for() -> None:
    slow = replace(GOOD, time_s=9.0, is_warmup=True)
    verdict = judge([slow, GOOD, GOOD], 2, CALIBRATED, 0.99, MTU)
    assert (verdict.valid, verdict.reasons, verdict.warnings) == (True, (), ())
    assert not judge([slow, GOOD, STALLED], 2, CALIBRATED, 0.99, MTU).valid
    assert counted([slow, GOOD]) == [GOOD]
    assert counted([slow, STALLED]) == [STALLED]  # not the warm-up, although nothing disturbed that


def test_too_few_undisturbed_repeats_make_a_run_not_valid() -> None:
    verdict = judge([GOOD, STALLED, STALLED], 2, CALIBRATED, 0.99, MTU)
    assert not verdict.valid
    assert verdict.reasons == ("the machine stood still for 149 ms",)


def test_wrong_elements_make_a_run_not_valid_even_in_a_repeat_that_is_left_out() -> None:
    verdict = judge([GOOD, replace(STALLED, wrong=3)], 1, CALIBRATED, 0.99, MTU)
    assert str(verdict) == "not valid: 3 wrong elements"


def test_a_fabric_that_cannot_carry_one_flow_makes_a_run_not_valid() -> None:
    verdict = judge([GOOD], 1, replace(CALIBRATED, eta=0.9 * PAYLOAD_EFFICIENCY), 0.99, MTU)
    assert "one flow alone reached 90% of its link" in verdict.reasons


def test_a_network_between_machines_that_is_too_slow_makes_a_run_not_valid() -> None:
    fast, slow = (
        replace(CALIBRATED, tunnels=Tunnels(share * PAYLOAD_EFFICIENCY, 0.001)) for share in (0.96, 0.6)
    )
    assert judge([GOOD], 1, fast, 0.99, MTU).valid
    (reason,) = judge([GOOD], 1, slow, 0.99, MTU).reasons
    assert reason.startswith("flows between machines reached 60.0% of their links")


def test_one_flow_alone_is_held_against_the_frames_of_its_fabric() -> None:
    calibrated = replace(CALIBRATED, eta=0.94)  # 98 % of 1448/1514, 95 % of 8948/9014
    assert judge([GOOD], 1, calibrated, 0.99, 1500).valid
    assert judge([GOOD], 1, calibrated, 0.99, 9000).reasons == ("one flow alone reached 95% of its link",)


def test_what_the_fabric_does_is_a_result_and_no_fault() -> None:
    assert judge(
        [replace(GOOD, retransmits=(50, 7), queue_dropped={"leaf0-eth3": 57})], 1, CALIBRATED, 0.99, MTU
    ).valid


def test_a_busy_machine_is_a_warning_first() -> None:
    verdict = judge([replace(GOOD, cpu_idle=0.2)], 1, CALIBRATED, 0.99, MTU)
    assert verdict.valid
    assert verdict.warnings == ("CPU idle 20%",)


def test_a_busy_machine_is_said_once() -> None:
    near = replace(GOOD, cpu_idle=0.2)
    busy = replace(GOOD, cpu_idle=0.02, disturbed=(Reason("CPU idle only {}%: wait", (2,)),))
    assert judge([near, near, busy], 2, CALIBRATED, 0.99, MTU).warnings == (
        "1 of 3 repeats left out: CPU idle only 2%: wait",
    )
    too_few = judge([near, busy, busy], 2, CALIBRATED, 0.99, MTU)
    assert (too_few.reasons, too_few.warnings) == (("CPU idle only 2%: wait",), ())
    stalled = judge([near, near, STALLED], 2, CALIBRATED, 0.99, MTU)
    assert stalled.warnings == ("1 of 3 repeats left out: the machine stood still for 149 ms", "CPU idle 20%")


def test_what_is_faster_than_the_least_time_is_no_measurement() -> None:
    assert judge([GOOD], 1, CALIBRATED, 1.2, MTU).reasons == (
        "83% of the least time: too little data for this rate, use larger sizes",
    )
    assert "99.0% of the least time" in judge([GOOD], 1, CALIBRATED, 1.01, MTU).warnings[0]


def test_a_run_without_a_bound_is_judged_without_it() -> None:
    assert judge([GOOD], 1, CALIBRATED, 0.0, MTU).valid


def test_a_time_outside_the_models_bar_is_not_valid_and_one_inside_is() -> None:
    expected = Expected(1.0, low_s=0.92, high_s=1.1, machine_share=0.05)
    assert (
        with_model(Verdict(True), 1.1, expected) == with_model(Verdict(True), 0.92, expected) == Verdict(True)
    )
    reason = "it took 1.11 × its predicted time, which is known to ±10%"
    assert with_model(Verdict(True), 1.11, expected) == Verdict(False, (reason,), model=(reason,))
    assert not with_model(Verdict(True), 0.91, expected).valid


def test_a_time_that_the_machine_rules_is_not_valid_even_inside_the_bar() -> None:
    expected = Expected(1.0, low_s=0.9, high_s=1.1, machine_share=0.93)
    reason = "93% of its time is the machine's own per step: use larger sizes"
    before = Verdict(False, ("1 wrong elements",), ("CPU idle 20%",))
    assert with_model(before, 1.0, expected) == Verdict(
        False, ("1 wrong elements", reason), ("CPU idle 20%",), model=(reason,)
    )
    assert with_model(Verdict(True), 1.0, replace(expected, machine_share=0.1)).valid
    assert not with_model(Verdict(True), 1.0, replace(expected, machine_share=0.11)).valid


def test_without_a_bar_the_model_judges_nothing() -> None:
    assert with_model(Verdict(True), 50.0, Expected(1.0)).valid
    assert Expected(1.0).error is None


def test_a_run_is_valid_only_if_machine_capture_and_model_are() -> None:
    assert str(judge([GOOD], 1, CALIBRATED, 0.99, MTU, capture=("unread",))) == "not valid: unread"
    verdict = judge([STALLED], 1, CALIBRATED, 0.99, MTU, capture=("unread",))
    verdict = with_model(verdict, 1.0, Expected(1.0, 0.9, 1.1, machine_share=0.5))
    assert not verdict.valid
    (unsure,) = verdict.model
    assert verdict.capture == ("unread",)
    assert verdict.machine == ("the machine stood still for 149 ms",)
    assert verdict.reasons == (*verdict.machine, "unread", unsure)


def test_repeats_that_differ_more_than_quiet_ones_do_are_not_believed_unless_links_may_fail() -> None:
    apart = [GOOD, replace(GOOD, time_s=GOOD.time_s * 1.5), GOOD]
    (reason,) = judge(apart, 3, CALIBRATED, 0.99, MTU).machine
    assert reason == "its repeats differ by 50%: something else used the links or the machine"
    assert judge(apart, 3, CALIBRATED, 0.99, MTU, steady=False).valid
    near = [GOOD, replace(GOOD, time_s=GOOD.time_s * 1.05), GOOD]
    assert judge(near, 3, CALIBRATED, 0.99, MTU).valid
    assert not judge([GOOD, replace(GOOD, time_s=GOOD.time_s * 1.12)], 2, CALIBRATED, 0.99, MTU).valid


def test_short_repeats_may_differ_by_more() -> None:
    short = [replace(GOOD, time_s=time_s) for time_s in (0.1, 0.11, 0.12)]
    assert judge(short, 3, CALIBRATED, 0.0, MTU).valid
    assert not judge([*short, replace(GOOD, time_s=0.13)], 4, CALIBRATED, 0.0, MTU).valid


def test_what_else_is_known_against_the_machine_comes_first() -> None:
    found = judge(
        [GOOD], 1, CALIBRATED, 0.99, MTU, machine=("h0-leaf0 carried 3 MB that are not the plan's",)
    )
    assert (found.valid, found.machine) == (False, found.reasons)
