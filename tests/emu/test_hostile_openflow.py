"""Hostile bytes for the switch's and the controller's end of an OpenFlow connection, without root."""

import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.emu.switch.table.planeoperations import RemoveGroup, SetGroup
from gradwire.planning.openflow.extension import COUNTS_TYPE, EXPERIMENTER
from tests.controller.test_controller_process import SPEC, Controller, connect, running, switches
from tests.made_rules import DATAPATH, additions, deletions, encoded, group_changes, modifications, serialized
from tests.openflow_talk import HELLO, Talk

BARRIER = serialized(parser.OFPBarrierRequest(DATAPATH), 7)
QUESTIONS = tuple(
    serialized(request, 9)
    for request in (
        parser.OFPFlowStatsRequest(DATAPATH),
        parser.OFPAggregateStatsRequest(DATAPATH, 0, 0, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch()),
        parser.OFPGroupStatsRequest(DATAPATH, 0, ofp.OFPG_ALL),
        parser.OFPGroupDescStatsRequest(DATAPATH, 0),
        parser.OFPPortStatsRequest(DATAPATH, 0, ofp.OFPP_ANY),
        parser.OFPTableStatsRequest(DATAPATH, 0),
        parser.OFPPortDescStatsRequest(DATAPATH, 0),
        parser.OFPTableFeaturesStatsRequest(DATAPATH, 0, []),
        parser.OFPExperimenterStatsRequest(DATAPATH, 0, EXPERIMENTER, COUNTS_TYPE, b""),
        parser.OFPRoleRequest(DATAPATH, ofp.OFPCR_ROLE_EQUAL, 0),
        parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, 1, [parser.OFPActionOutput(2)], b"\0" * 60),
        parser.OFPEchoRequest(DATAPATH, b"still there?"),
        parser.OFPGetConfigRequest(DATAPATH),
        parser.OFPBarrierRequest(DATAPATH),
    )
)
CHANGES = st.one_of(additions(), group_changes(), modifications(()), deletions(())).map(
    lambda change: encoded(change, 8)
)
MESSAGES = CHANGES | st.sampled_from(QUESTIONS)


