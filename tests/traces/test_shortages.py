"""What an error says of a limit that was reached: once, however many processes report it."""

import pytest

from gradwire.traces.shortages import advised

REACHED = [
    "Too many open files in system",
    "Too many open files",
    "File too large",
    "Cannot allocate memory",
    "Memory allocation still failed",
    "MemoryError",
    "can't start new thread",
]


@pytest.mark.parametrize("words", REACHED)
def test_what_raises_a_limit_is_said_once(words: str) -> None:
    said = advised(f"the agent: [Errno 5] {words}.")
    assert said.startswith(f"the agent: {words}: raise the ")
    assert advised(said) == said
    assert advised(f"gradwire: {said}") == f"gradwire: {said}"


def test_an_error_about_no_limit_stays_as_it_is() -> None:
    assert advised("rank 3 is silent.") == "rank 3 is silent."
