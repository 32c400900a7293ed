"""The channel to the live view: no message is cut, and the run never waits for a viewer."""

import socket
import time

import pytest

from gradwire.emu.channel import DATAGRAM_NBYTES, Channel, channel, receive


def test_messages_of_any_size_arrive_as_they_were_and_in_their_order() -> None:
    to, end = channel()
    drawing = "ä" * DATAGRAM_NBYTES
    for number, svg in enumerate(("", drawing, "end")):
        assert to.send("run", number=number, svg=svg)
    read = [receive(end) for _ in range(3)]
    to.close()
    assert read == [{"kind": "run", "number": n, "svg": svg} for n, svg in enumerate(("", drawing, "end"))]
    assert receive(end) is None
    end.close()


def test_the_end_comes_when_the_last_process_that_could_say_something_has_closed_it() -> None:
    to, end = channel()
    end.setblocking(False)
    other = Channel.inherited(socket.dup(to.fileno()))
    to.close()
    with pytest.raises(BlockingIOError):
        receive(end)
    other.close()
    assert receive(end) is None
    end.close()


def test_a_reader_that_does_not_read_costs_a_run_no_time_and_gets_later_what_there_was_room_for() -> None:
    to, end = channel()
    never_waits = Channel.inherited(socket.dup(to.fileno()))
    began_s = time.monotonic()
    taken = [never_waits.send("load", number=number, filling="x" * 1000) for number in range(1000)]
    assert time.monotonic() - began_s < 1
    assert taken[0] and not taken[-1]
    assert [receive(end)["number"] for _ in range(sum(taken))] == list(range(sum(taken)))  # type: ignore[index]
    for each in (to, never_waits, end):
        each.close()


def test_nobody_at_the_other_end_is_no_error() -> None:
    to, end = channel()
    end.close()
    assert not to.send("load")
    assert not to.send("run", svg="x" * 2 * DATAGRAM_NBYTES)
    to.close()
