"""Which ranks serve, and what kind of job it is: small made-up jobs of pushes and pulls."""

from dataclasses import replace

import pytest

from gradwire.traces.recognition.iterations import label
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.servers import View, servers_of
from gradwire.traces.recognition.shape import JobShape, shape_of, taxonomy_of

COMPUTE_NS, UPDATE_NS, WIRE_NS = 10_000, 100, 50


def message(
    src: int, dst: int, begin_ns: int, tag: int = 0, nbytes: int = 1000, wire_ns: int = WIRE_NS
) -> Operation:
    done = {src: begin_ns + wire_ns, dst: begin_ns + wire_ns}
    return Operation("message", "send", tag, nbytes, src, dst, {src: begin_ns}, done)


def training(
    servers: range, workers: range, rounds: int, *, synchronous: bool, apart_ns: int = 0
) -> list[Operation]:
    """Each worker computes (the later ones longer), pushes to all servers and waits for their answers, which
    a server's link holds up: each takes `apart_ns`, and the next begins then.
    """
    ready = dict.fromkeys(workers, 0)
    sends = [message(s, w, 0) for s in servers for w in workers]
    for _ in range(rounds):
        begin = {w: ready[w] + WIRE_NS + COMPUTE_NS + 800 * (w - workers[0]) for w in workers}
        last = max(begin.values())
        for worker in workers:
            for server in servers:
                sends.append(message(worker, server, begin[worker]))
                come = (last if synchronous else begin[worker]) + WIRE_NS + UPDATE_NS
                come += apart_ns * (worker - workers[0])
                sends.append(message(server, worker, come, wire_ns=apart_ns or WIRE_NS))
                ready[worker] = come + apart_ns
    return sorted(sends, key=lambda send: send.begin_ns)


def shape(sends: list[Operation], n_ranks: int) -> JobShape:
    return shape_of(sends, label(sends), n_ranks)


def test_a_server_is_told_by_the_others_waiting_for_it() -> None:
    for n_servers, n_workers in ((1, 4), (2, 2), (2, 4), (3, 2)):
        servers, workers = range(n_servers), range(n_servers, n_servers + n_workers)
        for synchronous in (True, False):
            found = shape(training(servers, workers, 5, synchronous=synchronous), n_servers + n_workers)
            assert (found.kind, found.servers, found.workers) == (
                "parameter-server",
                tuple(servers),
                tuple(workers),
            )
            assert (found.synchronous, found.colocated) == (synchronous, False)


def test_answers_that_wait_for_a_link_do_not_make_a_server_look_like_one_who_computes() -> None:
    for n_servers, n_workers in ((2, 4), (3, 4)):
        servers, workers = range(n_servers), range(n_servers, n_servers + n_workers)
        sends = training(servers, workers, 5, synchronous=True, apart_ns=6 * COMPUTE_NS)
        assert servers_of(sends) == (set(servers), set(workers))


def test_where_no_rank_sends_twice_to_another_the_smaller_side_serves() -> None:
    sends = [message(s, w, 0) for s in (0, 1) for w in range(2, 5)]
    sends += [message(w, s, COMPUTE_NS) for s in (0, 1) for w in range(2, 5)]
    sends += [message(s, w, 2 * COMPUTE_NS) for s in (0, 1) for w in range(2, 5)]
    assert servers_of(sends) == ({0, 1}, {2, 3, 4})


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize(
    ("n_servers", "n_workers", "some"),
    [(3, 2, {0}), (3, 2, {3}), (4, 3, {4, 5}), (3, 3, {3, 4}), (3, 2, {3, 4}), (3, 4, {3, 4}), (2, 2, {2})],
)
def test_captures_of_one_side_show_who_serves_by_who_sent_first(
    n_servers: int, n_workers: int, some: set[int], synchronous: bool
) -> None:
    """Also where gRPC's captures show nothing of the ranks that a captured one exchanges nothing with, and
    where ranks greet each other before.
    """
    servers, workers = range(n_servers), range(n_servers, n_servers + n_workers)
    whole = training(servers, workers, 5, synchronous=synchronous)
    seen = [send for send in whole if {send.src, send.dst} & some]
    greetings = [replace(send, src=send.dst, dst=send.src, nbytes=9) for send in seen[:n_servers]]
    there = {rank for send in seen for rank in (send.src, send.dst)}
    for n_ranks in (n_servers + n_workers, len(there)):
        found = servers_of([*greetings, *seen], View(n_ranks, some, from_start=True))
        assert found == (there & set(servers), there & set(workers))


