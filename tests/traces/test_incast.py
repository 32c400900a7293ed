"""Incast episodes, from messages whose times the tests choose."""

from typing import Any

import numpy as np
import pytest

from gradwire.traces.analysis.incast import incasts
from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import Messages, collect
from gradwire.traces.trace import Losses, Trace

ADDRESSES = tuple(f"10.0.0.{i}" for i in range(1, 6))
MS = 10**6


def trace_with(*sends: tuple[int, int, int, float, float]) -> Trace:
    """`sends` are source, destination, bytes, and in ms when it begins and when it has arrived."""
    columns: dict[str, Any] = {
        name: np.zeros(len(sends), column.dtype)
        for name, column in vars(collect([], ADDRESSES)).items()
        if isinstance(column, np.ndarray)
    }
    src, dst, nbytes, first, received = zip(*sends, strict=True)
    columns |= {"src": np.array(src), "dst": np.array(dst), "nbytes": np.array(nbytes)}
    columns |= {"first_ns": (np.array(first) * MS).astype(np.int64)}
    columns |= {"received_ns": (np.array(received) * MS).astype(np.int64)}
    columns["kind"][:] = MessageKind.DATA
    messages = Messages(ADDRESSES, ("send",), **columns)
    return Trace("a", "none", (), (), (), messages, Losses(0, 0, 0, 0, 0, 0, 0), ())


def test_two_senders_at_once_are_an_episode_as_long_as_they_overlap() -> None:
    (one,) = incasts(trace_with((1, 0, 10_000, 0, 10), (2, 0, 20_000, 4, 15)))
    assert (one.dst, one.start_ns, one.duration_ns) == (ADDRESSES[0], 4 * MS, 6 * MS)
    assert one.senders == (1, 2)
    assert one.nbytes == 30_000
    assert one.mean_bps == pytest.approx((10_000 * 6 / 10 + 20_000 * 6 / 11) * 8 / 6e-3)


def test_an_incast_is_about_as_fast_as_its_link_however_short_it_is() -> None:
    """A link of 1 Gb/s carries one message after the other, which overlap by a hundredth of their time."""
    n, gbps = 125_000, 1e9
    (one,) = incasts(trace_with((1, 0, n, 0.0, 1.0), (2, 0, n, 0.99, 2.0)))
    assert one.nbytes * 8e9 / one.duration_ns > 100 * gbps
    assert one.mean_bps is not None
    assert one.mean_bps < 2 * gbps


def test_one_after_the_other_is_no_incast() -> None:
    assert incasts(trace_with((1, 0, 10_000, 0, 10), (2, 0, 20_000, 10, 15))) == ()


def test_one_sender_twice_is_no_incast() -> None:
    assert incasts(trace_with((1, 0, 10_000, 0, 10), (1, 0, 20_000, 4, 15))) == ()


def test_different_destinations_are_no_incast() -> None:
    assert incasts(trace_with((1, 0, 10_000, 0, 10), (2, 3, 20_000, 4, 15))) == ()


def test_who_joins_later_belongs_to_the_episode() -> None:
    sends = (1, 0, 5000, 0, 10), (2, 0, 5000, 2, 8), (3, 0, 5000, 5, 20), (4, 0, 5000, 30, 40)
    (one,) = incasts(trace_with((0, 1, 5000, 0, 1), *sends))
    assert one.senders == (1, 2, 3)
    assert (one.start_ns, one.duration_ns) == (2 * MS, 8 * MS)


def test_notices_and_tiny_messages_fill_no_queue() -> None:
    assert incasts(trace_with((1, 0, 48, 0, 10), (2, 0, 48, 4, 15))) == ()


def test_a_ring_has_none() -> None:
    assert incasts(trace_with(*((r, (r + 1) % 5, 10**6, 0, 10) for r in range(5)))) == ()
