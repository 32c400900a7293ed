"""Frames of every kind through our switch, whole: tagged, ARP, long, to several ports, to a controller."""

import os
import signal
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether

from gradwire.planning.fabrics.fabric import interface
from tests.made_frames import Frame
from tests.made_rules import (
    DATAPATH,
    PORTS,
    Action,
    Fields,
    FlowChange,
    GroupBucket,
    GroupChange,
    Output,
    ToGroup,
    encoded,
    serialized,
)
from tests.real import lab
from tests.real.inside import inside
from tests.real.sides import Side, our_switch
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]

A, B, ALL = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"
IPV4: Fields = (("eth_type", 0x0800),)
TO_B: Fields = (*IPV4, ("ipv4_dst", "10.0.0.2"))
DATAGRAM = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / bytes(40)
WHO_HAS = ARP(psrc="10.0.0.1", pdst="10.0.0.2", hwsrc=A)
FLOOD, EVERYWHERE, IN_PORT = Output(ofp.OFPP_FLOOD), Output(ofp.OFPP_ALL), Output(ofp.OFPP_IN_PORT)
CONTROLLER = Output(ofp.OFPP_CONTROLLER)


def rule(match: Fields, priority: int, *actions: Action, cookie: int = 0) -> FlowChange:
    return FlowChange(ofp.OFPFC_ADD, match, priority, actions, cookie=cookie)


def instruct(switch: Side, *changes: FlowChange | GroupChange) -> None:
    switch.speaker.send(b"".join(encoded(change, n) for n, change in enumerate(changes)))
    assert switch.speaker.barrier() == []


def outcome(switch: Side, frames: Iterable[Any], in_port: int = 1) -> list[list[int]]:
    """The ports that each frame comes out of, -1 for each that it comes out of changed."""
    found = []
    for frame in frames:
        switch.ends.drop()
        switch.ends.send([Frame(in_port, bytes(frame), "")])
        came = switch.ends.received(PORTS)
        ports = [port if octets == bytes(frame) else -1 for port in PORTS for octets in came[port].elements()]
        found.append(ports)
    return found


def packet_out(switch: Side, action: Action, frame: bytes, in_port: int = 1) -> None:
    chosen = (
        parser.OFPActionOutput(action.port)
        if isinstance(action, Output)
        else parser.OFPActionGroup(action.number)
    )
    message = parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, in_port, [chosen], frame)
    switch.speaker.send(serialized(message, 3))


def tagged() -> dict[str, Any]:
    found: dict[str, Any] = {}
    plain, tag, inner_arp, twice = (
        Ether(src=A, dst=B) / DATAGRAM,
        Ether(src=A, dst=B) / Dot1Q(vlan=5, prio=3) / DATAGRAM,
        Ether(src=A, dst=ALL) / Dot1Q(vlan=5) / WHO_HAS,
        Ether(src=A, dst=B, type=0x88A8) / Dot1Q(vlan=7) / Dot1Q(vlan=5) / DATAGRAM,
    )
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        instruct(switch, rule(TO_B, 9, Output(2)), rule((("eth_type", 0x0806),), 9, Output(3)))
        instruct(switch, rule((), 0, Output(7)))
        found["in"] = outcome(switch, (plain, tag, inner_arp, twice))
        for name, action in (("table", Output(ofp.OFPP_TABLE)), ("group", ToGroup(4))):
            instruct(switch, GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_ALL, 4, (GroupBucket((Output(2),)),)))
            found[name] = []
            for frame in (plain, tag, inner_arp, twice):
                switch.ends.drop()
                packet_out(switch, action, bytes(frame))
                switch.speaker.barrier()
                came = switch.ends.received(PORTS)
                found[name].append(
                    [port if octets == bytes(frame) else -1 for port in PORTS for octets in came[port]]
                )
            instruct(switch, GroupChange(ofp.OFPGC_DELETE, ofp.OFPGT_ALL, 4))
    return found


def test_a_tagged_frame_meets_the_rules_of_what_is_behind_its_tag_and_keeps_the_tag() -> None:
    """OpenFlow 1.3.5, 7.2.3.7: eth_type is that after the VLAN tag, and without vlan_vid any tag matches."""
    assert inside(tagged) == {
        "in": [[2], [2], [3], [7]],
        "table": [[2], [2], [3], [7]],
        "group": [[2], [2], [2], [2]],
    }


def ethernet() -> dict[str, Any]:
    """The forms on Ethernet's fields, the most specific with the lowest priority to the highest."""
    request, reply = Ether(src=A, dst=ALL) / WHO_HAS, Ether(src=B, dst=A) / ARP(op=2, hwsrc=B)
    odd = Ether(src=A, dst=B, type=0x88B5) / bytes(46)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        instruct(
            switch,
            rule((("in_port", 1), ("eth_src", A), ("eth_dst", B)), 1, Output(2)),
            rule((("in_port", 1), ("eth_dst", A)), 2, Output(3)),
            rule((("eth_dst", ALL),), 3, FLOOD),
            rule((), 0, Output(7)),
        )
        found["request, reply, other"] = outcome(switch, (request, reply, odd))
        found["from another port"] = outcome(switch, (request, reply, odd), in_port=2)
        instruct(switch, rule((("eth_type", 0x0806),), 4, Output(7)))
        found["ARP by its type"] = outcome(switch, (request, reply, odd))
    return found


def test_arp_goes_by_the_forms_on_ethernets_fields() -> None:
    assert inside(ethernet) == {
        "request, reply, other": [[2, 3, 7], [3], [2]],
        "from another port": [[1, 3, 7], [7], [7]],
        "ARP by its type": [[7], [7], [2]],
    }


