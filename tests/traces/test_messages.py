"""Messages as columns: times, places and who is who."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.gloo import Opcode, pack_slot
from gradwire.traces.framing.gloo_framing import Gloo
from gradwire.traces.framing.messages import Messages, collect, reranked
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.streams import assemble, connections
from tests.made_captures import SYN, pcap, stream
from tests.made_gloo import HIGH, LOW, Sent, conversation

SLOT = pack_slot(4, 3)
ADDRESSES = (LOW[0], HIGH[0])


def collected(packets: Packets) -> Messages:
    found = Gloo().read(connections(assemble([packets])))
    return collect([(0, reading) for reading in found.readings], ADDRESSES)


def made(tmp_path: Path) -> Messages:
    down = [[Sent(Opcode.SEND_READY, SLOT, 300)], [Sent(Opcode.DATA, SLOT, 300)]]
    packets = conversation(tmp_path / "a.pcap", down, [[Sent(Opcode.RECV_READY, SLOT, 300)]])
    return collected(packets)


def test_rows_are_in_the_order_of_time_and_say_who_sent_what(tmp_path: Path) -> None:
    messages = made(tmp_path)
    assert messages.first_ns.tolist() == [1000, 1500, 2000]
    assert messages.src.tolist() == [1, 0, 1]
    assert messages.kind.tolist() == [MessageKind.SEND_READY, MessageKind.RECV_READY, MessageKind.DATA]
    assert messages.nbytes.tolist() == [300, 300, 300]
    assert messages.offset.tolist() == [8, 0, 56]
    assert messages.is_data.tolist() == [False, False, True]
    assert messages.of("allreduce").all()
    assert not messages.of("broadcast").any()
    assert (messages.tag == 3).all()
    assert messages.whole.all()


def test_a_message_lasts_from_its_first_byte_to_its_last_and_has_arrived_when_all_before_it_has(
    tmp_path: Path,
) -> None:
    wire = b"h" * 8 + Sent(Opcode.DATA, SLOT, 300).wire
    syn, *data = stream(HIGH, LOW, [(10, wire[:100]), (20, wire[100:200]), (30, wire[200:])], 1, SYN)
    late = replace(data[1], time_ns=70)  # the middle is sent last: a hole until then
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([syn, data[0], data[2], late]))
    messages = collected(read_capture(path))
    assert messages.first_ns.tolist() == [10]
    assert messages.last_ns.tolist() == [30]
    assert messages.received_ns.tolist() == [70]


def test_packets_that_repeat_a_message_count_for_it(tmp_path: Path) -> None:
    first, second = (Sent(Opcode.DATA, SLOT, length).wire for length in (40, 50))
    records = stream(HIGH, LOW, [(10, b"h" * 8 + first), (20, second)], 1, SYN)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*records, replace(records[2], time_ns=90)]))
    messages = collected(read_capture(path))
    assert messages.retransmitted.tolist() == [0, 1]


def test_other_ranks_keep_the_messages(tmp_path: Path) -> None:
    messages = made(tmp_path)
    turned = reranked(messages, ADDRESSES[::-1])
    assert turned.src.tolist() == [0, 1, 0]
    assert np.array_equal(turned.nbytes, messages.nbytes)


@pytest.mark.parametrize(
    ("slot", "name", "tag"),
    [
        (7, "send", 7),
        (pack_slot(4, 3, 1), "allreduce", 3),
        (pack_slot(6, 2), "broadcast", 2),
        (pack_slot(7, 9), "barrier", 9),
    ],
)
def test_gloos_slots_say_which_collective_it_is(tmp_path: Path, slot: int, name: str, tag: int) -> None:
    packets = conversation(tmp_path / "a.pcap", [[Sent(Opcode.DATA, slot, 5)]], [])
    messages = collected(packets)
    assert messages.operations == (name,)
    assert messages.tag.tolist() == [tag]
