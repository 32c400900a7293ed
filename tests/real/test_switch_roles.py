"""Two controllers of one switch on real cables: who may change it, and who hears of what."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser
from scapy.layers.l2 import ARP, Ether

from tests.made_frames import Frame
from tests.made_rules import DATAPATH, PORTS, FlowChange, Output, encoded, serialized
from tests.real import lab
from tests.real.ends import Ends
from tests.real.inside import inside
from tests.real.sides import Side, cable_up, star
from tests.real.speaker import Speaker

pytestmark = pytest.mark.real

SECOND_PORT = lab.OPENFLOW_PORT + 10
MASTER, SLAVE = ofp.OFPCR_ROLE_MASTER, ofp.OFPCR_ROLE_SLAVE
KINDS = {ofp.OFPT_PACKET_IN: "packet", ofp.OFPT_FLOW_REMOVED: "flow gone", ofp.OFPT_PORT_STATUS: "port"}
STATES = {0: ofp.OFPPS_LIVE, ofp.OFPPC_PORT_DOWN: ofp.OFPPS_LINK_DOWN}  # of a port, by its config
FRAME = bytes(Ether(src="02:00:00:00:00:0a", dst="ff:ff:ff:ff:ff:ff") / ARP()) + bytes(18)
TO_CONTROLLER = FlowChange(ofp.OFPFC_ADD, (), 0, (Output(ofp.OFPP_CONTROLLER),), cookie=5)
PASSING = FlowChange(ofp.OFPFC_ADD, (("eth_type", 0x88B5),), 3, (), flags=ofp.OFPFF_SEND_FLOW_REM)


@contextmanager
def two_controllers() -> Iterator[tuple[Side, Speaker]]:
    """The switch with its first controller, and the second one."""
    cable_up("ours")
    second = f"127.0.0.1:{SECOND_PORT}"
    with (
        tempfile.TemporaryDirectory(dir="/run") as folder,
        closing(Speaker(lab.OPENFLOW_PORT)) as one,
        closing(Speaker(SECOND_PORT)) as two,
        lab.agent_started(star("ours"), Path(folder), "--controller", second) as agent,
    ):
        agent.await_line("attached")
        one.accept()
        two.accept()
        yield Side("ours", one, Ends("ours"), agent.process.pid, lambda: None), two


def asked(speaker: Speaker, *requests: bytes) -> list[Any]:
    """The answers: [type, code] of an error, [role] of a role."""
    speaker.send(b"".join(requests))
    return [
        [answer.role] if answer.msg_type == ofp.OFPT_ROLE_REPLY else [answer.type, answer.code]
        for answer in speaker.barrier()
    ]


def role(chosen: int, generation: int = 0) -> bytes:
    return serialized(parser.OFPRoleRequest(DATAPATH, chosen, generation), 1)


def port_mod(speaker: Speaker, port: int, config: int) -> bytes:
    described = speaker.ask(parser.OFPPortDescStatsRequest(DATAPATH, 0))
    (mac,) = [each.hw_addr for each in described if each.port_no == port]
    return serialized(parser.OFPPortMod(DATAPATH, port, mac, config, ofp.OFPPC_PORT_DOWN, 0), 1)


def heard(speaker: Speaker, n: int = 1) -> list[str]:
    """The messages that come unasked: at least `n` messages, or all that come in 2 s; each kind once."""
    return heard_until(speaker, lambda messages: len(messages) >= n)


def heard_of_port(speaker: Speaker, config: int) -> list[str]:
    """A port that is put down or up may be reported twice: again when its carrier has changed."""
    return heard_until(
        speaker,
        lambda messages: (
            [m.desc.state for m in messages if KINDS[m.msg_type] == "port"][-1:] == [STATES[config]]
        ),
    )


def heard_until(speaker: Speaker, is_all: Callable[[list[Any]], bool]) -> list[str]:
    deadline_s = time.monotonic() + 2
    while not is_all(speaker.unasked) and time.monotonic() < deadline_s:
        speaker.barrier()
    kinds = {KINDS[message.msg_type] for message in speaker.unasked}
    speaker.unasked.clear()
    return sorted(kinds)


def events(switch: Side, two: Speaker, changer: Speaker) -> list[list[str]]:
    """What each controller hears of a packet, a flow that ends and a port that goes down and up."""
    switch.ends.send([Frame(1, FRAME, "")])
    seen = [heard(switch.speaker), heard(two, 0 if changer is switch.speaker else 1)]
    assert asked(changer, encoded(PASSING, 1)) == []
    delete = FlowChange(ofp.OFPFC_DELETE, PASSING.match, 0, instruction=None)
    assert asked(changer, encoded(delete, 1)) == []
    seen += [heard(switch.speaker), heard(two, 0)]
    for config in (ofp.OFPPC_PORT_DOWN, 0):
        assert asked(changer, port_mod(changer, 7, config)) == []
        seen += [heard_of_port(switch.speaker, config), heard_of_port(two, config)]
    return seen


def standings() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with two_controllers() as (switch, two):
        one = switch.speaker
        found["equals may both"] = [
            *asked(one, encoded(TO_CONTROLLER, 1)),
            *asked(two, encoded(TO_CONTROLLER, 1)),
        ]
        switch.ends.send([Frame(1, FRAME, "")])
        found["equals both hear"] = [heard(one), heard(two)]
        found["roles"] = [*asked(one, role(MASTER, 1)), *asked(two, role(SLAVE, 1))]
        found["a slave may not"] = asked(
            two,
            encoded(TO_CONTROLLER, 1),
            port_mod(two, 2, ofp.OFPPC_PORT_DOWN),
            serialized(parser.OFPTableMod(DATAPATH, 0, 0), 1),
            serialized(parser.OFPGroupMod(DATAPATH, ofp.OFPGC_ADD, ofp.OFPGT_ALL, 1, []), 1),
            serialized(
                parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, [parser.OFPActionOutput(2)], FRAME), 1
            ),
        )
        found["a slave may read"] = len(two.ask(parser.OFPFlowStatsRequest(DATAPATH)))
        found["heard by master and slave"] = events(switch, two, one)
        wanted = serialized(parser.OFPSetAsync(DATAPATH, [3, 3], [7, 0], [15, 15]), 1)
        found["a slave asks for packets, not for ports"] = asked(two, wanted)
        switch.ends.send([Frame(1, FRAME, "")])
        found["and hears of packets"] = [heard(one), heard(two)]
        assert asked(one, port_mod(one, 7, ofp.OFPPC_PORT_DOWN)) == []
        found["and not of ports"] = [heard_of_port(one, ofp.OFPPC_PORT_DOWN), heard(two, 0)]
        found["roles change"] = [*asked(two, role(MASTER, 2)), *asked(one, role(ofp.OFPCR_ROLE_NOCHANGE))]
        found["stale"] = asked(one, role(MASTER, 1))
        found["the old master may not"] = asked(one, encoded(TO_CONTROLLER, 1))
    return found


def test_a_slave_reads_and_hears_of_ports_and_a_master_does_everything() -> None:
    is_slave = [ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE]
    assert inside(standings) == {
        "equals may both": [],
        "equals both hear": [["packet"], ["packet"]],
        "roles": [[MASTER], [SLAVE]],
        "a slave may not": [is_slave] * 5,
        "a slave may read": 1,
        "heard by master and slave": [
            *(["packet"], []),
            *(["flow gone"], []),
            *(["port"], ["port"]),
            *(["port"], ["port"]),
        ],
        "a slave asks for packets, not for ports": [],
        "and hears of packets": [["packet"], ["packet"]],
        "and not of ports": [["port"], []],
        "roles change": [[MASTER], [SLAVE]],
        "stale": [[ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE]],
        "the old master may not": [is_slave],
    }


def port_taken_down() -> dict[str, Any]:
    """What passes port 2, out and in, with the port taken down and up again."""
    found: dict[str, Any] = {"states": [], "out": [], "in": []}
    with two_controllers() as (switch, _):
        speaker = switch.speaker
        for in_port, out_port in ((1, 2), (2, 3)):
            match = (("in_port", in_port), ("eth_dst", "ff:ff:ff:ff:ff:ff"))
            assert asked(speaker, encoded(FlowChange(ofp.OFPFC_ADD, match, 3, (Output(out_port),)), 1)) == []
        switch.markers(is_on=True)
        for config in (0, ofp.OFPPC_PORT_DOWN, 0):
            speaker.unasked.clear()
            assert asked(speaker, port_mod(speaker, 2, config)) == []
            settled(speaker, config)
            described = speaker.ask(parser.OFPPortDescStatsRequest(DATAPATH, 0))
            found["states"] += [[each.config, each.state] for each in described if each.port_no == 2]
            live = [port for port in PORTS if port != 2 or not config]
            for name, in_port, out_port in (("out", 1, 2), ("in", 2, 3)):
                if in_port in live:
                    switch.ends.send([Frame(in_port, FRAME, "")])
                found[name].append(switch.ends.received(live)[out_port][FRAME])
        found["unasked"] = sorted({message.desc.port_no for message in speaker.unasked})
    return found


def settled(speaker: Speaker, config: int) -> None:
    """Wait until the port has the state that was asked for."""
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        described = speaker.ask(parser.OFPPortDescStatsRequest(DATAPATH, 0))
        if [each.state for each in described if each.port_no == 2] == [STATES[config]]:
            return
    raise AssertionError("the port has not changed")


def test_a_port_that_is_taken_down_passes_nothing_until_it_is_taken_up() -> None:
    assert inside(port_taken_down) == {
        "states": [[0, ofp.OFPPS_LIVE], [ofp.OFPPC_PORT_DOWN, ofp.OFPPS_LINK_DOWN], [0, ofp.OFPPS_LIVE]],
        "out": [1, 0, 1],
        "in": [1, 0, 1],
        "unasked": [2],
    }


def idle_entry() -> list[Any]:
    """Why an entry ended that had packets for a second and a half, then none; how long it was idle."""
    timed = parser.OFPFlowMod(
        DATAPATH,
        idle_timeout=1,
        priority=3,
        flags=ofp.OFPFF_SEND_FLOW_REM,
        match=parser.OFPMatch(eth_type=0x0806),
    )
    with two_controllers() as (switch, _):
        assert asked(switch.speaker, serialized(timed, 1)) == []
        start_s = time.monotonic()
        while time.monotonic() < start_s + 1.5:
            switch.ends.send([Frame(1, FRAME, "")])
            last_s = time.monotonic() - start_s
            time.sleep(0.05)
        time.sleep(2)  # without a word: nothing else may wake the agent
        switch.speaker.barrier()
        (gone,) = switch.speaker.unasked
        lived_s = gone.duration_sec + gone.duration_nsec / 1e9
        return [gone.reason, lived_s - last_s, gone.packet_count > 20]


def test_an_idle_entry_ends_a_second_after_its_last_packet() -> None:
    reason, idle_s, has_counted = inside(idle_entry)
    assert reason == ofp.OFPRR_IDLE_TIMEOUT
    assert 0.7 < idle_s < 1.9  # it is looked at four times a second
    assert has_counted
