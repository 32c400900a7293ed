"""When shares are said, and when they are refused: too much unread, or bulk where nothing is in flight."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np

from gradwire.traces.analysis.bursts import Series
from gradwire.traces.analysis.exposure import Exposure
from gradwire.traces.analysis.shares import refusals, shares
from gradwire.traces.trace import Trace
from tests.made_analysis import ADDRESSES, MS, made_analysis

MADE = made_analysis()


def refused(
    bulk_at_ms: list[float],
    unresolved_nbytes: int = 0,
    warm_up: int = 0,
    n_buckets: int = 1,
    seen_from: tuple[int, ...] = (),
) -> tuple[str, ...]:
    """Packets of 1,448 bytes that arrive at rank 0; it computes alone from 0 to 50 ms of iteration 0."""
    losses = replace(MADE.losses, unresolved_nbytes=unresolved_nbytes)
    trace = cast(Trace, SimpleNamespace(addresses=ADDRESSES, losses=losses, seen_from=seen_from))
    times = np.array([int(ms * MS) for ms in bulk_at_ms], np.int64)
    series = [Series(ADDRESSES[0], "in", times, np.full(len(times), 1448, np.int64))]
    return refusals(trace, series, MADE.spans, MADE.exposures, warm_up, n_buckets)


def test_bulk_that_arrives_while_the_rank_only_computes_refuses_the_shares() -> None:
    flying = [60 + n / 2 for n in range(30)]
    assert refused(flying) == ()
    (why,) = refused([*range(10, 20), *flying])
    assert why == "25.0% of what ranks received came while nothing was known to be in flight"


def test_what_a_warm_up_receives_refuses_nothing() -> None:
    """As the model that is sent to all ranks before they train, inside of no operation of an iteration."""
    flying = [60 + n / 2 for n in range(30)]
    assert refused([*range(10, 20), *flying])
    assert refused([*range(10, 20), *flying], warm_up=1) == ()


def test_one_iteration_of_one_rank_is_too_few_to_tell_what_waited_for_what() -> None:
    (why,) = refused([], warm_up=1, n_buckets=3, seen_from=(0,))
    assert "which of its 3 collectives waited for another" in why
    assert refused([], warm_up=1, n_buckets=1, seen_from=(0,)) == ()
    assert refused([], warm_up=1, n_buckets=3) == ()
    assert refused([], warm_up=0, n_buckets=3, seen_from=(0,)) == ()


def test_more_than_one_per_cent_of_unread_bytes_refuses_the_shares() -> None:
    assert refused([60], unresolved_nbytes=30_000) == ()
    (why,) = refused([60], unresolved_nbytes=60_000)
    assert why == "2.0% of the job's bytes (60 kB) could not be read as messages"


def test_the_warm_up_is_left_out_and_the_rest_is_pooled() -> None:
    both, last = shares(MADE.exposures, warm_up=0), shares(MADE.exposures, warm_up=1)
    assert both is not None and last is not None
    assert (both.n_iterations, both.time_ns, last.n_iterations, last.time_ns) == (2, 200 * MS, 1, 300 * MS)
    assert (both.compute, both.exposed, both.wait) == (0.5, 0.3, 0.2)
    assert shares((), warm_up=0) is None


def test_an_iteration_with_a_checkpoint_in_it_is_left_out_of_the_shares_but_not_of_the_times() -> None:
    """Ranks that compute for 50 of 100 ms, and once for five seconds more."""

    def one(iteration: int, more_ms: int) -> Exposure:
        time_ns, compute_ns = (100 + more_ms) * MS, (50 + more_ms) * MS
        return Exposure(iteration, 0, time_ns, compute_ns, 50 * MS, 0, 0, None)

    found = shares([one(number, 5_000 if number == 4 else 0) for number in range(8)], warm_up=1)
    assert found is not None
    assert (found.compute, found.exposed, found.long) == (0.5, 0.5, (4,))
    assert (found.n_iterations, found.time_ns, found.most_ns) == (7, 100 * MS, 5_100 * MS)
    slower = shares([one(number, 300 if number == 4 else 0) for number in range(8)], warm_up=1)
    assert slower is not None and slower.long == ()
