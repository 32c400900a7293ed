"""Cables that fail by plan: both ends lose their carrier at the time, and are up again at the end."""

import json
import subprocess
import time
from typing import Any

import pytest

from gradwire.emu.network.cables import failing
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import changes, parse_failures
from tests.real.inside import inside
from tests.real.timely import in_time

pytestmark = pytest.mark.real

SPEC = "leaf-spine:leaves=2,spines=1,hosts=1"
LATEST_S = 0.05


def test_both_ends_have_no_carrier_while_a_cable_is_down() -> None:
    names = ["leaf0-eth2", "spine0-eth1", "leaf1-eth2"]
    seen = in_time(
        lambda: inside(_watched, "leaf0-spine0@0.2,0.5", names),
        lambda seen: all(late_s < LATEST_S for _, late_s in seen["done"]),
    )
    assert [event for event, _ in seen["done"]] == ["down", "up"]
    assert all(0 <= late_s < LATEST_S for _, late_s in seen["done"])
    assert seen["before"] == [True, True, True]
    assert seen["during"] == [False, False, True]
    assert seen["after"] == [True, True, True]


def test_a_cable_that_stays_down_is_up_when_the_repeat_is_over() -> None:
    seen = inside(_watched, "leaf0-spine0@0.2", ["leaf0-eth2", "spine0-eth1"])
    assert [event for event, _ in seen["done"]] == ["down"]
    assert (seen["during"], seen["after"]) == ([False, False], [True, True])


def test_what_is_due_after_the_end_does_not_happen() -> None:
    seen = inside(_watched, "leaf0-spine0@5,6", ["leaf0-eth2"])
    assert seen["done"] == []
    assert seen["during"] == [True]


def _watched(text: str, names: list[str]) -> dict[str, Any]:
    fabric = parse_fabric(SPEC)
    for a, b in (("leaf0-eth2", "spine0-eth1"), ("leaf1-eth2", "spine0-eth2"), ("leaf0-eth1", "h0-eth0")):
        subprocess.run(["ip", "link", "add", a, "type", "veth", "peer", "name", b], check=True)
        for name in (a, b):
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
    with failing(changes(fabric, parse_failures(text, fabric))) as cables:
        before = [_has_carrier(name) for name in names]
        cables.begin(time.monotonic_ns())
        time.sleep(0.35)
        during = [_has_carrier(name) for name in names]
        time.sleep(0.3)
        done = cables.end()
        after = [_has_carrier(name) for name in names]
    late = [("up" if one.change.is_up else "down", (one.done_ns - one.due_ns) / 1e9) for one in done]
    return {"before": before, "during": during, "after": after, "done": late}


def _has_carrier(name: str) -> bool:
    shown = subprocess.run(["ip", "-j", "link", "show", name], capture_output=True, text=True, check=True)
    return bool(json.loads(shown.stdout)[0]["operstate"] == "UP")
