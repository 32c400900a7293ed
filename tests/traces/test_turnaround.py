"""A ring whose hosts take a known time from an arrival to a send, seen as messages."""

from dataclasses import replace

import numpy as np

from gradwire.traces.framing.frames import UNKNOWN_TAG
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.turnaround import turnarounds_ns
from tests.made_analysis import made_messages

US = 1_000
STEP_US, TURNAROUND_US, COMPUTE_US = 1_000, 70, 9_000


def ping_pong(n_collectives: int, n_steps: int, late_us: int = 0) -> Messages:
    """Two ranks send to each other in turn; each answers after the turnaround, the first of each collective
    only after computing.  One step of the first collective is `late_us` later than that."""
    messages = made_messages(n_collectives * n_steps)
    sent, time_us = [], 0
    for number in range(n_collectives * n_steps):
        time_us += COMPUTE_US if number % n_steps == 0 else TURNAROUND_US + (late_us if number == 5 else 0)
        sent.append(time_us)
        time_us += STEP_US
    first_ns = np.array(sent) * US
    place = np.arange(len(messages))
    return replace(
        messages,
        src=(place % 2).astype(np.int32),
        dst=(1 - place % 2).astype(np.int32),
        tag=place // n_steps,
        first_ns=first_ns,
        last_ns=first_ns + US,
        received_ns=first_ns + STEP_US * US,
    )


def begins_ns(messages: Messages, n_steps: int) -> dict[int, set[int]]:
    """When each rank began each collective of a ping-pong."""
    return {rank: {int(ns) for ns in messages.first_ns[rank::n_steps]} for rank in (0, 1)}


def test_the_turnaround_is_that_of_steps_and_never_has_computing_in_it() -> None:
    messages = ping_pong(n_collectives=5, n_steps=20)
    every = np.ones(len(messages), np.bool_)
    assert turnarounds_ns(messages, every, {}) == {0: TURNAROUND_US * US, 1: TURNAROUND_US * US}


def test_one_step_that_waited_for_something_else_changes_nothing() -> None:
    messages = ping_pong(n_collectives=5, n_steps=20, late_us=50_000)
    assert turnarounds_ns(messages, np.ones(len(messages), np.bool_), {})[1] == TURNAROUND_US * US


def test_few_steps_and_recovered_headers_tell_nothing() -> None:
    few = ping_pong(n_collectives=1, n_steps=20)
    assert turnarounds_ns(few, np.ones(len(few), np.bool_), {}) == {}
    messages = ping_pong(n_collectives=5, n_steps=20)
    hidden = replace(messages, recovered=np.ones(len(messages), np.bool_))
    assert turnarounds_ns(hidden, np.ones(len(messages), np.bool_), {}) == {}


def test_collectives_without_tags_are_told_apart_by_when_they_began() -> None:
    messages = replace(ping_pong(n_collectives=5, n_steps=20), tag=np.zeros(100, np.int64))
    every = np.ones(len(messages), np.bool_)
    begun_ns = {
        0: {int(ns) for ns in messages.first_ns[::20]},
        1: {int(ns) for ns in messages.first_ns[1::20]},
    }
    assert turnarounds_ns(messages, every, begun_ns) == {0: TURNAROUND_US * US, 1: TURNAROUND_US * US}


def test_of_messages_without_tags_the_second_of_a_collective_is_a_step() -> None:
    """Recursive doubling among four ranks has two sends a rank: the second is set off by an arrival."""
    messages = replace(ping_pong(n_collectives=30, n_steps=4), tag=np.full(120, UNKNOWN_TAG, np.int64))
    begun_ns = begins_ns(messages, 4)
    every = np.ones(len(messages), np.bool_)
    assert turnarounds_ns(messages, every, begun_ns) == {0: TURNAROUND_US * US, 1: TURNAROUND_US * US}
    assert turnarounds_ns(replace(messages, tag=np.arange(120) // 4), every, {}) == {}


def test_rows_and_collectives_may_come_in_any_order() -> None:
    """Two collectives of a rank under way in turn, their messages in the order of their tags."""
    messages = ping_pong(n_collectives=10, n_steps=20)
    tagged = replace(messages, tag=np.arange(len(messages)) // 2 % 2)
    shuffled = tagged.where(np.random.default_rng(3).permutation(len(messages)))
    every = np.ones(len(messages), np.bool_)
    begun_ns = {
        0: {int(ns) for ns in messages.first_ns[::20]},
        1: {int(ns) for ns in messages.first_ns[1::20]},
    }
    assert turnarounds_ns(shuffled, every, begun_ns) == turnarounds_ns(tagged, every, begun_ns)


def test_a_send_that_waits_for_the_one_before_it_shows_no_turnaround() -> None:
    """Every other send of rank 0 lasts 300 us longer than the answer to it, and holds up the next."""
    messages = ping_pong(n_collectives=10, n_steps=20)
    wait_ns = 300 * US
    slow = np.arange(0, len(messages), 4)
    first_ns, last_ns = messages.first_ns.copy(), messages.last_ns.copy()
    last_ns[slow] = messages.received_ns[slow + 1] + TURNAROUND_US * US + wait_ns
    first_ns[slow + 2] += wait_ns
    held_up = replace(messages, first_ns=first_ns, last_ns=np.maximum(first_ns, last_ns))
    found = turnarounds_ns(held_up, np.ones(len(messages), np.bool_), {})
    assert found == {0: TURNAROUND_US * US, 1: TURNAROUND_US * US}