def answers(talk: Talk, octets: bytes) -> list[bytes]:
    """The replies, each of which is a whole message of version 1.3."""
    replies = talk.replies(octets)
    for reply in replies:
        version, _, length, _ = struct.unpack_from("!BBHI", reply)
        assert (version, length) == (4, len(reply))
    return replies


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real message with octets changed, cut out or put in; its length field is that of what is left."""
    octets = bytearray(draw(MESSAGES))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(1, max(1, len(octets) - 1)))
        match draw(st.sampled_from(("change", "cut", "add"))):
            case "change" if at < len(octets):
                octets[at] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
            case "cut":
                del octets[max(8, at) : max(8, at) + draw(st.integers(1, 16))]
            case _:
                octets[at:at] = bytes(draw(st.integers(1, 16)))
    octets[2:4] = len(octets).to_bytes(2, "big")
    return bytes(octets)


def obeyed(talk: Talk) -> set[int]:
    """The groups of a data plane that carried out the operations; KeyError for a group it has not."""
    groups: set[int] = set()
    for operation in talk.operations:
        match operation:
            case SetGroup():
                groups.add(operation.group)
            case RemoveGroup():
                groups.remove(operation.group)
    return groups


@given(st.lists(damaged(), min_size=1, max_size=12))
def test_a_damaged_message_is_refused_alone_and_leaves_no_half_group(messages: list[bytes]) -> None:
    talk = Talk()
    for message in messages:
        answers(talk, message)
        if not talk.session.is_over:  # a message became an ERROR or a second HELLO
            assert answers(talk, BARRIER)[-1][1] == ofp.OFPT_BARRIER_REPLY
        assert obeyed(talk) == set(talk.table.groups)


@given(st.lists(damaged() | st.binary(max_size=200), max_size=8), st.integers(0, 3))
def test_any_stream_is_answered_in_whole_messages(pieces: list[bytes], start: int) -> None:
    talk = Talk()
    for piece in pieces:
        answers(talk, piece[start:])
    assert obeyed(talk) == set(talk.table.groups)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.lists(st.integers(0, 400), max_size=8))
def test_the_answers_do_not_depend_on_how_the_stream_is_cut(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(messages) + BARRIER
    whole, pieces = Talk(), Talk()
    expected = whole.replies(stream)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    got = [reply for start, end in pairwise(places) for reply in pieces.replies(stream[start:end])]
    assert got == expected
    assert pieces.operations == whole.operations


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.integers(1, 100))
def test_a_half_message_at_the_end_changes_nothing(messages: list[bytes], missing: int) -> None:
    *before, last = messages
    cut, whole = Talk(), Talk()
    cut.replies(b"".join(before) + last[: max(0, len(last) - missing)])
    whole.replies(b"".join(before))
    assert cut.operations == whole.operations
    assert cut.table.groups == whole.table.groups


def test_a_stream_that_never_completes_a_message_takes_no_memory() -> None:
    talk = Talk()
    header = bytes.fromhex("040e ffff 00000001".replace(" ", ""))
    tracemalloc.start()
    try:
        for _ in range(50):
            talk.replies(header + bytes(32_000))
        talk.replies(b"")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_every_type_of_message_is_answered_or_passed_over_when_it_is_empty() -> None:
    for kind in range(256):
        talk = Talk()
        answers(talk, struct.pack("!BBHI", 4, kind, 8, 5))
        if not talk.session.is_over:
            replied = [reply[1] for reply in answers(talk, BARRIER)]
            assert replied == [ofp.OFPT_BARRIER_REPLY], f"after a message of type {kind}"


# The controller's listening port.

GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n",
    "zeros": bytes(70_000),
    "half a header": b"\x04\x00",
    "half a HELLO": HELLO[:6],
    "a length of zero": bytes.fromhex("0400000000000001"),
    "a length of 65535 and no more": bytes.fromhex("0400ffff00000001"),
    "HELLO, then noise": HELLO + bytes(range(256)) * 20,
    "a FEATURES_REPLY cut short": HELLO + bytes.fromhex("040600090000000100"),
    "an ERROR before HELLO": bytes.fromhex("0401000c0000000100010001"),
    "OpenFlow 1.0": bytes.fromhex("0100000800000001"),
}


@pytest.fixture(scope="module")
def serving() -> Iterator[Controller]:
    """One controller with its switches, for all the garbage one after the other."""
    with running("--fabric", SPEC) as controller, switches(controller):
        assert controller.line() == "ready"
        yield controller


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_its_port_does_not_keep_the_controller_from_its_switches(
    name: str, serving: Controller, tmp_path: Path
) -> None:
    disturb(serving.port, GARBAGE[name])
    serving.tell(f"stats {tmp_path / 'stats.json'}")
    assert serving.line() == "stats"
    assert serving.process.poll() is None


@pytest.mark.long
def test_garbage_before_the_switches_come_does_not_keep_them_out() -> None:
    with running("--fabric", SPEC) as controller:
        for octets in GARBAGE.values():
            disturb(controller.port, octets)
        with switches(controller):
            assert controller.line() == "ready"


def disturb(port: int, octets: bytes) -> None:
    """Say this to the controller, and listen until it has nothing more to say to it."""
    with connect(port, threading.Event()) as link, suppress(ConnectionError, TimeoutError):
        link.settimeout(0.3)
        link.sendall(octets)
        while link.recv(1 << 16):
            pass


def test_the_controller_listens_on_the_loopback_alone(serving: Controller) -> None:
    listening = [
        line.split()[1].split(":")
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    addresses = [address for address, port in listening if int(port, 16) == serving.port]
    assert addresses == ["0100007F"]
