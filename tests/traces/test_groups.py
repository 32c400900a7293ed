"""Two process groups of gloo in one job: one connection of each between every two ranks."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from gradwire.traces.packets.streams import Connection
from gradwire.traces.recognition.groups import main_group
from gradwire.traces.recognition.ranks import BadTrace


def connection(a: str, b: str, begin_ns: int, nbytes: int) -> Connection:
    def first_seen_ns(offsets: np.ndarray) -> np.ndarray:
        return begin_ns + offsets

    direction = SimpleNamespace(src=a, dst=b)
    sent = SimpleNamespace(first_seen_ns=first_seen_ns)
    return cast(
        Connection, SimpleNamespace(streams=[SimpleNamespace(direction=direction, sent=sent, nbytes=nbytes)])
    )


def job(second_nbytes: int) -> list[Connection]:
    pairs = [("a", "b"), ("c", "a"), ("b", "c")]
    second = [connection(*pair, 900, second_nbytes) for pair in pairs]
    return second + [connection(*pair, 100, 10**6) for pair in pairs]


def test_one_group_is_all_of_the_job() -> None:
    assert main_group([connection("a", "b", 1, 10), connection("a", "c", 2, 10)]) == ([0, 1], [])


def test_a_group_for_barriers_is_left_aside() -> None:
    training, notes = main_group(job(second_nbytes=500))
    assert training == [3, 4, 5]
    assert notes == ["2 process groups of gloo: left aside 1.5 kB of those that do not train"]


def test_two_groups_that_both_train_are_refused() -> None:
    with pytest.raises(BadTrace, match="2 gloo connections between a and b"):
        main_group(job(second_nbytes=10**6))
