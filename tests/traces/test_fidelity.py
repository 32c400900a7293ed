"""The fidelity score, by its formula: identical is 1, and each difference costs what the formula says."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.project import PROJECT
from gradwire.traces.fidelity import SentMessage, captured_messages, fidelity, message_starts
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job

MS = 1_000_000
PERIOD_MS = 100


def message(iteration: int, number: int, *, nbytes: int = 1000, src: int = 0, dst: int = 1) -> SentMessage:
    start_ns = (iteration * PERIOD_MS + 10 * number) * MS
    return SentMessage(iteration, src, dst, nbytes, start_ns, start_ns + 5 * MS)


CAPTURED = tuple(
    message(iteration, number, nbytes=1000 + number) for iteration in range(3) for number in range(4)
)


def moved(one: SentMessage, by_ms: float) -> SentMessage:
    return replace(one, start_ns=one.start_ns + int(by_ms * MS), end_ns=one.end_ns + int(by_ms * MS))


def test_a_replay_that_is_identical_scores_one_whatever_its_clock() -> None:
    assert fidelity(CAPTURED, CAPTURED).score == 1
    assert fidelity(CAPTURED, [moved(one, 12_345) for one in CAPTURED]).score == 1


def test_nothing_replayed_scores_nothing() -> None:
    found = fidelity(CAPTURED, ())
    assert (found.score, found.share, found.matched) == (0, 0, 0)


def test_a_message_that_is_late_costs_its_lateness_over_the_iteration() -> None:
    """One of 12 is 30 ms late, of iterations of 100 ms: the mean is 0.3 / 12."""
    late = [moved(one, 30) if one == CAPTURED[3] else one for one in CAPTURED]
    found = fidelity(CAPTURED, late)
    assert found.share == 1
    assert found.time_error == pytest.approx(0.3 / 12)
    assert found.score == pytest.approx(1 - 0.3 / 12)


def test_an_end_that_is_late_counts_half() -> None:
    late = [replace(one, end_ns=one.end_ns + 30 * MS) if one == CAPTURED[3] else one for one in CAPTURED]
    assert fidelity(CAPTURED, late).time_error == pytest.approx(0.3 / 2 / 12)


def test_lateness_beyond_an_iteration_counts_as_one() -> None:
    late = [moved(one, 10_000) if one == CAPTURED[-1] else one for one in CAPTURED]
    assert fidelity(CAPTURED, late).time_error == pytest.approx(1 / 12)


def test_a_missing_message_and_one_too_many_lower_the_share() -> None:
    assert fidelity(CAPTURED, CAPTURED[:-1]).share == pytest.approx(2 * 11 / 23)
    more = (*CAPTURED, message(2, 7, nbytes=7))
    assert fidelity(CAPTURED, more).share == pytest.approx(2 * 12 / 25)


def test_another_size_is_no_match() -> None:
    other = [replace(one, nbytes=77) if one == CAPTURED[0] else one for one in CAPTURED]
    assert fidelity(CAPTURED, other).matched == 11


def test_messages_in_another_order_match_as_far_as_the_order_is_the_same() -> None:
    """In one of the iterations two of four change places: three of them are in order."""
    times = {CAPTURED[1]: CAPTURED[2], CAPTURED[2]: CAPTURED[1]}
    swapped = [replace(one, start_ns=times.get(one, one).start_ns) for one in CAPTURED]
    assert fidelity(CAPTURED, swapped).matched == 11


def test_the_length_of_an_iteration_is_not_in_the_score() -> None:
    """Iterations twice as far apart, with the same inside."""
    slower = [moved(one, one.iteration * PERIOD_MS) for one in CAPTURED]
    assert fidelity(CAPTURED, slower).score == 1


def test_a_capture_without_messages_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no message"):
        fidelity((), CAPTURED)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 3), st.integers(0, 300)), min_size=1
    ),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 3), st.integers(0, 300))),
)
def test_the_score_is_between_nothing_and_one(
    theirs: list[tuple[int, int, int, int]], ours: list[tuple[int, int, int, int]]
) -> None:
    captured, replayed = (
        [SentMessage(i, src, 1 - src, nbytes, t * MS, (t + 1) * MS) for i, src, nbytes, t in side]
        for side in (theirs, ours)
    )
    found = fidelity(captured, replayed)
    assert 0 <= found.score <= 1
    assert fidelity(captured, captured).score == 1


def test_the_messages_of_a_real_capture_are_those_of_its_rings() -> None:
    """gloo's ring of 8 ranks: 2 · 7 steps of two segments on each of 8 edges, in each of 3 iterations."""
    captured = captured_messages(find_job(open_trace([PROJECT / "traces" / "samples" / "ddp_gloo_8"])))
    edges = Counter((each.iteration, each.src, (each.dst - each.src) % 8) for each in captured)
    ways = {way for _, _, way in edges}
    assert len(ways) == 1  # all to the same neighbour
    assert edges == dict.fromkeys(product(range(3), range(8), ways), 2 * 7 * 2)
    starts = message_starts(captured, range(8))
    assert all(sorted(of_rank.values()) == [of_rank[i] for i in range(3)] for of_rank in starts.values())
    assert fidelity(captured, captured).score == 1
