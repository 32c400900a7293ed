"""The switch's program in the kernel, packet by packet, against the published hash and closed forms."""

from random import Random
from typing import Any

import pytest

from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch.plane.bpf import BpfObject
from gradwire.emu.switch.plane.maps import Maps, PortState
from gradwire.emu.switch.table.planeoperations import Operation, RemoveRule, SetGroup, SetRule
from gradwire.planning.flowhash import flow_hash, switch_salt
from gradwire.planning.openflow.entries import GroupBucket, GroupKind, Output, SwitchGroup, ToGroup
from gradwire.planning.openflow.match import Match
from tests.real.bpf_test_run import REDIRECT, SHOT, Packet, run_program
from tests.real.inside import inside

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SALT = switch_salt(dpid=7, seed=3)
BACK, ELSEWHERE = 1, 2  # ports: out where it came in is a drop, anywhere else is a redirect
IFINDEX = {BACK: 1, ELSEWHERE: 2}
A, B = 0x0A000001, 0x0A000002


class Switch:
    """One switch with its rules in the kernel; packets come in through the loopback."""

    def __init__(self, loaded: BpfObject, *operations: Operation) -> None:
        self.loaded = loaded
        self.maps = Maps(loaded)
        self.maps.set_port(1, PortState(switch_index=0, number=1, salt=SALT, counter=0, is_live=True))
        self.obey(*operations)

    def obey(self, *operations: Operation) -> None:
        for operation in operations:
            self.maps.apply(0, IFINDEX, operation)

    def passes(self, packet: Packet) -> bool:
        returned = run_program(self.loaded, packet.octets())
        assert returned in (REDIRECT, SHOT)
        return returned == REDIRECT


def rule(match: Match, priority: int, port: int, flow: int = 0) -> SetRule:
    return SetRule(match, priority, (Output(port),), flow)


def wrong_slots() -> list[Any]:
    """Packets whose group slot is not what planning.flowhash says.  Only the predicted slot lets pass."""
    random, wrong = Random(1), []
    with BpfObject(SWITCH_OBJECT) as loaded:
        switch = Switch(loaded, SetRule(Match(), 0, (ToGroup(5),), 0))
        for number in range(600):
            proto, n_slots = random.choice([6, 17, 1]), random.choice([2, 3, 64])
            fragment = random.choice([0, 0, 0, 185])
            ports = random.randrange(1 << 16), random.randrange(1 << 16)
            packet = Packet(random.getrandbits(32), random.getrandbits(32), proto, *ports, fragment=fragment)
            counted = ports if proto != 1 and not fragment else (0, 0)
            slot = flow_hash(packet.src, packet.dst, proto, *counted, SALT) % n_slots
            buckets = [GroupBucket((Output(BACK),), 1)] * n_slots
            buckets[slot] = GroupBucket((Output(ELSEWHERE),), 1)
            group = SwitchGroup(GroupKind.SELECT, tuple(buckets))
            switch.obey(SetGroup(5, group, 0, tuple(range(n_slots))))
            if not switch.passes(packet):
                wrong.append([number, repr(packet)])
    return wrong


def test_the_program_chooses_the_slot_that_the_published_hash_names() -> None:
    assert inside(wrong_slots) == []


def priorities() -> dict[str, bool]:
    packet = Packet(A, B, 6, 10, 20)
    five, pair, dst, any_ = (
        Match(0x800, A, B, 6, 10, 20),
        Match(0x800, A, B),
        Match(0x800, None, B),
        Match(),
    )
    found = {}
    with BpfObject(SWITCH_OBJECT) as loaded:
        switch = Switch(loaded)
        found["nothing matches"] = switch.passes(packet)
        forms = (any_, dst, pair, five)
        for number, match in enumerate(forms):  # each form alone at the top, all others against it
            for other in forms:
                switch.obey(rule(other, 10, BACK))
            switch.obey(rule(match, 11, ELSEWHERE))
            found[f"form {number}"] = switch.passes(packet)
        switch.obey(rule(five, 11, BACK), *(rule(match, 11, ELSEWHERE) for match in (any_, dst, pair)))
        found["equal priorities: the 5-tuple's"] = switch.passes(packet)
        switch.obey(SetRule(any_, 20, (), 0))
        found["a rule without an action"] = switch.passes(packet)
        switch.obey(rule(any_, 20, ELSEWHERE))
        found["other ports"] = switch.passes(Packet(A, B, 6, 11, 20))
        found["UDP"] = switch.passes(Packet(A, B, 17, 10, 20))
    return found


def test_the_highest_priority_wins_whatever_the_form() -> None:
    assert inside(priorities) == {
        "nothing matches": False,
        "form 0": True,
        "form 1": True,
        "form 2": True,
        "form 3": True,
        "equal priorities: the 5-tuple's": False,
        "a rule without an action": False,
        "other ports": True,
        "UDP": True,
    }


DATAGRAM = Packet(A, B, 17, 10, 20)
FORMS = {  # DATAGRAM, which comes in at port 1 and has addresses 0 on Ethernet, matches each
    "everything": Match(),
    "eth_type": Match(0x800),
    "eth_dst": Match(eth_dst=0),
    "in_port, eth_dst": Match(in_port=1, eth_dst=0),
    "in_port, eth_src, eth_dst": Match(in_port=1, eth_src=0, eth_dst=0),
    "udp_dst": Match(0x800, ip_proto=17, dport=20),
    "in_port, udp_dst": Match(0x800, ip_proto=17, dport=20, in_port=1),
    "ipv4_dst": Match(0x800, None, B),
    "ipv4_src, ipv4_dst": Match(0x800, A, B),
    "5-tuple": Match(0x800, A, B, 17, 10, 20),
}


