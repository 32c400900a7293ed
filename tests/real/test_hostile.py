"""The switch agent against controllers that ask too much, ask nonsense, break off, or are two."""

import struct
import tempfile
from contextlib import closing
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from tests.made_frames import Frame
from tests.made_rules import (
    DATAPATH,
    IPV4,
    PORTS,
    FlowChange,
    GroupBucket,
    GroupChange,
    Output,
    ToGroup,
    encoded,
)
from tests.real import lab
from tests.real.ends import Ends
from tests.real.inside import inside
from tests.real.sides import Side, cable_up, our_switch, star
from tests.real.speaker import Speaker

pytestmark = [pytest.mark.real, pytest.mark.untimed]

TABLE_SIZE, N_RULES = 65_536, 70_000
FIRST_ADDRESS = int(IPv4Address("10.1.0.0"))
LOW_PRIORITY, HIGH_PRIORITY = 10, 20


def rule_to(address: int, port: int, priority: int = LOW_PRIORITY) -> FlowChange:
    match = (("eth_type", IPV4), ("ipv4_dst", str(IPv4Address(address))))
    return FlowChange(ofp.OFPFC_ADD, match, priority, (Output(port),))


def frame_to(address: int) -> Frame:
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 20, 0, 0, 64, 89, 0, 1, address)
    return Frame(PORTS[0], b"\x02" * 6 + b"\x02\0\0\0\0\1\x08\0" + ip, str(IPv4Address(address)))


def comes_out(side: Side, *addresses: int) -> list[int]:
    """For each address the port where its packet comes out, 0 if nowhere."""
    frames = [frame_to(address) for address in addresses]
    side.ends.send(frames)
    came = side.ends.received(PORTS)
    return [next((port for port in PORTS if came[port][frame.octets]), 0) for frame in frames]


def errors(answers: list[Any]) -> list[tuple[int, int]]:
    return [(answer.type, answer.code) for answer in answers]


def n_active(speaker: Speaker) -> int:
    tables = speaker.ask(parser.OFPTableStatsRequest(DATAPATH, 0))
    return int(tables[0].active_count)


def overfilled() -> dict[str, Any]:
    """What becomes of 70,000 rules, sent at once, in a table of 65,536."""
    first = FIRST_ADDRESS
    octets = encoded(rule_to(first, PORTS[1]), 5)
    marker = IPv4Address(first).packed
    at = octets.index(marker)
    batch = b"".join(octets[:at] + (first + i).to_bytes(4, "big") + octets[at + 4 :] for i in range(N_RULES))
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        room = TABLE_SIZE - len(PORTS)
        speaker = switch.speaker
        speaker.send_reading(batch)
        found: dict[str, Any] = {"refused": sorted(set(errors(refused := speaker.barrier())))}
        found["n refused"] = len(refused) - (N_RULES - room)
        found["active"] = n_active(speaker)
        addresses = first, first + room - 1, first + room, first + N_RULES - 1
        found["first, last, first refused, last refused"] = comes_out(switch, *addresses)
        speaker.send(encoded(FlowChange(ofp.OFPFC_DELETE_STRICT, rule_to(first, 1).match, LOW_PRIORITY), 6))
        speaker.send(encoded(rule_to(first + N_RULES, PORTS[2]), 7))
        found["one deleted, one added"] = errors(speaker.barrier())
        found["those"] = comes_out(switch, first, first + N_RULES)
        found["replaced when full"] = errors(ask(speaker, rule_to(first + 1, PORTS[2])))
        found["that"] = comes_out(switch, first + 1)
        return found


def ask(speaker: Speaker, *changes: FlowChange | GroupChange) -> list[Any]:
    speaker.send(b"".join(encoded(change, n) for n, change in enumerate(changes)))
    return speaker.barrier()


def test_a_table_takes_65536_rules_and_refuses_each_one_more() -> None:
    full = [ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL]
    assert inside(overfilled, timeout_s=120) == {
        "refused": [full],
        "n refused": 0,
        "active": TABLE_SIZE,
        "first, last, first refused, last refused": [PORTS[1], PORTS[1], 0, 0],
        "one deleted, one added": [],
        "those": [0, PORTS[2]],
        "replaced when full": [],
        "that": [PORTS[2]],
    }


