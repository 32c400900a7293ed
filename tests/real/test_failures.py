"""A run in which a cable fails: every sum is right, and its files say what happened.

TCP sends again what was in the cable.  If that is all that a connection had under way, nothing
acknowledges it, and the connection waits for TCP's least timeout, 200 ms: however fast the
switches go on, it is this that a short run shows.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.records import load_repeats
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.failures import Failure
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results.outages import outages
from tests.real.test_run import carried_out, plan_of

pytestmark = pytest.mark.real

SPEC = "leaf-spine:leaves=3,spines=2,hosts=1,rate=50M"  # of two leaves a spine has no way round
NBYTES = 4_200_000  # about 0.94 s for three ranks


def failing_plan(down_s: float, up_s: float | None, spec: str = SPEC) -> Plan:
    """A ring, and of its cables between switches the one with most to carry goes down."""
    plan = plan_of(spec, "ring", NBYTES)
    loads = plan_load(plan).loads
    inner = [
        end
        for end, far in plan.fabric.peers.items()
        if {end.node, far.node} <= set(plan.fabric.switches) and end in loads
    ]
    port = max(inner, key=lambda end: loads[end].nbytes)
    up_ns = None if up_s is None else int(up_s * 1e9)
    return replace(plan, failures=(Failure(port, int(down_s * 1e9), up_ns),))


def control(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "control.jsonl").read_text().splitlines()]


def test_a_cable_that_fails_and_comes_back_costs_no_element(tmp_path: Path) -> None:
    plan = failing_plan(0.3, 0.7)
    folder = carried_out(plan, tmp_path / "run", repeats=2)
    repeats = load_repeats(folder)
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    assert {nbytes for repeat in repeats for nbytes in repeat.sent_nbytes} == {2 * 2 * NBYTES // 3}
    for number in range(len(repeats)):
        down, up = outages(folder, plan.fabric, number)
        assert (down.event, up.event) == ("down", "up")
        assert 0.3 <= down.at_s < 0.7 <= up.at_s  # how late, if nothing disturbs: test_cables
        for one in (down, up):
            assert one.heard_s is not None
            assert one.rerouted_s is not None
            assert one.heard_s <= one.rerouted_s < 1  # both 0 where the cable was noted down late
            assert one.n_flows


def test_a_cable_that_stays_down_is_up_again_in_the_next_repeat(tmp_path: Path) -> None:
    plan = failing_plan(0.3, None)
    folder = carried_out(plan, tmp_path / "run", repeats=2)
    assert all(repeat.wrong == 0 for repeat in load_repeats(folder))
    events = [
        line["event"] for line in control(folder) if line["event"] in {"port_down", "port_up", "settled"}
    ]
    assert events.count("port_down") == events.count("port_up")
    assert events[-1] == "settled"
    assert {line["event"] for line in json.loads((folder / "failures.json").read_text())} == {"down"}


def test_without_planning_anew_the_switches_alone_carry_on(tmp_path: Path) -> None:
    plan = failing_plan(0.3, None)
    folder = carried_out(plan, tmp_path / "run", repeats=1, reroute=False)
    assert load_repeats(folder)[0].wrong == 0
    (down,) = outages(folder, plan.fabric, 0)
    assert down.heard_s is not None
    assert down.rerouted_s is None
    assert not [line for line in control(folder) if line["event"] == "rerouted"]


def test_a_host_that_is_cut_off_for_a_while_goes_on_when_its_cable_is_up(tmp_path: Path) -> None:
    plan = plan_of(SPEC, "ring", NBYTES)
    host = Egress(plan.placement[1], 0)
    plan = replace(plan, failures=(Failure(host, 300_000_000, 800_000_000),))
    folder = carried_out(plan, tmp_path / "run", repeats=1)
    repeat = load_repeats(folder)[-1]
    assert repeat.wrong == 0
    assert repeat.time_s > plan.prediction.fluid_s + 0.5  # nobody can go on without it


def test_open_vswitch_carries_on_too(tmp_path: Path) -> None:
    plan = failing_plan(0.5, 1.5, "leaf-spine:leaves=2,spines=2,hosts=1,rate=10M")
    folder = carried_out(plan, tmp_path / "run", repeats=1, switch="ovs")
    assert all(repeat.wrong == 0 for repeat in load_repeats(folder))
    down, up = outages(folder, plan.fabric, 0)
    assert down.heard_s is not None
    assert up.heard_s is not None
