"""Two readings of a job are the same only if nothing of them differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.framing.messages import COLUMNS
from gradwire.traces.reader import open_trace
from gradwire.traces.sameness import differences
from gradwire.traces.trace import Trace

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ps_1srv_4wk"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return open_trace([SAMPLE])


def test_a_reading_is_the_same_as_itself(trace: Trace) -> None:
    assert differences(trace, trace) == ()


@pytest.mark.parametrize("name", COLUMNS)
def test_one_value_of_any_column_is_a_difference(trace: Trace, name: str) -> None:
    column = getattr(trace.messages, name).copy()
    column[7] = not column[7] if column.dtype == np.bool_ else column[7] + 1
    other = replace(trace, messages=replace(trace.messages, **{name: column}))
    [said] = differences(trace, other)
    assert said.startswith(f"{name}: 1 of {len(column):,} messages differ, the first at message 7: ")


def test_what_differs_beside_the_messages_is_said(trace: Trace) -> None:
    fewer = replace(trace, messages=trace.messages.where(np.arange(5)))
    assert differences(trace, fewer) == (
        f"messages: {len(trace.messages):,} in the whole packets, 5 in the trimmed ones",
    )
    [said] = differences(trace, replace(trace, framing=""))
    assert said == "framing: gloo in the whole packets, no training in the trimmed ones"
    losses = replace(trace.losses, unresolved=3, unresolved_nbytes=144)
    [said] = differences(trace, replace(trace, losses=losses))
    assert "144 in 3 of the trimmed ones" in said
    addresses = replace(trace.messages, addresses=trace.messages.addresses[::-1])
    [said] = differences(trace, replace(trace, messages=addresses))
    assert said.startswith("ranks: ")
