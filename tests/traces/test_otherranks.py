"""The same job with another number of ranks."""

from itertools import pairwise
from pathlib import Path

import pytest

import gradwire
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import read_job
from gradwire.traces.making.collectives import made_allreduce, made_uneven_alltoall
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.otherranks import with_ranks
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Turn, Workload
from tests.made_plans import PAYLOAD_EFFICIENCY

CAPTURES = Path(__file__).parents[1] / "captures"
MB = 10**6
S_PER_MB = MB * 8 / (100e6 * PAYLOAD_EFFICIENCY)


def captured(name: str) -> Workload:
    found = read_job([CAPTURES / name])
    assert isinstance(found, Workload)
    return found


def lines(schedule: Schedule) -> list[tuple[object, ...]]:
    """All sends, with what their operations are; tags count on through a capture's set-up."""
    ops = [(op.kind, op.nbytes, op.iteration) for op in schedule.ops if op.kind != "compute"]
    numbers = [n for n, op in enumerate(schedule.ops) if op.kind != "compute"]
    sends = schedule.sends
    return [
        (ops[numbers.index(send.op)], send.src, send.dst, send.offset, send.nbytes, send.reduce, send.step)
        for send in sends
    ]


def test_a_capture_of_4_on_8_ranks_sends_what_a_capture_of_8_did() -> None:
    """The same model, trained by 4 and by 8 ranks: buckets, and every send of them."""
    eight = captured("slow_ddp_8_mlp_star20M")
    made = with_ranks(captured("ddp_4_mlp_star20M_indexed"), 8).workload
    iterations = eight.iterations[1:]
    assert len(iterations) == 5
    assert lines(expand(made, iterations=iterations)) == lines(expand(eight, iterations=iterations))


@pytest.mark.long
def test_an_iteration_of_it_takes_as_long_as_one_of_the_capture_of_8() -> None:
    """Both on a star at 20 Mb/s: by the model, and from start to start in the packets that 8 ranks sent."""
    taken_ns = gradwire.inspect(CAPTURES / "slow_ddp_8_mlp_star20M").tables["iterations"]["time_ns"]
    cell = Cell(parse_fabric("star:hosts=8,rate=20M"), "as-captured", "linear", "ecmp")
    plan = plan_of(cell, Experiment(with_ranks(captured("ddp_4_mlp_star20M_indexed"), 8).workload, "test"))
    assert plan.prediction.iteration_s == pytest.approx(taken_ns[2:].median() / 1e9, rel=0.05)


def test_further_ranks_compute_as_the_captured_ones_do_from_the_first_on() -> None:
    four = captured("ddp_4_mlp_star20M_indexed")
    made = with_ranks(four, 6).workload

    def computed_ns(workload: Workload, rank: int) -> list[int]:
        return [
            item.duration_ns
            for item in workload.items
            if isinstance(item, Compute) and item.rank == rank and item.iteration > 0
        ]

    for rank, like in enumerate((0, 1, 2, 3, 0, 1)):
        assert computed_ns(made, rank) == computed_ns(four, like)
    assert len(computed_ns(made, 5)) > 7


def served(n_workers: int, server: int, nbytes: int, n_iterations: int = 2, gap_ns: int = 0) -> Workload:
    """Workers push, and a server that has all pushes sends each of them a pull, one after the other; before
    each pull it computes.
    """
    workers = [rank for rank in range(n_workers + 1) if rank != server]
    items: list[Item] = []
    pulls: dict[int, int] = {}
    for iteration in range(n_iterations):
        first = len(items)
        for worker in workers:
            start = Start(rank=worker, after=(pulls[worker],) if pulls else ())
            items.append(
                Message(src=worker, dst=server, nbytes=nbytes, role="push", iteration=iteration, start=start)
            )
        before = tuple(range(first, len(items)))
        for worker in workers:
            start = Start(rank=server, after=before)
            items.append(Compute(start=start, duration_ns=gap_ns, iteration=iteration))
            pulls[worker] = len(items)
            start = Start(rank=server, after=(len(items) - 1,))
            ready = Start(rank=worker, after=(first + workers.index(worker),))
            items.append(
                Message(
                    src=server,
                    dst=worker,
                    nbytes=nbytes,
                    role="pull",
                    iteration=iteration,
                    start=start,
                    ready=ready,
                )
            )
            before = (len(items) - 2,)
    return Workload(schema=SCHEMA, framing="none", n_ranks=n_workers + 1, items=tuple(items))


@pytest.mark.parametrize("server", [0, 1, 3])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 4, 7])
def test_a_server_takes_as_much_longer_as_there_are_more_workers(server: int, n_workers: int) -> None:
    """Synchronous: all pushes come in over the server's link, then all pulls go out: 2 w S beta."""
    made = Workload.model_validate(
        with_ranks(served(3, server, MB), n_workers + 1).workload.model_dump(by_alias=True)
    )
    assert made.n_ranks == n_workers + 1
    for iteration in (0, 1):
        some = [(number, item) for number, item in enumerate(made.items) if item.iteration == iteration]
        first = next(item for _, item in some if isinstance(item, Compute))
        pushes = {number for number, item in some if isinstance(item, Message) and item.dst == first.rank}
        assert len(pushes) == n_workers
        assert pushes <= set(first.start.after)
    cell = Cell(parse_fabric("star:hosts=8"), "as-captured", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made, "test"))
    assert plan.prediction.fluid_s == pytest.approx(2 * 2 * n_workers * S_PER_MB)


