"""The bytes of the aggregate action: the document's table by hand, and os-ken's reading of them."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.extension import EXPERIMENTER, ActionError, Wrong, action, read_action

RULE = Aggregate(
    job=3, epoch=2, child=1, slots=128, elements=256, parent_port=3, ports=(1, 2), gives=0b11, takes=0b01
)
ROOT = RULE._replace(child=0, parent_port=None, ports=(1, 2, 3), gives=0b111, takes=0b101)
UP = RULE._replace(child=FROM_PARENT)
# By hand from the document's table.
RULE_HEX = (
    "ffff 0030 00024757 0001 0003 0002 01 02 0080 0100 00000003 0000000000000003 0000000000000001"
    "00000001 00000002"
)
ROOT_HEX = (
    "ffff 0038 00024757 0001 0003 0002 00 03 0080 0100 ffffffff 0000000000000007 0000000000000005"
    "00000001 00000002 00000003 00000000"
)


@pytest.mark.parametrize(("rule", "octets"), [(RULE, RULE_HEX), (ROOT, ROOT_HEX)])
def test_the_action_has_the_bytes_of_the_document(rule: Aggregate, octets: str) -> None:
    assert action(rule) == bytes.fromhex(octets)
    assert read_action(bytes.fromhex(octets)) == rule


@pytest.mark.parametrize("rule", [RULE, ROOT, UP])
def test_os_ken_reads_the_action_as_an_experimenters_and_writes_it_as_it_was(rule: Aggregate) -> None:
    octets = action(rule)
    read = parser.OFPAction.parser(octets, 0)
    assert isinstance(read, parser.OFPActionExperimenterUnknown)
    assert (read.experimenter, read.len) == (0x00024757, len(octets))
    written = bytearray()
    read.serialize(written, 0)
    assert written == octets


@st.composite
def rules(draw: st.DrawFn) -> Aggregate:
    ports = draw(st.lists(st.integers(1, 0xFFFFFF00), min_size=1, max_size=64, unique=True))
    parent = draw(st.none() | st.integers(1, 0xFFFFFF00).filter(lambda port: port not in ports))
    children = st.integers(0, len(ports) - 1)
    return Aggregate(
        job=draw(st.integers(0, 0xFFFF)),
        epoch=draw(st.integers(0, 0xFFFF)),
        child=draw(children if parent is None else children | st.just(FROM_PARENT)),
        slots=draw(st.integers(1, 0xFFFF)),
        elements=draw(st.integers(1, 2048)),
        parent_port=parent,
        ports=tuple(ports),
        gives=draw(st.integers(0, 2 ** len(ports) - 1)),
        takes=draw(st.integers(0, 2 ** len(ports) - 1)),
    )


@given(rules())
def test_every_rule_comes_back_from_its_bytes(rule: Aggregate) -> None:
    octets = action(rule)
    assert len(octets) % 8 == 0
    assert read_action(octets) == rule


@given(rules(), st.data())
def test_damaged_bytes_are_another_rule_or_none_at_all(rule: Aggregate, data: st.DataObject) -> None:
    octets = bytearray(action(rule))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] = data.draw(st.integers(0, 255))
    del octets[data.draw(st.integers(0, len(octets)) | st.just(len(octets))) :]
    try:
        read = read_action(bytes(octets))
    except ActionError:
        return
    n = len(read.ports)
    assert 1 <= n <= 64
    assert read.child < n or (read.child == 0xFF and read.parent_port is not None)
    assert 1 <= read.elements <= 2048
    assert read.slots >= 1
    assert max(read.gives, read.takes) < 2**n
    assert len({*read.ports, read.parent_port}) == n + 1


@given(st.binary(max_size=320), st.integers(0, 64))
def test_any_bytes_are_read_or_refused(noise: bytes, n: int) -> None:
    octets = bytearray(struct.pack("!HHIH", 0xFFFF, len(noise) + 10, EXPERIMENTER, 1) + noise)
    octets[15:16] = bytes([n])
    with suppress(ActionError):
        assert len(action(read_action(bytes(octets)))) == len(octets)


def changed(octets: str, at: int, new: str) -> bytes:
    whole = bytearray.fromhex(octets)
    whole[at : at + len(bytes.fromhex(new))] = bytes.fromhex(new)
    return bytes(whole)


BAD_BYTES = {
    "Nicira's": (changed(RULE_HEX, 4, "00002320"), Wrong.BAD_EXPERIMENTER),
    "subtype 0": (changed(RULE_HEX, 8, "0000"), Wrong.BAD_EXP_TYPE),
    "subtype 2": (changed(RULE_HEX, 8, "0002"), Wrong.BAD_EXP_TYPE),
    "only the header": (bytes.fromhex("ffff0008 00024757"), Wrong.BAD_LEN),
    "only the subtype": (bytes.fromhex("ffff0010 00024757 0001 000300020102"), Wrong.BAD_LEN),
    "no ports": (bytes.fromhex(RULE_HEX[:5] + "0028" + RULE_HEX[9:])[:40], Wrong.BAD_LEN),
    "one child more than ports": (changed(ROOT_HEX, 15, "05"), Wrong.BAD_LEN),
    "three ports of two": (changed(ROOT_HEX, 15, "02"), Wrong.BAD_LEN),
    "no children": (changed(RULE_HEX, 15, "00"), Wrong.BAD_ARGUMENT),
    "65 children": (
        bytes.fromhex("ffff0130 00024757") + bytes(7) + b"\x41" + bytes(288),
        Wrong.BAD_EXP_TYPE,
    ),
    "65 children of the subtype": (
        bytes.fromhex("ffff0130 00024757 0001 0003 0002 00 41") + bytes(288),
        Wrong.BAD_ARGUMENT,
    ),
    "child 2 of two": (changed(RULE_HEX, 14, "02"), Wrong.BAD_ARGUMENT),
    "the parent of a root": (changed(ROOT_HEX, 14, "ff"), Wrong.BAD_ARGUMENT),
    "no slots": (changed(RULE_HEX, 16, "0000"), Wrong.BAD_ARGUMENT),
    "no elements": (changed(RULE_HEX, 18, "0000"), Wrong.BAD_ARGUMENT),
    "2049 elements": (changed(RULE_HEX, 18, "0801"), Wrong.BAD_ARGUMENT),
    "gives of a child that is not": (changed(RULE_HEX, 31, "04"), Wrong.BAD_ARGUMENT),
    "takes of child 63": (changed(RULE_HEX, 32, "80"), Wrong.BAD_ARGUMENT),
    "a port twice": (changed(RULE_HEX, 44, "00000001"), Wrong.BAD_ARGUMENT),
    "the parent's port": (changed(RULE_HEX, 44, "00000003"), Wrong.BAD_ARGUMENT),
}


@pytest.mark.parametrize("name", BAD_BYTES)
def test_what_is_wrong_with_an_action_is_named_as_the_specification_does(name: str) -> None:
    octets, wrong = BAD_BYTES[name]
    with pytest.raises(ActionError) as refused:
        read_action(octets)
    assert refused.value.wrong == wrong


@pytest.mark.parametrize("wrong", Wrong)
def test_what_is_wrong_has_the_numbers_of_the_specification(wrong: Wrong) -> None:
    assert wrong == getattr(ofp, f"OFPBAC_{wrong.name}")


def test_an_action_that_is_not_of_the_length_that_it_says_is_refused() -> None:
    octets = action(RULE)
    for wrong in (octets[:-1], octets + bytes(8), b"", octets[:4], b"\0\0" + octets[2:]):
        with pytest.raises(ActionError, match="BAD_LEN"):
            read_action(wrong)
