"""`ovs-ofctl`, Open vSwitch's own program, speaks with a switch of ours at its socket."""

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradwire.emu.switch import ofctl
from gradwire.emu.switch.ofctl import Answer
from gradwire.emu.switch.server.connection import ControllerConnection
from gradwire.emu.switch.server.management import Management
from tests.openflow_talk import Talk

Ask = Callable[..., Answer]


def obey(line: str) -> None:
    if line != "stop leaf0":
        raise ValueError(f"{line!r} is not for this test")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where leaf0, a switch in memory with three ports, is served."""
    talk, selector, is_over = Talk(is_greeted=False), selectors.DefaultSelector(), threading.Event()
    management = Management(tmp_path, selector)

    def connection(accepted: socket.socket) -> ControllerConnection:
        session = Talk(is_greeted=False).session
        session._table = talk.table
        return ControllerConnection(
            ("leaf0", 0), session, talk.operations.append, talk.operations.append, 0, accepted
        )

    management.open("leaf0", connection)
    management.open_agent(obey)

    def serve() -> None:
        while not is_over.is_set():
            for key, events in selector.select(0.02):
                key.data(events)

    thread = threading.Thread(target=serve)
    thread.start()
    yield tmp_path
    is_over.set()
    thread.join()
    management.close("leaf0")
    management.close(ofctl.AGENT)
    selector.close()


@pytest.fixture
def ask(folder: Path) -> Ask:
    return lambda *words: ofctl.asked(folder, "leaf0", words)


def test_rules_that_were_added_are_printed_and_can_be_deleted(ask: Ask) -> None:
    for rule in ("priority=7,ip,nw_dst=10.0.0.1,actions=output:2", "priority=1,actions=drop"):
        assert ask("add-flow", rule) == Answer("")
    shown = ask("dump-flows").text
    assert " priority=7,ip,nw_dst=10.0.0.1 actions=output:2\n" in shown
    assert " priority=1 actions=drop\n" in shown
    assert "n_packets=1, n_bytes=100," in shown  # what the counters of flow 1 say
    assert ask("del-flows", "ip,nw_dst=10.0.0.1").complaint is None
    assert ask("dump-flows").text.count("priority=") == 1
    ask("del-flows")
    assert ask("dump-flows").text.count("priority=") == 0


def test_groups_and_the_rules_that_use_them_are_printed(ask: Ask) -> None:
    assert ask("add-group", "group_id=3,type=select,bucket=output:1,bucket=output:2") == Answer("")
    assert ask("add-flow", "ip,nw_dst=10.0.0.9,actions=group:3") == Answer("")
    assert "group_id=3,type=select," in ask("dump-groups").text
    assert "actions=group:3" in ask("dump-flows").text


def test_ports_are_printed_with_what_their_counters_say(ask: Ask) -> None:
    lines = ask("dump-ports", "2").text.splitlines()
    assert "rx pkts=2, bytes=2000" in lines[1]
    assert "tx pkts=11, bytes=12, drop=13" in lines[2]
    assert "2(leaf0-eth2): addr:02:00:00:00:00:02" in ask("show").text


def test_what_the_switch_refuses_is_printed_by_its_openflow_name(ask: Ask) -> None:
    answer = ask("add-flow", "dl_vlan=5,actions=output:1")
    assert "OFPBMC_BAD_FIELD" in (answer.complaint or "")
    assert "OFPBAC_BAD_OUT_PORT" in (ask("add-flow", "priority=1,actions=output:77").complaint or "")
    assert ask("nonsense").complaint == "ovs-ofctl: unknown command 'nonsense'; use --help for help"


def test_somebody_who_talks_nonsense_disturbs_nobody_else(folder: Path, ask: Ask) -> None:
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as silent:
        for each in (stranger, silent):
            each.connect(str(ofctl.management_socket(folder, "leaf0")))
        stranger.sendall(b"\xff" * 100_000)
        assert ask("dump-flows").complaint is None


def test_an_order_is_carried_out_or_the_agent_says_why_not(folder: Path) -> None:
    ofctl.order(folder, "stop", "leaf0")
    with pytest.raises(ValueError, match="'start leaf7' is not for this test"):
        ofctl.order(folder, "start", "leaf7")


def test_a_switch_without_a_socket_is_said_to_be_stopped(tmp_path: Path) -> None:
    answer = ofctl.asked(tmp_path, "leaf1", ["dump-flows"])
    assert answer.complaint == "leaf1 is stopped: `switch leaf1 start` starts it"
