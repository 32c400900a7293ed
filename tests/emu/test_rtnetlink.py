"""Messages to the kernel, byte for byte as `ip` sends them, and its answers taken apart."""

import socket
import sys

import pytest

from gradwire.emu.kernel import rtnetlink

# `strace -e write=4 ip ...` with iproute2 6.1, interface x of index 3: type, flags without ACK, body.
AS_IP_SENDS_THEM = {
    "link set dev x up": (
        rtnetlink.link_up(3),
        (16, 0x001, "00000000 03000000 01000000 01000000"),
    ),
    "link set dev x down": (
        rtnetlink.link_down(3),
        (16, 0x001, "00000000 03000000 00000000 01000000"),
    ),
    "addr add 10.0.0.3/16 dev x": (
        rtnetlink.address(3, "10.0.0.3", 16),
        (20, 0x601, "02100000 03000000 08000200 0a000003 08000100 0a000003"),
    ),
    "neigh add 10.0.0.9 lladdr 02:00:0a:00:00:09 dev x nud permanent": (
        rtnetlink.neighbour(3, "10.0.0.9", "02:00:0a:00:00:09"),
        (28, 0x601, "02000000 03000000 80000000 08000100 0a000009 0a000200 02000a00 00090000"),
    ),
}
ABSENT = 2**31 - 1


@pytest.mark.skipif(sys.byteorder != "little", reason="written down on a little-endian machine")
@pytest.mark.parametrize("command", AS_IP_SENDS_THEM)
def test_a_request_is_what_ip_sends(command: str) -> None:
    made, (kind, flags, body) = AS_IP_SENDS_THEM[command]
    assert made == (kind, flags, bytes.fromhex(body))


def test_messages_of_one_datagram_are_told_apart_and_a_cut_one_ends_it() -> None:
    datagram = rtnetlink.encoded(2, 0, 7, b"abcd") + rtnetlink.encoded(16, 0, 8, b"efghijkl")
    assert list(rtnetlink.messages(datagram + b"\0\0\0")) == [(2, 7, b"abcd"), (16, 8, b"efghijkl")]


def test_a_length_of_zero_does_not_hang_the_reader() -> None:
    assert list(rtnetlink.attributes(bytes(8))) == [0]
    assert len(list(rtnetlink.messages(bytes(32)))) == 2


def test_attributes_are_padded_to_four_bytes() -> None:
    _, _, body = rtnetlink.neighbour(3, "10.0.0.9", "02:00:0a:00:00:09")
    assert rtnetlink.attributes(body[12:]) == {
        1: bytes([10, 0, 0, 9]),
        2: bytes.fromhex("02000a000009"),
    }


def test_a_refusal_is_raised_with_the_number_of_its_request() -> None:
    """No kernel has that interface; without root it does not even look."""
    fine = rtnetlink.link_up(1)  # the loopback, which is up, so nothing is changed
    with pytest.raises(OSError, match=r"request 1 of 3 failed: (No such device|Operation not permitted)"):
        rtnetlink.carry_out([rtnetlink.address(ABSENT, "10.9.9.9", 16), fine, fine])


def test_a_dump_ends_with_its_last_datagram_or_with_an_error() -> None:
    rule = rtnetlink.encoded(36, 2, 0, bytes(20))
    done, error = rtnetlink.encoded(3, 2, 0, bytes(4)), rtnetlink.encoded(2, 0, 0, bytes(20))
    assert [rtnetlink.ends_dump(answer) for answer in (rule, rule + rule, rule + done, done, error, b"")] == [
        False, False, True, True, True, True,
    ]  # fmt: skip


def test_interfaces_asked_for_all_at_once_are_as_one_by_one() -> None:
    states = rtnetlink.link_states()
    there = {index for index, _ in socket.if_nameindex()} & states.keys()  # others may come and go
    assert socket.if_nametoindex("lo") in there
    assert {index: states[index] for index in there} == {i: rtnetlink.link_state(i) for i in there}
