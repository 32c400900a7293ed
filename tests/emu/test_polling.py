"""Waiting for events to the microsecond."""

import os
import select
import time

from gradwire.emu.replay.polling import events_within


def test_a_wait_of_a_part_of_a_millisecond_ends_when_it_should() -> None:
    """epoll alone rounds up: 0.2 ms would take 1 ms at least, however often one tries."""

    def waited_s() -> float:
        begin_s = time.monotonic()
        assert events_within(poll, 0.2e-3) == []
        return time.monotonic() - begin_s

    with select.epoll() as poll:
        assert 0.2e-3 <= min(waited_s() for _ in range(50)) < 0.9e-3


def test_a_wait_ends_with_what_happens() -> None:
    reading, writing = os.pipe()
    try:
        with select.epoll() as poll:
            poll.register(reading, select.EPOLLIN)
            os.write(writing, b"x")
            for timeout_s in (0.0, 0.5e-3, 60.0):
                assert events_within(poll, timeout_s) == [(reading, select.EPOLLIN)]
    finally:
        os.close(reading)
        os.close(writing)