def passes_with(switch: Switch, there: list[Match], back: list[Match], priorities: tuple[int, int]) -> bool:
    """Whether DATAGRAM leaves with these rules, and no others, at these priorities."""
    rules = [rule(match, priorities[0], ELSEWHERE) for match in there]
    rules += [rule(match, priorities[1], BACK) for match in back]
    switch.obey(*rules)
    passes = switch.passes(DATAGRAM)
    switch.obey(*(RemoveRule(each.match) for each in rules))
    return passes


def all_forms() -> dict[str, list[str]]:
    """The forms that fail alone, above all others and beneath all others; and pairs out of their order."""
    matches = list(FORMS.values())
    found: dict[str, list[str]] = {"alone": [], "above": [], "beneath": [], "order": []}
    with BpfObject(SWITCH_OBJECT) as loaded:
        switch = Switch(loaded)
        for number, (name, match) in enumerate(FORMS.items()):
            others = [other for other in matches if other is not match]
            if not passes_with(switch, [match], [], (1, 0)):
                found["alone"].append(name)
            if not passes_with(switch, [match], others, (1, 0)):
                found["above"].append(name)
            if passes_with(switch, [match], others, (0, 1)):
                found["beneath"].append(name)
            found["order"] += [
                f"{name} against number {other}"
                for other in range(len(matches))
                if other != number
                and passes_with(switch, [match], [matches[other]], (5, 5)) != (number > other)
            ]
        assert not switch.passes(DATAGRAM), "a rule was left"
    return found


def test_all_ten_forms_are_found_and_among_equal_priorities_the_later_one_wins() -> None:
    assert inside(all_forms) == {"alone": [], "above": [], "beneath": [], "order": []}


def counted(packets: list[list[Any]]) -> list[Any]:
    """[flow packets, flow bytes, port's packets, bytes, missed, dropped] after these packets."""
    with BpfObject(SWITCH_OBJECT) as loaded:
        switch = Switch(loaded, rule(Match(0x800, None, B), 10, ELSEWHERE, flow=77))
        for fields, gso_size, gso_segs in packets:
            run_program(loaded, Packet(**fields).octets(), gso_size, gso_segs)
        received = switch.maps.received(0)
        port = [received.packets, received.nbytes, received.missed_packets, received.dropped_packets]
        return [*switch.maps.flow_counts(77), *port]


def all_counted(cases: list[list[list[Any]]]) -> list[Any]:
    return [counted(packets) for packets in cases]


BASE = {"src": A, "dst": B, "proto": 6, "sport": 1, "dport": 2}
UDP = {**BASE, "proto": 17}


def test_packets_and_bytes_are_those_of_the_wire() -> None:
    """A super-segment counts as its segments, each with Ethernet, IP and TCP headers of its own."""
    whole = {
        "one": ([[{**BASE, "payload_nbytes": 100}, 0, 0]], 1, 54 + 100),
        "three": ([[{**BASE, "payload_nbytes": 100}, 0, 0]] * 3, 3, 3 * (54 + 100)),
        "TSO": ([[{**BASE, "payload_nbytes": 2500}, 1000, 3]], 3, 2500 + 3 * 54),
        "TSO, all full": ([[{**BASE, "payload_nbytes": 2000}, 1000, 2]], 2, 2000 + 2 * 54),
        "TSO, options": (
            [[{**BASE, "payload_nbytes": 2001, "options_nbytes": 12}, 1000, 3]],
            3,
            2001 + 3 * 66,
        ),
        "UDP segmentation": ([[{**UDP, "payload_nbytes": 2500}, 1000, 3]], 3, 2500 + 3 * 42),
    }
    found = inside(all_counted, [packets for packets, _, _ in whole.values()])
    expected = {name: [n, nbytes, n, nbytes, 0, 0] for name, (_, n, nbytes) in whole.items()}
    assert dict(zip(whole, found, strict=True)) == expected


def test_a_packet_that_nothing_matches_is_missed_and_dropped() -> None:
    assert inside(counted, [[{**BASE, "dst": A}, 0, 0]]) == [0, 0, 1, 54, 1, 1]


def not_ipv4() -> list[bool]:
    arp = bytes(12) + b"\x08\x06" + bytes(46)
    whole = Packet(A, 0, 6, 1, 2).octets()
    lying = whole[:14] + b"\x44" + whole[15:]  # a header of 16 bytes, which IPv4 has not
    with BpfObject(SWITCH_OBJECT) as loaded:
        switch = Switch(loaded, rule(Match(0x800, None, 0), 10, ELSEWHERE))
        before = [run_program(loaded, octets) == REDIRECT for octets in (arp, lying)]
        switch.obey(rule(Match(), 0, ELSEWHERE))
        return before + [run_program(loaded, octets) == REDIRECT for octets in (arp, lying)]


def test_what_is_no_ipv4_meets_only_the_rule_that_matches_everything() -> None:
    assert inside(not_ipv4) == [False, False, True, True]