def test_a_worker_less_leaves_the_rest_in_their_order() -> None:
    """The last worker goes; the server, the last rank, computes as before, three times in turn."""
    made = with_ranks(served(3, 3, MB, n_iterations=1, gap_ns=10**9), 3).workload
    assert [(item.src, item.dst) for item in made.items if isinstance(item, Message)] == [
        (0, 2),
        (1, 2),
        (2, 0),
        (2, 1),
    ]
    cell = Cell(parse_fabric("star:hosts=8"), "as-captured", "linear", "ecmp")
    time_s = plan_of(cell, Experiment(made, "test")).prediction.fluid_s
    assert time_s == pytest.approx(2 * S_PER_MB + 3)  # while it computes, the pulls are under way


def hurried(locks: bool = False) -> Workload:
    """A server that answers each of two workers as soon as that one has pushed; with `locks` in the order in
    which they come, else in that of the capture.
    """
    items: list[Item] = []
    for worker in (1, 2):
        push = len(items)
        start, until = Start(rank=worker), push + 1 if locks else None
        items.append(Message(src=worker, dst=0, nbytes=MB, role="push", start=start, lock_until=until))
        items.append(Message(src=0, dst=worker, nbytes=MB, role="pull", start=Start(rank=0, after=(push,))))
    return Workload(schema=SCHEMA, framing="none", n_ranks=3, items=tuple(items))


@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_an_asynchronous_server_serves_each_worker_for_itself(
    n_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lock: a push comes in, its pull goes out, and then the next worker's, w (S + S) beta.

    That is of a server that is free when its pull has arrived, so sockets hold nothing here.
    """
    monkeypatch.setattr("gradwire.planning.model.simulation.held_nbytes", lambda _: 0)
    made = Workload.model_validate(
        with_ranks(hurried(locks=True), n_workers + 1).workload.model_dump(by_alias=True)
    )
    for number, item in enumerate(made.items):
        assert isinstance(item, Message)
        if item.role == "pull":
            (push,) = (made.items[other] for other in item.start.after)
            assert isinstance(push, Message)
            assert (push.src, push.lock_until) == (item.dst, number)
    cell = Cell(parse_fabric("star:hosts=8"), "as-captured", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made, "test"))
    assert plan.prediction.fluid_s == pytest.approx(n_workers * 2 * S_PER_MB)


def chatting() -> Workload:
    """Ranks of which neither is a server."""
    items = tuple(Message(src=a, dst=1 - a, nbytes=1024, start=Start(rank=a)) for a in (0, 1))
    return Workload(schema=SCHEMA, framing="none", n_ranks=2, items=items)


def two_servers() -> Workload:
    """One worker that pushes to both."""
    items = [Message(src=0, dst=server, nbytes=MB, role="push", start=Start(rank=0)) for server in (1, 2)]
    return Workload(schema=SCHEMA, framing="none", n_ranks=3, items=tuple(items))


def gossiping() -> Workload:
    return hurried().model_copy(update={"taxonomy": Taxonomy(optimisation="decentralised")})


def staling() -> Workload:
    return hurried().model_copy(update={"taxonomy": Taxonomy(scheduling="bounded", staleness=1)})


def test_turns_of_captured_ranks_say_nothing_of_others() -> None:
    turn = Turn(src=0, dst=1, number=0)
    item = Collective(kind="allreduce", tag=0, nbytes=4096, algorithm="recursive-doubling", turns=(turn,))
    job = Workload(schema=SCHEMA, framing="none", n_ranks=4, items=(item,))
    for n_ranks in (2, 3, 5, 8):
        made = with_ranks(job, n_ranks).workload
        assert made.items[0].turns == ()  # type: ignore[union-attr]
        check_correct(expand(made))


def test_the_captured_number_of_ranks_leaves_the_job_as_it_is() -> None:
    job = made_allreduce(4, 4096, count=3)
    assert with_ranks(job, 4).workload is job


def test_one_iteration_still_follows_the_other() -> None:
    made = with_ranks(made_allreduce(4, 4096, count=3), 6).workload
    assert [len(item.begins) for item in made.items] == [6, 6, 6]
    for before, (item, following) in enumerate(pairwise(made.items)):
        assert item.iteration < following.iteration
        assert {start.after for start in following.begins} == {(before,)}


@pytest.mark.parametrize(
    ("job", "n_ranks", "reason"),
    [
        (made_allreduce(4, 4096), 1, "gradwire plans jobs of 2 to 16,384 ranks, not of 1$"),
        (made_allreduce(4, 4096), 10**9, "not of 1,000,000,000$"),
        (chatting(), 8, "rank 0 sends rank 1 messages, and neither is a parameter server"),
        (served(2, 0, MB), 16_385, "not of 16,385$"),
        (hurried(), 5, "server 0 answers the worker that comes first"),
        (
            gossiping(),
            8,
            "what other ranks would send in a decentralised job is not known: leave --scale-ranks out",
        ),
        (staling(), 8, "what other ranks would send in a job with bounded staleness is not known: leave"),
        (
            made_uneven_alltoall(((1, 2), (3, 4))),
            3,
            "an alltoall's table of blocks is for 2 ranks and does not say what others send: leave",
        ),
        (two_servers(), 2, "2 ranks leave no worker: 2 of the 3 captured are servers"),
    ],
)
def test_what_has_no_meaning_with_other_ranks_is_refused(job: Workload, n_ranks: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        with_ranks(job, n_ranks)
