"""How workers send, and what they receive: packets that are not due, full sockets, segmentation."""

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.aggregation.worker import SEGMENTS, Worker
from gradwire.traces.framing.aggregation import HEADER_NBYTES, Header, PacketKind, decode, encode
from tests.made_workers import Lab, begin, check, numbers, star

SO_NO_CHECK = 11  # asm-generic/socket.h


def headers(job: st.SearchStrategy[int], epoch: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    u64 = st.integers(0, (1 << 64) - 1)
    peak = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-150, 130))
    chunk = st.one_of(st.integers(0, (1 << 32) - 1), st.integers(0, 30))
    made = st.builds(
        Header, st.integers(0, 6), job, epoch, st.integers(0, 9), chunk, peak, u64, st.integers(0, 2)
    )
    return st.builds(lambda header, tail: encode(header) + tail, made, st.binary(max_size=40))


OTHER = st.integers(0, 6) | st.integers(8, 65535)
FOREIGN = st.one_of(
    st.binary(max_size=80),
    headers(OTHER, st.just(3)),  # another job's
    headers(st.just(7), st.integers(0, 2)).filter(
        lambda packet: packet[1] != PacketKind.EPOCH
    ),  # an old epoch's
    headers(st.just(7), st.just(3)).filter(lambda packet: packet[0] != 1 or packet[1] not in (2, 3)),
    headers(st.just(7), st.just(3)).filter(lambda packet: len(packet) % 4 != 0),
    st.builds(lambda n: encode(Header(PacketKind.RESULT, 7, 3, 9, n)) + bytes(36), st.integers(0, 30)),
    st.builds(
        lambda n: encode(Header(PacketKind.RESULT, 7, 3, 8, n, peak=500)) + bytes(32), st.integers(0, 30)
    ),
    st.builds(lambda n: encode(Header(PacketKind.RESULT, 7, 3, 0, n, peak=-149)), st.integers(1, 30)),
    st.builds(
        lambda n: encode(Header(PacketKind.RESULT, 7, 3, 8, n, peak=5)) + bytes(32), st.integers(40, 1 << 31)
    ),
)


@given(packets=st.lists(FOREIGN, max_size=60))
def test_packets_that_are_not_due_change_nothing(packets: list[bytes]) -> None:
    data = {rank: numbers(rank, 200, 8) for rank in (0, 1)}
    with Lab(replace(star(2), epoch=3)) as lab:
        into = begin(lab, data)
        for packet in packets:
            lab.step()
            lab.deliver(0, packet)
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8)


def nearly_due(chunk: int) -> Iterator[bytes]:
    """Results of a chunk of eight elements, or of none, each with one thing wrong."""
    for count, peak in ((8, 100), (0, 100), (0, -(1 << 31))):
        good = Header(PacketKind.RESULT, 7, 3, count, chunk, peak)
        wrong = bytes(range(100, 100 + 4 * count))
        for header in (
            replace(good, version=2),
            replace(good, job=8),
            replace(good, epoch=2),
            replace(good, kind=5),
            replace(good, kind=PacketKind.CONTRIBUTION),
            replace(good, count=count + 1),
        ):
            yield encode(header) + wrong
        yield encode(good) + wrong + b"x"
        yield encode(replace(good, count=9)) + bytes(36)
        yield encode(replace(good, count=7)) + bytes(28)
    for peak in (-149, 129, 1000):
        yield encode(Header(PacketKind.RESULT, 7, 3, 8, chunk, peak)) + bytes(32)


def test_results_with_one_thing_wrong_are_not_taken() -> None:
    """All of them for every chunk, at every moment; and exponents below our own, which would not fit."""
    data = {rank: numbers(rank, 200, 8) for rank in (0, 1)}
    low = [encode(Header(PacketKind.RESULT, 7, 3, 0, chunk, -100)) for chunk in (0, 1)]
    packets = [*(packet for chunk in range(27) for packet in nearly_due(chunk)), *low]
    with Lab(replace(star(2), epoch=3)) as lab:
        into = begin(lab, data)
        while not all(lab.finished.values()):
            lab.step()
            for rank, packet in product((0, 1), packets):
                lab.deliver(rank, packet)
        check(data, into, 8)


def test_a_full_socket_is_told_of_and_holds_nothing_up() -> None:
    data = {rank: numbers(rank, 2000, 8) for rank in (0, 1)}
    with Lab(star(2, slots=64)) as lab:
        lab.workers[0]._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 0)  # the least there is
        into = begin(lab, data)
        waiting = []
        step = lab.workers[0].step

        def watched(now_ns: int) -> list[int]:
            finished = step(now_ns)
            waiting.append(lab.workers[0].wants_to_send)
            return finished

        lab.workers[0].step = watched  # type: ignore[method-assign]
        lab.run(lambda: all(lab.finished.values()))
        check(data, into, 8, slots=64)
        assert True in waiting and not waiting[-1]
        assert lab.workers[0].counts().retransmitted == 0


def test_what_waits_for_a_full_socket_waits_once() -> None:
    """However often its time comes; and not at all when its result has come meanwhile."""
    data = {0: numbers(0, 2000, 8)}
    with Lab(star(1, slots=64)) as lab:
        worker = lab.workers[0]
        begin(lab, data)
        lab.run(lambda: worker.counts().received > 100)
        worker._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 0)
        for _ in range(20):  # nobody reads
            lab.now_ns += 10**8
            worker.step(lab.now_ns)
        lab.events.clear()  # what was under way is lost
        stuck: list[bytes] = []
        while worker.wants_to_send:
            stuck += waiting(lab.peers[0])
            worker.step(lab.now_ns)
        stuck += waiting(lab.peers[0])
        chunks = [header.chunk for packet in stuck if (header := decode(packet))]
        assert len(set(chunks)) == 64  # a window
        assert len(chunks) < 64 + 20


@pytest.mark.parametrize("checksums", [True, False])
def test_packets_that_the_kernel_takes_as_one_arrive_as_themselves(checksums: bool) -> None:
    """Over the loopback; without checksums there is no segmentation, and one goes at a time."""
    tree = star(1, slots=64)
    data = [numbers(seed, 3001, 8) for seed in range(3)]
    into = [np.zeros(3001, np.float32) for _ in data]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as switch,
    ):
        for sock in (ours, switch):
            sock.bind(("127.0.0.1", 0))
            sock.settimeout(0)
        ours.connect(switch.getsockname())
        ours.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, not checksums)
        worker = Worker(ours, tree, 0, 10**6, ranks_behind={}, segments=SEGMENTS)
        for gave, taken in zip(data, into, strict=True):  # bare packets and short ones between others
            worker.begin(gave, taken, 3001)
        deadline, finished = time.monotonic() + 10, 0
        while finished < len(data):
            finished += len(worker.step(time.monotonic_ns()))
            assert time.monotonic() < deadline
            for packet in waiting(switch):
                header = decode(packet)
                assert header is not None
                assert len(packet) == HEADER_NBYTES + 4 * header.count
                switch.sendto(
                    encode(replace(header, kind=PacketKind.RESULT)) + packet[HEADER_NBYTES:],
                    ours.getsockname(),
                )
        for gave, taken in zip(data, into, strict=True):
            check({0: gave}, {0: taken}, 8, slots=64)
        worker.close()


def waiting(sock: socket.socket) -> Iterator[bytes]:
    try:
        while True:
            yield sock.recv(1 << 16)
    except BlockingIOError:
        return