@pytest.mark.parametrize("some", [{1, 2, 3, 4}, {0}, {1}, {1, 2}])
def test_workers_that_push_first_do_not_serve(some: set[int]) -> None:
    """They made the same model from one seed, so nobody hands it out."""
    whole = training(range(1), range(1, 5), 5, synchronous=True)[4:]
    seen = [send for send in whole if {send.src, send.dst} & some]
    assert servers_of(seen, View(5, some, from_start=True)) == ({0}, {1, 2, 3, 4} & {s.src for s in seen})


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("some", [{4, 5}, {3, 4, 5}, {3, 4, 5, 6}])
def test_several_of_one_side_show_what_they_wait_for_also_in_captures_that_began_later(
    some: set[int], synchronous: bool
) -> None:
    whole = training(range(3), range(3, 7), 6, synchronous=synchronous)[3 * 4 :]
    seen = [send for send in whole if {send.src, send.dst} & some]
    assert servers_of(seen, View(3 + len(some), some)) == ({0, 1, 2}, some)


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("n_servers", [1, 2, 3])
def test_any_hosts_captures_show_the_same_servers_as_all_together(n_servers: int, synchronous: bool) -> None:
    """Of two servers, one worker's capture shows what a server's of two workers would."""
    servers, workers = range(n_servers), range(n_servers, n_servers + 4)
    whole = training(servers, workers, 5, synchronous=synchronous)
    for some in ({0}, {n_servers}, {n_servers, n_servers + 1}, {0, n_servers}, set(servers), set(workers)):
        seen = [send for send in whole if {send.src, send.dst} & some]
        found = servers_of(seen, View(n_servers + 4, some))
        there = {send.src for send in seen}
        assert found == (there & set(servers), there & set(workers)), some


def test_a_coordinator_that_talks_a_little_to_all_changes_nothing() -> None:
    sends = training(range(1), range(1, 4), 4, synchronous=True)
    sends += [message(4, rank, 20 * rank, nbytes=9) for rank in range(4)]
    assert servers_of(sends) == ({0}, {1, 2, 3})
    assert shape(sends, 5).workers == (1, 2, 3)


def test_a_server_that_works_as_well_is_found_by_the_tags() -> None:
    sends = []
    for k in range(3):
        for worker in range(4):
            for server in (0, 1):
                if worker != server:
                    sends.append(message(worker, server, 1000 * k, tag=2))
                    sends.append(message(server, worker, 1000 * k + 500, tag=1))
    found = shape(sorted(sends, key=lambda send: send.begin_ns), 4)
    assert (found.kind, found.servers, found.workers, found.colocated) == (
        "parameter-server",
        (0, 1),
        (0, 1, 2, 3),
        True,
    )


def test_messages_round_a_ring_have_neither() -> None:
    found = shape([message(0, 1, 0), message(1, 2, 1), message(2, 0, 2)], 3)
    assert (found.kind, found.servers, found.colocated) == ("point-to-point", (), None)


def test_an_allreduce_that_moves_most_bytes_makes_the_job() -> None:
    both = {0: 0, 1: 5}
    reduce = replace(
        message(0, 0, 0, nbytes=10**6), kind="allreduce", what="allreduce", begun=both, done=both
    )
    assert shape([reduce, message(0, 1, 9)], 2).kind == "allreduce"


def test_alltoalls_that_move_most_bytes_make_the_job() -> None:
    exchanges = [replace(message(a, b, 0), what="alltoallv") for a in range(3) for b in range(3) if a != b]
    found = shape([*exchanges, message(0, 1, 9)], 3)
    assert (found.kind, found.workers, found.confidence) == ("alltoall", (0, 1, 2), 6 / 7)
    assert shape([*exchanges, message(0, 1, 9, nbytes=10_000)], 3).kind == "point-to-point"


def test_a_capture_shows_the_scheduling_and_the_pattern_but_not_what_the_bytes_mean() -> None:
    both = {0: 0, 1: 5}
    reduce = replace(message(0, 0, 0), kind="allreduce", what="allreduce", begun=both, done=both)
    jobs = [
        [reduce],
        [replace(message(a, 1 - a, 0), what="alltoall") for a in (0, 1)],
        training(range(1), range(1, 4), 5, synchronous=True),
        training(range(1), range(1, 4), 5, synchronous=False),
        [message(0, 1, 0), message(1, 2, 1), message(2, 0, 2)],
    ]
    unknown = "; parallelism, optimisation unknown"
    assert [str(taxonomy_of(shape(sends, 4))) for sends in jobs] == [
        f"synchronous, pattern allreduce{unknown}",
        f"synchronous, pattern alltoall{unknown}",
        f"synchronous, pattern ps{unknown}",
        f"asynchronous, pattern ps{unknown}",
        "parallelism, optimisation, scheduling, pattern unknown",
    ]
    unclear = JobShape("parameter-server", None, (0,), (1, 2), None, 0.5, "")
    assert str(taxonomy_of(unclear)) == "pattern ps; parallelism, optimisation, scheduling unknown"
