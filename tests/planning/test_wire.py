"""Bytes on the wire against packets that Scapy builds, and against sends counted by hand."""

from collections.abc import Sequence

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from gradwire.planning.model.wire import (
    HEADERS_NBYTES,
    MOST_SACK_NBYTES,
    SYN_OPTIONS_NBYTES,
    framing_nbytes,
    payload_nbytes,
    stream_nbytes,
    wire_nbytes,
)
from tests.made_plans import allreduce_plan, messages, schedule_plan

STAMPED = [("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]
SYN = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("NOP", None), ("WScale", 7)]


def frame_nbytes(options: Sequence[tuple[str, object]], payload: int = 0) -> int:
    return len(bytes(Ether() / IP() / TCP(options=options) / (b"x" * payload)))


def test_every_packet_has_the_headers_that_scapy_gives_it() -> None:
    assert frame_nbytes(STAMPED) == HEADERS_NBYTES
    assert frame_nbytes(STAMPED, 1448) == HEADERS_NBYTES + 1448 == 1514
    assert frame_nbytes(STAMPED, 8948) == HEADERS_NBYTES + 8948 == 9014


def test_a_syn_has_eight_bytes_of_options_more() -> None:
    assert frame_nbytes(SYN) == HEADERS_NBYTES + SYN_OPTIONS_NBYTES


def test_three_blocks_of_a_selective_acknowledgement_are_the_most_that_fits() -> None:
    def blocks(count: int) -> list[tuple[str, object]]:
        return [*STAMPED, ("NOP", None), ("NOP", None), ("SAck", tuple(range(2 * count)))]

    assert frame_nbytes(blocks(3)) == HEADERS_NBYTES + MOST_SACK_NBYTES
    assert len(bytes(TCP(options=blocks(3)))) == 60  # the largest TCP header


@pytest.mark.parametrize(
    ("nbytes", "n_packets", "mtu", "on_the_wire"),
    [
        (10 * 66, 10, 1500, 10 * 66),  # acknowledgements
        (10 * 1514, 10, 1500, 10 * 1514),  # full frames, one by one
        (66 + 10 * 1448, 1, 1500, 10 * 1514),  # ten of them as one segment
        (66 + 10 * 1448 + 66, 2, 1500, 10 * 1514),  # ... a header more is within what the counters can tell
        (0, 0, 1500, 0),
        (10 * 9014, 10, 9000, 10 * 9014),
        (66 + 7 * 8948, 1, 9000, 7 * 9014),
    ],
)
def test_a_super_segment_counts_a_header_for_each_of_its_frames(
    nbytes: int, n_packets: int, mtu: int, on_the_wire: int
) -> None:
    assert wire_nbytes(nbytes, n_packets, mtu) == on_the_wire


def test_a_message_has_two_preambles_before_it_and_one_that_comes_back() -> None:
    plan = schedule_plan("star:hosts=2", messages(2, [(0, 1, 10_000)]))
    there, back = sorted(range(2), key=lambda flow: plan.flows[flow].src)
    assert payload_nbytes(plan)[there] == 10_000
    assert payload_nbytes(plan)[back] == 0
    assert (framing_nbytes(plan)[there], framing_nbytes(plan)[back]) == (2 * 48, 48)
    # Rank 1 opens the connection and says hello; each side's SYN has its options.
    assert stream_nbytes(plan, 1)[there] == 10_000 + 96 + 8
    assert stream_nbytes(plan, 1)[back] == 48 + 8 + 8
    assert stream_nbytes(plan, 3)[there] == 3 * 10_096 + 8


def test_a_ring_of_p_ranks_sends_its_2_p_minus_1_chunks_one_way() -> None:
    plan = allreduce_plan("star:hosts=4", "ring", nbytes=4 * 4000)
    for flow, payload, framing in zip(plan.flows, payload_nbytes(plan), framing_nbytes(plan), strict=True):
        onward = flow.dst == (flow.src + 1) % 4
        assert payload == (6 * 4000 if onward else 0)
        assert framing == 6 * 48 * (2 if onward else 1)
