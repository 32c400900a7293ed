"""One switch's connection to a controller on the loopback: what is read, answered, kept and dropped."""

import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from scapy.contrib import openflow3 as of3

from gradwire.emu.switch.server.connection import ControllerConnection
from gradwire.emu.switch.table.planeoperations import Operation, SetRule
from gradwire.planning.openflow.entries import Actions, Entry, Event, FlowGone, Gone, PacketIn, Why
from gradwire.planning.openflow.match import Match
from tests.openflow_talk import HELLO, Talk, dst, flow_mod, to_port

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
INTRODUCTION = HELLO + bytes(of3.OFPTFeaturesRequest())
PACKET = PacketIn(1, Why.NO_MATCH, 0, 60_000, bytes(60_000))
GONE = FlowGone(Entry(Match(), 1, Actions(), 0, 0, 0, 0), Gone.DELETED)
MEGABYTE = 1 << 20


@dataclass
class Ends:
    """Both ends, and what the switch's end has done."""

    connection: ControllerConnection
    controller: socket.socket
    operations: list[Operation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    unread: bytearray = field(default_factory=bytearray)

    def say(self, octets: bytes) -> bool:
        self.controller.sendall(octets)
        return self.connection.serve(READ)

    def read(self) -> list[int]:
        """The types of all messages that have come whole."""
        self.controller.settimeout(0.1)
        with suppress(TimeoutError):
            while more := self.controller.recv(1 << 20):
                self.unread += more
        kinds = []
        while len(self.unread) >= 8:
            _, kind, nbytes, _ = struct.unpack_from("!BBHI", self.unread)
            if len(self.unread) < nbytes:
                break
            kinds.append(kind)
            del self.unread[:nbytes]
        return kinds


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Connected; nothing said yet."""
    operations: list[Operation] = []
    events: list[Event] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        connection = ControllerConnection(
            address, Talk(is_greeted=False).session, operations.append, events.append, 0
        )
        assert connection.start()
        controller, _ = server.accept()
    with controller:
        assert connection.wants() == WRITE
        assert connection.serve(WRITE)
        yield Ends(connection, controller, operations, events)
        connection.close()


def test_the_switch_says_hello_first_and_then_answers(ends: Ends) -> None:
    assert ends.read() == [ofp.OFPT_HELLO]
    assert ends.connection.wants() == READ
    assert ends.say(INTRODUCTION)
    assert ends.read() == [ofp.OFPT_FEATURES_REPLY]


def test_operations_are_carried_out_once_their_message_is_whole(ends: Ends) -> None:
    octets = INTRODUCTION + bytes(flow_mod(dst("10.0.0.1"), [to_port(1)]))
    assert ends.say(octets[:-1])
    assert ends.operations == []
    assert ends.say(octets[-1:])
    assert [type(each) for each in ends.operations][-1] is SetRule


def test_a_packet_out_to_the_controller_is_told_to_all_connections(ends: Ends) -> None:
    action = struct.pack("!HHIH6x", 0, 16, ofp.OFPP_CONTROLLER, 0xFFFF)
    body = struct.pack("!IIH6x", ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, len(action)) + action + bytes(60)
    assert ends.say(INTRODUCTION + struct.pack("!BBHI", 4, ofp.OFPT_PACKET_OUT, 8 + len(body), 1) + body)
    assert [type(each) for each in ends.events] == [PacketIn]


def test_a_controller_that_closes_ends_the_connection(ends: Ends) -> None:
    ends.controller.close()
    assert not ends.connection.serve(READ)


def test_a_controller_of_another_version_is_told_and_then_left(ends: Ends) -> None:
    ends.read()
    assert not ends.say(bytes.fromhex("0100000800000001"))
    assert ends.read() == [ofp.OFPT_ERROR]


def test_a_controller_that_reads_too_slowly_loses_packets_and_the_log_says_so_once(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    ends.say(INTRODUCTION)
    assert all(ends.connection.hear(PACKET) for _ in range(MEGABYTE // len(PACKET.frame)))
    assert capsys.readouterr().err == ""
    assert all(ends.connection.hear(PACKET) for _ in range(1000))  # 60 MB would be hopeless
    host, port = ends.connection.address
    assert capsys.readouterr().err == (
        f"switch agent: {host}:{port} reads too slowly: packets for it are dropped\n"
    )


@pytest.mark.long
def test_what_a_controller_must_hear_is_kept_until_there_is_no_hope(ends: Ends) -> None:
    """16 MiB are kept of what is not a packet; a FLOW_REMOVED without match fields has 56 bytes."""
    ends.say(INTRODUCTION)
    n_kept = 0
    while ends.connection.hear(GONE):
        n_kept += 1
    assert n_kept == pytest.approx(16 * MEGABYTE / 56, rel=0.01)


def test_answers_of_any_size_are_sent_to_the_last_and_nothing_is_read_meanwhile(ends: Ends) -> None:
    """Some 290 times 18 kB: more than is kept unsent, even if the kernel takes all that it is given."""
    rules = b"".join(bytes(flow_mod(dst(f"10.0.0.{n}"), [to_port(1)])) for n in range(100))
    ends.say(INTRODUCTION + rules)
    ends.say(bytes(of3.OFPMPRequestFlow()) * 290)  # less than what is read at once
    kinds = []
    while ends.connection.wants() != READ:
        assert ends.connection.wants() == WRITE
        kinds += ends.read()
        ends.connection.serve(WRITE)
    kinds += ends.read()
    assert kinds.count(ofp.OFPT_MULTIPART_REPLY) == 290