def several() -> dict[str, Any]:
    frame = Ether(src=A, dst=B) / DATAGRAM
    found: dict[str, Any] = {}
    lists: dict[str, tuple[Action, ...]] = {
        "2 and 3": (Output(2), Output(3)),
        "2 twice": (Output(2), Output(2)),
        "1, where it came in, and 3": (Output(1), Output(3)),
        "back, and 3": (IN_PORT, Output(3)),
        "flood": (FLOOD,),
        "all": (EVERYWHERE,),
        "all, and back": (EVERYWHERE, IN_PORT),
        "nowhere": (),
        "a group of all": (ToGroup(1),),
        "a group without buckets": (ToGroup(2),),
    }
    buckets = tuple(GroupBucket((Output(port),)) for port in (1, 2, 7))
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        switch.markers(is_on=True)
        instruct(switch, GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_ALL, 1, buckets))
        instruct(switch, GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_ALL, 2))
        for name, actions in lists.items():
            instruct(switch, rule(TO_B, 9, *actions))
            (found[name],) = outcome(switch, [frame])
    return found


def test_a_list_of_outputs_sends_a_copy_to_each_and_none_back_unless_by_name() -> None:
    """OpenFlow 1.3.5, 4.5: only IN_PORT sends out of the port that the packet came in through."""
    assert inside(several) == {
        "2 and 3": [2, 3],
        "2 twice": [2, 2],
        "1, where it came in, and 3": [3],
        "back, and 3": [1, 3],
        "flood": [2, 3, 7],
        "all": [2, 3, 7],
        "all, and back": [1, 2, 3, 7],
        "nowhere": [],
        "a group of all": [2, 7],
        "a group without buckets": [],
    }


SIZES = (60, 256, 257, 1514, 2048, 2049, 9014, 65472)
MOST_IN_A_MESSAGE = 65472  # and what is left of OpenFlow's 65,535 is its own


def long_frames() -> list[list[int]]:
    """[bytes said, bytes that came and are right] of each frame that went to the controller."""
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        for name in (interface("ours", 1), "ours1"):
            lab.run("ip", "link", "set", name, "mtu", "65535")
        switch.markers(is_on=True)
        instruct(switch, rule(IPV4, 5, CONTROLLER, cookie=3))
        found = []
        for nbytes in (*SIZES, 65549):
            head = bytes(
                Ether(src=A, dst=B) / IP(src="10.0.0.1", dst="10.0.0.2", proto=253, len=nbytes % 65536)
            )
            frame = head + bytes(n % 251 for n in range(nbytes - len(head)))
            switch.ends.send([Frame(1, frame, "")])
            switch.ends.received(PORTS)
            deadline_s = time.monotonic() + PATIENCE_S
            while not switch.speaker.unasked and time.monotonic() < deadline_s:
                switch.speaker.barrier()
            message = switch.speaker.unasked.pop()
            is_right = message.data == frame[: len(message.data)]
            found.append([message.total_len, len(message.data) if is_right else -1])
    return found


def test_a_frame_to_a_controller_is_whole_however_long() -> None:
    whole = [[nbytes, nbytes] for nbytes in SIZES]
    assert inside(long_frames) == [*whole, [65535, MOST_IN_A_MESSAGE]]


def slow_port() -> dict[str, Any]:
    """A thousand packets for a port of 100 kb/s, two minutes of its time, then one for another port."""
    frame = bytes(Ether(src=A, dst=B) / IP(proto=253) / bytes(1480))
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        near = interface("ours", 2)
        lab.run(
            "tc", "class", "change", "dev", near, "classid", "1:1", "htb", "rate", "100kbit", "burst", "15k"
        )
        for _ in range(1000):
            packet_out(switch, Output(2), frame)
        packet_out(switch, Output(3), frame)
        start_s = time.monotonic()
        switch.speaker.barrier()
        passed_s = time.monotonic() - start_s
        came = 0
        while time.monotonic() < start_s + PATIENCE_S and not came:
            came = sum(1 for port, octets in switch.ends._drained() if port == 3 and octets == frame)
        return {"passed_s": passed_s, "other port": came}


def test_packets_out_of_a_slow_port_hold_up_neither_the_switch_nor_another_port() -> None:
    found = inside(slow_port)
    assert found["passed_s"] < PATIENCE_S
    assert found["other port"] == 1


N_TOLD = 300


def overrun() -> dict[str, Any]:
    """Packets for the controller while the agent is stopped; the ring to it has room for a part of them."""
    frame = bytes(Ether(src=A, dst=B) / DATAGRAM / bytes(1500))
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        for name in (interface("ours", 1), "ours1"):
            lab.run("ip", "link", "set", name, "mtu", "9000")
        instruct(switch, rule((), 0, CONTROLLER))
        os.kill(switch.pid, signal.SIGSTOP)
        switch.ends.send([Frame(1, frame + bytes(1000), "")] * N_TOLD)
        time.sleep(0.5)
        os.kill(switch.pid, signal.SIGCONT)
        (port,) = switch.speaker.ask(parser.OFPPortStatsRequest(DATAPATH, 0, 1))
        messages = switch.speaker.unasked
        deadline_s = time.monotonic() + PATIENCE_S
        while len(messages) + port.rx_over_err < N_TOLD and time.monotonic() < deadline_s:
            switch.speaker.barrier()
        numbers = [len(messages), port.rx_over_err, port.rx_errors, port.rx_dropped]
        return {
            "received, lost": numbers,
            "whole": all(each.data == frame + bytes(1000) for each in messages),
        }


def test_packets_that_did_not_reach_the_controller_are_counted_as_the_ports_overruns() -> None:
    found = inside(overrun)
    n_messages, n_over, n_errors, n_dropped = found["received, lost"]
    assert n_over > 0
    assert n_messages + n_over == N_TOLD
    assert n_errors == n_dropped == n_over
    assert found["whole"]
