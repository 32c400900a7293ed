"""How long the switch agent waits: for the word to begin, and for a controller."""

import json
import time
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any

import pytest

from gradwire.emu.switch.running import ports_file
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.spec import parse_fabric
from tests.openflow_talk import dst, flow_mod, to_port
from tests.real import lab
from tests.real.inside import inside
from tests.real.test_switch import PlainController, pings, scratch

pytestmark = [pytest.mark.real, pytest.mark.untimed]

FABRIC = parse_fabric("star:hosts=2,rate=100M")
ROUTES = [flow_mod(dst(FABRIC.ip(host)), [to_port(port)]) for host, port in (("h0", 1), ("h1", 2))]


def endless_patience() -> dict[str, Any]:
    """Nobody listens at first, then somebody does, goes, and comes again."""
    found: dict[str, Any] = {}
    with scratch() as folder:
        lab.cable_up(FABRIC)
        with lab.agent_started(FABRIC, folder, "--patience", "0") as agent:
            agent.await_line("attached")
            with suppress(TimeoutExpired):
                agent.process.wait(1)
            found["alone"] = agent.process.poll()
            controller = PlainController()
            controller.accept()
            agent.await_line("connected")
            controller.ask(*ROUTES)
            found["with a controller"] = pings(FABRIC)
            controller.cut()
            time.sleep(1)
            found["without it"] = [agent.process.poll(), pings(FABRIC)]
            controller.accept()
            found["it came again"] = controller.ask()
    return found


def test_an_agent_of_endless_patience_forwards_and_waits_for_its_controller() -> None:
    assert inside(endless_patience) == {
        "alone": None,
        "with a controller": True,
        "without it": [None, True],
        "it came again": [],
    }


def short_patience() -> list[Any]:
    """The agent's end after its controller has gone for good."""
    with scratch() as folder:
        lab.cable_up(FABRIC)
        controller = PlainController()
        with lab.agent_started(FABRIC, folder, "--patience", "0.5") as agent:
            agent.await_line("attached")
            controller.accept()
            agent.await_line("connected")
            controller.ask(*ROUTES)
            controller.close()
            code, said = agent.end()
            return [code, said, pings(FABRIC)]


def test_an_agent_whose_controller_has_gone_ends_when_its_patience_does_and_its_rules_stay() -> None:
    code, said, pinged = inside(short_patience)
    assert code == 1
    assert said == (
        "switch agent: no OpenFlow 1.3 controller at 127.0.0.1:6653 for 0.5 s; switch0 without one\n"
    )
    assert pinged


def waited() -> dict[str, Any]:
    """An agent that gets its line to begin, and one whose parent has gone."""
    found: dict[str, Any] = {}
    with scratch() as folder:
        (folder / "ports.json").write_text(json.dumps(ports_file(FABRIC)))
        with lab.running(lab.agent_command(folder, "--wait"), folder / "orphan.log") as orphan:
            assert orphan.process.stdin
            orphan.process.stdin.close()
            found["an orphan"] = orphan.end()
        with lab.running(lab.agent_command(folder, "--wait"), folder / "agent.log") as agent:
            with suppress(TimeoutExpired):
                agent.process.wait(1)
            lab.cable_up(FABRIC)  # what the word is waited for: it would not find its interfaces before
            controller = PlainController()
            shown = lab.run("tc", "qdisc", "show", "dev", interface("switch0", 1))
            found["before"] = [agent.process.poll(), "clsact" in shown]
            agent.tell("begin")
            agent.await_line("attached")
            controller.accept()
            agent.await_line("connected")
    return found


def test_an_agent_that_waits_touches_nothing_before_it_is_told_and_ends_with_its_parent() -> None:
    assert inside(waited) == {"an orphan": [0, ""], "before": [None, False]}