def nonsense() -> dict[str, Any]:
    """Requests about ports and groups that are not there, and groups that are wrong in a later bucket."""
    a, b = FIRST_ADDRESS, FIRST_ADDRESS + 1

    def group(command: int, *ports: int) -> GroupChange:
        buckets = tuple(GroupBucket((Output(port),), weight=1) for port in ports)
        return GroupChange(command, ofp.OFPGT_SELECT, 5, buckets)

    to_group = FlowChange(ofp.OFPFC_ADD, rule_to(a, 1).match, LOW_PRIORITY, (ToGroup(5),))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        speaker = switch.speaker
        found["rule to port 99"] = errors(ask(speaker, rule_to(b, 99)))
        found["rule to port 0"] = errors(ask(speaker, rule_to(b, 0)))
        found["group with port 99 in its second bucket"] = errors(
            ask(speaker, group(ofp.OFPGC_ADD, PORTS[1], 99))
        )
        found["rule to that group"] = errors(ask(speaker, to_group))
        found["a good group and a rule"] = errors(ask(speaker, group(ofp.OFPGC_ADD, PORTS[1]), to_group))
        found["that"] = comes_out(switch, a, b)
        found["changed to port 99"] = errors(ask(speaker, group(ofp.OFPGC_MODIFY, PORTS[2], 99)))
        found["still"] = comes_out(switch, a)
        found["active"] = n_active(speaker) - len(PORTS)
    return found


def test_a_refused_request_changes_nothing() -> None:
    bad_port = [ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT]
    assert inside(nonsense) == {
        "rule to port 99": [bad_port],
        "rule to port 0": [bad_port],
        "group with port 99 in its second bucket": [bad_port],
        "rule to that group": [[ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP]],
        "a good group and a rule": [],
        "that": [PORTS[1], 0],
        "changed to port 99": [bad_port],
        "still": [PORTS[1]],
        "active": 1,
    }


def broken_off() -> dict[str, Any]:
    """A controller that goes in the middle of a message, and comes back."""
    a, b = FIRST_ADDRESS, FIRST_ADDRESS + 1
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        speaker = switch.speaker
        whole, half = encoded(rule_to(a, PORTS[1]), 1), encoded(rule_to(b, PORTS[2]), 2)
        speaker.send(whole + half[:-1])
        speaker.hang_up()
        speaker.accept()  # the agent was there again: it has read all that came before the end
        found["the whole one, the half one"] = comes_out(switch, a, b)
        found["the last octet now"] = comes_after(speaker, half[-1:] + bytes(7))
        found["active"] = n_active(speaker) - len(PORTS)
        found["add again"] = errors(ask(speaker, rule_to(b, PORTS[2])))
        found["both"] = comes_out(switch, a, b)
    return found


def comes_after(speaker: Speaker, octets: bytes) -> str:
    """What the switch makes of octets that would have completed the old connection's message."""
    speaker.send(octets)
    try:
        speaker.barrier()
    except ConnectionError:
        speaker.accept()
        return "a new connection"
    return "an answer"


def test_a_controller_that_breaks_off_in_a_message_finds_all_before_it_when_it_returns() -> None:
    assert inside(broken_off) == {
        "the whole one, the half one": [PORTS[1], 0],
        "the last octet now": "a new connection",
        "active": 1,
        "add again": [],
        "both": [PORTS[1], PORTS[2]],
    }


def two_controllers() -> dict[str, Any]:
    """Both program one switch; one of them goes away."""
    a, b = FIRST_ADDRESS, FIRST_ADDRESS + 1
    second_port = lab.OPENFLOW_PORT + 10
    found: dict[str, Any] = {}
    cable_up("ours")
    with (
        tempfile.TemporaryDirectory(dir="/run") as folder,
        closing(Speaker(lab.OPENFLOW_PORT)) as one,
        closing(Speaker(second_port)) as two,
        lab.agent_started(star("ours"), Path(folder), "--controller", f"127.0.0.1:{second_port}") as agent,
    ):
        agent.await_line("attached")
        for speaker in (one, two):
            speaker.accept()
        switch = Side("ours", one, Ends("ours"), agent.process.pid, lambda: None)
        switch.markers(is_on=True)
        found["each adds one"] = [
            *errors(ask(one, rule_to(a, PORTS[1]))),
            *errors(ask(two, rule_to(b, PORTS[2]))),
        ]
        found["packets"] = comes_out(switch, a, b)
        found["what each sees"] = [n_active(speaker) - len(PORTS) for speaker in (one, two)]
        two.send(encoded(rule_to(a, PORTS[2], HIGH_PRIORITY), 1)[:-4])
        two.hang_up()
        found["the first is served"] = errors(one.barrier())
        found["after the second broke off"] = comes_out(switch, a, b)
        two.accept()
        found["the second is back"] = n_active(two) - len(PORTS)
        found["it runs"] = agent.process.poll()
    return found


def test_two_controllers_share_the_tables_and_neither_falls_with_the_other() -> None:
    assert inside(two_controllers) == {
        "each adds one": [],
        "packets": [PORTS[1], PORTS[2]],
        "what each sees": [2, 2],
        "the first is served": [],
        "after the second broke off": [PORTS[1], PORTS[2]],
        "the second is back": 2,
        "it runs": None,
    }
