"""Waits for events on descriptors to the microsecond."""

import select
import time

_FD_SETSIZE = 1024  # select(2) knows no larger descriptors


def events_within(poll: select.epoll, timeout_s: float) -> list[tuple[int, int]]:
    """`(descriptor, mask)` as epoll gives them; empty after `timeout_s` seconds.

    epoll waits for whole milliseconds, rounded up, so that a parameter server that computes for 0.3 ms took
    1.2.  `select`, which counts microseconds, waits for the part of a millisecond that is left.
    """
    if poll.fileno() >= _FD_SETSIZE:
        return poll.poll(timeout_s)
    whole_ms = int(timeout_s * 1e3)
    due_s = time.monotonic() + timeout_s
    if whole_ms and (events := poll.poll(whole_ms / 1e3)):
        return events
    select.select([poll], [], [], max(0.0, due_s - time.monotonic()))
    return poll.poll(0)
