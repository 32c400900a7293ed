"""Matches read in one piece give what they give field by field, in messages of os-ken and Scapy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.switch.wire import encode, layouts, oxm
from gradwire.emu.switch.wire.openflow13 import ProtocolError
from gradwire.planning.openflow.match import Match

ADDRESSES, PORTS = st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)
USUAL = st.one_of(
    ADDRESSES.map(lambda dst: Match(eth_type=0x800, ipv4_dst=dst)),
    st.tuples(ADDRESSES, ADDRESSES).map(lambda pair: Match(0x800, *pair)),
    st.tuples(ADDRESSES, ADDRESSES, st.sampled_from([6, 17]), PORTS, PORTS).map(
        lambda five_tuple: Match(0x800, *five_tuple)
    ),
)
UNUSUAL = [
    Match(),
    Match(eth_type=0x800),
    Match(eth_type=0x806, eth_dst=7),
    Match(eth_type=0x800, ipv4_src=1),
    Match(eth_type=0x800, ipv4_dst=2, in_port=3),
    Match(eth_type=0x800, ip_proto=17, dport=53),
    Match(eth_type=0x800, ip_proto=1, ipv4_src=1, ipv4_dst=2),
]


def outcome(octets: bytes, at: int, by_fields: bool) -> object:
    """What is read there: a match and where it ends, or the error's numbers."""
    try:
        return oxm.match_by_fields(octets, at) if by_fields else oxm.match(octets, at)
    except ProtocolError as refusal:
        return refusal.kind, refusal.code


@given(match=USUAL, before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_a_usual_match_is_read_in_one_piece_wherever_it_stands(
    match: Match, before: bytes, after: bytes
) -> None:
    octets = encode.match_by_fields(match)
    end = len(before) + len(octets)
    assert layouts.read(before + octets + after, len(before)) == (match, end)


@given(match=USUAL)
def test_a_usual_match_is_written_as_field_by_field(match: Match) -> None:
    assert layouts.write(match) == encode.match_by_fields(match)


@pytest.mark.parametrize("match", UNUSUAL)
def test_an_unusual_match_is_left_to_the_field_by_field_way(match: Match) -> None:
    octets = encode.match_by_fields(match)
    assert layouts.write(match) is None
    assert layouts.read(octets, 0) is None
    assert oxm.match(octets, 0) == (match, len(octets))


@given(match=USUAL, data=st.data())
def test_a_match_with_some_wrong_bytes_gets_the_answer_of_the_field_by_field_way(
    match: Match, data: st.DataObject
) -> None:
    octets = bytearray(encode.match_by_fields(match))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(octets[: data.draw(st.integers(len(octets) - 12, len(octets)))])
    assert outcome(cut, 0, by_fields=False) == outcome(cut, 0, by_fields=True)
