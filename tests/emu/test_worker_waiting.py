"""A worker that waits by itself, on a real clock; its switch is the model, in a thread."""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest

from gradwire.emu.aggregation.worker import Worker, WorkerFailed
from gradwire.planning.openflow.pool import Pool
from gradwire.planning.openflow.rules import aggregate
from gradwire.traces.framing.aggregation import HEADER_NBYTES, decode, encode
from tests.made_workers import ranks_behind, star

TREE = star(1)
FAR_NS = 20_000_000_000
SHORT_NS = 50_000_000


@contextmanager
def waiting(patience_ns: int = FAR_NS) -> Iterator[tuple[Worker, socket.socket, socket.socket, select.epoll]]:
    """A job's only worker, the ends of its cable, the switch's last, and an epoll with the worker's."""
    with ExitStack() as stack:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (ours, theirs):
            stack.enter_context(end).setblocking(False)
        behind = ranks_behind(TREE)
        worker = Worker(ours, TREE, 0, SHORT_NS, ranks_behind=behind, patience_ns=patience_ns)
        poll = stack.enter_context(select.epoll())
        poll.register(ours.fileno(), select.EPOLLIN)
        yield stack.enter_context(closing(worker)), ours, theirs, poll


def begin(worker: Worker, n_elements: int) -> tuple[np.ndarray, np.ndarray]:
    data, into = np.arange(1, n_elements + 1, dtype=np.float32), np.zeros(n_elements, np.float32)
    worker.begin(data, into, n_elements)
    return data, into


def answer(cable: socket.socket, n_packets: int) -> None:
    """What the switch says to this many packets."""
    pool = Pool(aggregate(TREE, TREE.nodes[0]))
    cable.setblocking(True)
    for _ in range(n_packets):
        packet = cable.recv(2048)
        header = decode(packet)
        assert header is not None
        elements = struct.unpack(f"!{header.n_elements}i", packet[HEADER_NBYTES:])
        for sent in pool.receive(0, header, elements):
            cable.send(encode(sent.header) + struct.pack(f"!{len(sent.elements)}i", *sent.elements))


def test_it_goes_on_without_a_step_from_outside_until_its_sum_is_finished() -> None:
    n_chunks = 5 * TREE.slots
    with waiting() as (worker, _, cable, poll):
        data, into = begin(worker, n_chunks * TREE.elements)
        switch = threading.Thread(target=answer, args=(cable, 1 + 1 + n_chunks))  # sync, prime, data
        switch.start()
        assert worker.run(poll.fileno(), time.monotonic_ns() + FAR_NS) == [0]
        switch.join()
        assert np.allclose(into, data, rtol=1e-6)
        assert worker.counts().sent == 2 + n_chunks


def test_it_stops_waiting_when_something_else_is_to_be_read() -> None:
    readable, writable = os.pipe()
    with waiting() as (worker, _, _, poll), open(readable, "rb"), open(writable, "wb", buffering=0) as other:
        begin(worker, 8)
        poll.register(readable, select.EPOLLIN)
        began_ns = time.monotonic_ns()
        threading.Timer(SHORT_NS / 1e9, other.write, (b"!",)).start()
        assert worker.run(poll.fileno(), began_ns + FAR_NS) == []
        assert SHORT_NS <= time.monotonic_ns() - began_ns < FAR_NS
        assert poll.poll(0) == [(readable, select.EPOLLIN)]


def test_it_waits_no_longer_than_it_may() -> None:
    with waiting() as (worker, _, _, poll):
        begin(worker, 8)
        until_ns = time.monotonic_ns() + SHORT_NS
        assert worker.run(poll.fileno(), until_ns) == []
        assert until_ns <= time.monotonic_ns() < until_ns + FAR_NS


def test_it_stops_waiting_when_it_needs_to_be_told_of_room_in_its_socket() -> None:
    with waiting() as (worker, ours, _, poll):
        while True:  # a datagram socket takes no more than its peer may have unread
            try:
                ours.send(b"full")
            except BlockingIOError:
                break
        begin(worker, 8)
        began_ns = time.monotonic_ns()
        assert worker.run(poll.fileno(), began_ns + FAR_NS) == []
        assert worker.wants_to_send
        assert time.monotonic_ns() - began_ns < FAR_NS


def test_a_switch_that_says_nothing_ends_the_wait_with_a_reason() -> None:
    with waiting(patience_ns=SHORT_NS) as (worker, _, _, poll):
        begin(worker, 8)
        with pytest.raises(WorkerFailed, match=r"^no switch answers aggregation job 7 for 0\.05 s"):
            worker.run(poll.fileno(), time.monotonic_ns() + FAR_NS)
