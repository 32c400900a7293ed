"""The server of a live view and guests that mean no good: raw bytes on loopback."""

import asyncio
import base64
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from gradwire.emu.channel import Channel, channel
from gradwire.tools.live import page
from gradwire.tools.live.audience import MOST_VIEWERS

PING_S = 0.3
OPEN_S = 0.3
HERE = b"Host: 127.0.0.1\r\n"
LARGE = "x" * 100_000  # of a message, beyond what sockets keep for somebody who reads nothing
Address = tuple[str, int]


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Channel, Address]]:
    """A server with less patience, in a thread; it must end when nobody is left to say anything."""
    monkeypatch.setattr(page, "PING_S", PING_S)
    monkeypatch.setattr(page, "OPEN_S", OPEN_S)
    to, end = channel()
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(page.show(end, listener, page.page())))
    thread.start()
    yield to, listener.getsockname()
    to.close()
    thread.join(10)
    assert not thread.is_alive()
    end.close()


def guest(address: Address, says: bytes) -> socket.socket:
    """Somebody with little room for answers."""
    here = socket.socket()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    here.settimeout(10)
    here.connect(address)
    here.sendall(says)
    return here


def status(address: Address, says: bytes) -> bytes:
    """`200`; empty if the server only hung up."""
    with guest(address, says) as here:
        try:
            return b" ".join(here.recv(12).split()[1:])
        except ConnectionError:
            return b""


def upgrade() -> bytes:
    key = base64.b64encode(os.urandom(16))
    head = (
        b"GET /stream HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    )
    return head + HERE + b"Sec-WebSocket-Key: " + key + b"\r\n\r\n"


def test_viewers_that_read_nothing_lose_their_places_to_others(serving: tuple[Channel, Address]) -> None:
    to, address = serving
    with ExitStack() as stack:
        for _ in range(MOST_VIEWERS):
            here = stack.enter_context(guest(address, upgrade()))
            assert b"101" in here.recv(12)
        assert (status(address, upgrade()), status(address, b"GET / HTTP/1.1\r\n" + HERE + b"\r\n")) == (
            b"503",
            b"503",
        )
        deadline_s = time.monotonic() + 20 * PING_S
        while (said := status(address, upgrade())) != b"101" and time.monotonic() < deadline_s:
            started_s = time.monotonic()
            assert to.send("phase", text=LARGE)
            assert time.monotonic() - started_s < 0.5  # whoever reports waits for nobody
            time.sleep(0.02)
        assert said == b"101"


def test_requests_that_are_never_complete_take_no_place_and_are_let_go(
    serving: tuple[Channel, Address],
) -> None:
    _, address = serving
    with ExitStack() as stack:
        waiting = [stack.enter_context(guest(address, b"GET / HT")) for _ in range(10 * MOST_VIEWERS)]
        assert status(address, b"GET / HTTP/1.1\r\n" + HERE + b"\r\n") == b"200"
        for here in waiting:
            assert here.recv(1) == b""


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        (b"GET / HTTP/1.1\r\n" + HERE + b"X: " + 100_000 * b"a" + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + HERE + 1000 * b"X: a\r\n" + b"\r\n", b"431"),
        (b"GET /" + 100_000 * b"a", b"414"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n" + HERE + b"\r\n", b"404"),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + HERE + b"\r\n", b"404"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"Host: evil.example\r\n\r\n", b"403"),
        (b"GET /stream HTTP/1.1\r\n" + HERE + b"Origin: http://evil.example\r\n\r\n", b"403"),
        (b"GET /stream HTTP/1.1\r\n" + HERE + b"\r\n", b"426"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: 1\r\n\r\nx", b""),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b""),
    ],
    ids=lambda value: value[:24].decode("latin1") if isinstance(value, bytes) else None,
)
def test_a_wrong_request_gets_a_refusal_and_nothing_else(
    says: bytes, answer: bytes, serving: tuple[Channel, Address]
) -> None:
    _, address = serving
    assert status(address, says) == answer
    assert status(address, b"GET / HTTP/1.1\r\n" + HERE + b"\r\n") == b"200"


def test_a_viewer_that_says_much_is_not_read_and_holds_up_nobody(serving: tuple[Channel, Address]) -> None:
    to, address = serving
    frame = bytes([0x81, 0x80 | 100]) + 104 * b"\0"  # a masked text of 100 bytes
    with guest(address, upgrade()) as here:
        here.setblocking(False)
        for _ in range(200):
            try:
                here.send(50 * frame)
            except OSError:
                break
            assert to.send("phase", text="on")
    assert status(address, upgrade()) == b"101"
