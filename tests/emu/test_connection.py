"""A connection speaks gloo, and survives a peer that does not."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.replay.connection import PeerLost, RankConnection
from gradwire.traces.framing.gloo import Opcode, encode_preamble

Pair = tuple[RankConnection, RankConnection]


def connected() -> Pair:
    server = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(server.getsockname())
    b, _ = server.accept()
    server.close()
    for sock in (a, b):
        sock.settimeout(0)
    return RankConnection(a, 1), RankConnection(b, 0)


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = connected()
    yield ends
    for end in ends:
        end.sock.close()


def received(end: RankConnection, other: RankConnection, nbytes: int) -> bytes:
    """Read one message's payload of `nbytes`, letting the other side flush meanwhile."""
    while (header := end.read_header()) is None:
        other.flush()
    assert header.length == nbytes
    into = bytearray(nbytes)
    end.expect_body(memoryview(into))
    while not end.read_body():
        other.flush()
    return bytes(into)


@pytest.mark.parametrize("nbytes", [0, 1, 1448, 5_000_000])
def test_a_payload_of_any_size_comes_through_and_is_reported_as_handed_once(pair: Pair, nbytes: int) -> None:
    a, b = pair
    data = os.urandom(nbytes)
    a.queue_data(encode_preamble(Opcode.DATA, 7, nbytes), memoryview(data), 42)
    handed = a.flush()
    into = bytearray(nbytes)
    while (header := b.read_header()) is None:
        handed += a.flush()
    assert (header.opcode, header.slot, header.length) == (Opcode.DATA, 7, nbytes)
    b.expect_body(memoryview(into))
    while not b.read_body():
        handed += a.flush()
    assert bytes(into) == data
    assert handed == [42]
    assert a.framing_nbytes == 48


def test_notices_and_payloads_keep_their_order(pair: Pair) -> None:
    a, b = pair
    a.queue_notice(encode_preamble(Opcode.SEND_READY, 1, 3))
    a.queue_data(encode_preamble(Opcode.DATA, 1, 3), memoryview(b"abc"), 0)
    a.flush()
    notice = b.read_header()
    assert notice is not None
    assert (notice.opcode, notice.length) == (Opcode.SEND_READY, 3)
    assert received(b, a, 3) == b"abc"


class Writes:
    """A socket that takes this many bytes a call, and remembers what it was handed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.handed: list[bytes] = []

    def sendmsg(self, parts: list[memoryview]) -> int:
        data = b"".join(parts)[: self.most]
        self.handed.append(data)
        return len(data)


def test_each_message_is_a_write_of_its_own_as_gloos_are() -> None:
    writes = Writes(most=100)
    end = RankConnection(writes, 1)  # type: ignore[arg-type]
    notice, head = encode_preamble(Opcode.SEND_READY, 1, 200), encode_preamble(Opcode.DATA, 1, 200)
    data = bytes(range(200))
    end.queue_notice(notice)
    end.queue_notice(notice)
    end.queue_data(head, memoryview(data), 5)
    assert end.flush() == [5]
    whole = head + data
    assert writes.handed == [notice, notice, whole[:100], whole[100:200], whole[200:]]
    assert not end.wants_to_send


def test_a_peer_that_closes_is_named(pair: Pair) -> None:
    a, b = pair
    a.sock.close()
    with pytest.raises(PeerLost, match="rank 0 closed its connection"):
        b.read_header()


@given(st.binary(min_size=48, max_size=48))
def test_bytes_that_are_no_preamble_are_refused_or_bounded(data: bytes) -> None:
    a, b = connected()
    try:
        a.sock.sendall(data)
        with suppress(PeerLost):
            header = b.read_header()
            assert header is None or header.length <= 1 << 40
    finally:
        a.sock.close()
        b.sock.close()


def test_what_is_no_preamble_is_refused_with_the_ranks_name(pair: Pair) -> None:
    a, b = pair
    a.sock.sendall(b"GET / HTTP/1.1\r\n".ljust(48))
    with pytest.raises(PeerLost, match="rank 0 sent bytes that are not a gloo preamble"):
        b.read_header()
