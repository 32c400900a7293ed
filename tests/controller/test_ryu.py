"""The same application under real Ryu 4.34: what programs a switch is the same, byte for byte."""

import struct
import time
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.plan import save
from tests.controller.test_controller_process import READY_S, Switches, running, switches
from tests.made_plans import allreduce_plan
from tests.made_trees import planted

PYTHON = PROJECT / ".venv-ryu" / "bin" / "python"
SPEC = "fat-tree:k=4"
# What the command ryu-manager does, after the module that makes Ryu run on this Python.
MANAGER = "import gradwire.controller.ryu_api\nfrom ryu.cmd.manager import main\nmain()"
FLOW_MOD, GROUP_MOD, MULTIPART_REQUEST = 14, 15, 18
FLOW_STATISTICS = 1
EXPERIMENTER = bytes.fromhex("00024757")  # of the action that adds up

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-ryu: run ./gradwire setup --ryu")


def messages(octets: bytes) -> list[tuple[int, bytes]]:
    """Type and body of each message: without the header, whose transaction number is the library's choice."""
    found = []
    at = 0
    while at + 8 <= len(octets):
        _, kind, length, _ = struct.unpack_from("!BBHI", octets, at)
        found.append((kind, bytes(octets[at + 8 : at + length])))
        at += length
    return found


def is_checked(octets: bytes) -> bool:
    """Has the controller asked for the rules, which it does when the barrier is answered?"""
    return any(
        kind == MULTIPART_REQUEST and struct.unpack_from("!H", body) == (FLOW_STATISTICS,)
        for kind, body in messages(octets)
    )


def programming(those: Switches) -> dict[str, list[tuple[int, bytes]]]:
    """What every switch was sent, once all have their rules."""
    deadline_s = time.monotonic() + READY_S
    while not all(is_checked(bytes(those.heard[switch])) for switch in those.fabric.switches):
        assert time.monotonic() < deadline_s, "not every switch was programmed in time"
        time.sleep(0.02)
    return {
        switch: [message for message in messages(bytes(heard)) if message[0] in (FLOW_MOD, GROUP_MOD)]
        for switch, heard in those.heard.items()
    }


def test_ryu_and_os_ken_give_byte_identical_flow_tables_and_groups(tmp_path: Path) -> None:
    plan, configuration = tmp_path / "plan.json", tmp_path / "ryu.conf"
    save(planted(allreduce_plan(SPEC, "halving-doubling", "random"), [range(12), (12, 13, 14, 15)]), plan)
    configuration.write_text(f"[gradwire]\nplan = {plan}\n")
    with running(str(plan)) as controller, switches(controller, spec=SPEC) as those:
        by_os_ken = programming(those)
    ryu = ["env", "GRADWIRE_RYU_API=ryu", str(PYTHON), "-c", MANAGER, "--config-file", str(configuration)]
    ryu += ["--ofp-listen-host", "127.0.0.1", "gradwire.controller.app", "--ofp-tcp-listen-port"]
    with running(command=ryu) as controller, switches(controller, spec=SPEC) as those:
        by_ryu = programming(those)
    assert by_ryu == by_os_ken
    flow_mods = [body for sent in by_ryu.values() for kind, body in sent if kind == FLOW_MOD]
    assert len(flow_mods) > 500
    assert sum(EXPERIMENTER in body for body in flow_mods) > 16
