"""A ring whose hosts take a known time from an arrival to a send, seen as messages."""

from dataclasses import replace

import numpy as np

from tests.made_analysis import made_messages
from traces.framing.messages import Messages
from traces.recognition.turnaround import turnarounds_ns

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


def test_the_turnaround_is_that_of_steps_and_never_has_computing_in_it() -> None:
    messages = ping_pong(n_collectives=5, n_steps=20)
    every = np.ones(len(messages), np.bool_)
    assert turnarounds_ns(messages, every) == {0: TURNAROUND_US * US, 1: TURNAROUND_US * US}


def test_one_step_that_waited_for_something_else_changes_nothing() -> None:
    messages = ping_pong(n_collectives=5, n_steps=20, late_us=50_000)
    assert turnarounds_ns(messages, np.ones(len(messages), np.bool_))[1] == TURNAROUND_US * US


def test_few_steps_and_recovered_headers_tell_nothing() -> None:
    few = ping_pong(n_collectives=1, n_steps=20)
    assert turnarounds_ns(few, np.ones(len(few), np.bool_)) == {}
    messages = ping_pong(n_collectives=5, n_steps=20)
    hidden = replace(messages, recovered=np.ones(len(messages), np.bool_))
    assert turnarounds_ns(hidden, np.ones(len(messages), np.bool_)) == {}
