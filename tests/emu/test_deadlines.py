"""How long a run may take: longer where more is predicted, where cables fail and where packets get lost."""

from dataclasses import replace

from gradwire.emu import deadlines
from gradwire.emu.options import RunOptions
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import Failure
from gradwire.planning.losses import parse_loss
from gradwire.planning.plan import Prediction
from tests.made_plans import allreduce_plan

PLAN = allreduce_plan("star:hosts=2")


def test_a_repeat_has_many_times_what_is_predicted_and_never_less_than_half_a_minute() -> None:
    assert deadlines.repeat_s(replace(PLAN, prediction=Prediction(0, 0.001))) == 30
    assert deadlines.repeat_s(replace(PLAN, prediction=Prediction(0, 100))) == 1200


def test_lost_packets_make_it_longer_by_a_factor_and_outages_by_their_length() -> None:
    plan = replace(PLAN, prediction=Prediction(0, 100))
    port = plan.fabric.links[0]
    failing = replace(plan, failures=(Failure(Egress(port.a, port.a_port), 0, 10**10),))
    assert deadlines.repeat_s(failing) == 1200 + 2 * 10
    lossy = replace(plan, losses=parse_loss("1%", plan.fabric))
    assert deadlines.repeat_s(lossy) == 12_000


def test_the_whole_run_outlasts_its_repeats() -> None:
    assert deadlines.run_s(PLAN, RunOptions(repeats=5)) > 5 * deadlines.repeat_s(PLAN)
