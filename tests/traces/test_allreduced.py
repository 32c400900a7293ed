"""Synchronous parameter servers as allreduces: which jobs, and what then waits for what."""

from pathlib import Path

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import read_captured
from gradwire.traces.making.servers import parameter_servers
from gradwire.traces.schedules.allreduced import with_allreduces
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Workload

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


def message(role: str, src: int, dst: int, *after: int, nbytes: int = 4000, iteration: int = 0) -> Message:
    start = Start(rank=src, after=after)
    return Message(src=src, dst=dst, nbytes=nbytes, iteration=iteration, role=role, start=start)  # type: ignore[arg-type]


def compute(rank: int, ms: int, *after: int, iteration: int = 0) -> Compute:
    return Compute(start=Start(rank=rank, after=after), duration_ns=ms * 1_000_000, iteration=iteration)


def job(*items: Item, n_ranks: int = 3) -> Workload:
    return Workload(schema=SCHEMA, framing="gloo", n_ranks=n_ranks, items=items)


ONE_ROUND = (  # rank 1 serves ranks 0 and 2
    compute(0, 5),
    message("push", 0, 1, 0),
    compute(2, 7),
    message("push", 2, 1, 2),
    compute(1, 3, 1, 3),
    message("pull", 1, 0, 4),
    message("pull", 1, 2, 5),
    compute(0, 2, 1, 5),
)


def test_what_all_push_and_pull_is_an_allreduce_of_the_workers() -> None:
    made, notes = with_allreduces(job(*ONE_ROUND).model_copy(update={"late_ns": (5, 0, 9)}))
    assert made.late_ns == ()  # as the others, who wait for what their servers hand out first
    assert made.n_ranks == 2
    (allreduce,) = (item for item in made.items if isinstance(item, Collective))
    assert (allreduce.kind, allreduce.nbytes) == ("allreduce", 4000)
    (note,) = notes
    assert note.startswith("the pushes and pulls of 2 workers became 1 allreduce, and what server 1 computed")


def test_workers_wait_as_before_and_compute_what_the_server_did() -> None:
    made = with_allreduces(job(*ONE_ROUND)).workload
    shown = [
        [(start.rank, start.after) for start in item.begins] + [getattr(item, "duration_ns", None)]
        for item in made.items
    ]
    assert shown == [
        [(0, ()), 5_000_000],
        [(1, ()), 7_000_000],
        [(0, (0,)), (1, (1,)), None],  # the allreduce, when each has computed
        [(0, (2,)), 3_000_000],  # the server's part at each worker
        [(1, (2,)), 3_000_000],
        [(0, (0, 3)), 2_000_000],  # waited for the pull, and for what its own push waited for
    ]


def test_parts_at_several_servers_are_one_allreduce() -> None:
    items = [
        *(message("push", worker, server, nbytes=nbytes) for worker in (2, 3) for server, nbytes in PARTS),
        *(
            message("pull", server, worker, server, server + 2, nbytes=nbytes)
            for server, nbytes in PARTS
            for worker in (2, 3)
        ),
    ]
    made = with_allreduces(job(*items, n_ranks=4)).workload
    assert [(item.kind, item.nbytes) for item in made.items if isinstance(item, Collective)] == [
        ("allreduce", 12_000)
    ]


PARTS = ((0, 4000), (1, 8000))


def test_a_part_that_is_pushed_after_another_was_pulled_stays_by_itself() -> None:
    items = [message("push", worker, 0) for worker in (2, 3)]
    items += [message("pull", 0, worker, 0, 1) for worker in (2, 3)]
    items += [message("push", worker, 1, worker) for worker in (2, 3)]
    items += [message("pull", 1, worker, 4, 5) for worker in (2, 3)]
    made = with_allreduces(job(*items, n_ranks=4)).workload
    first, second = made.items
    assert [start.after for start in first.begins] == [(), ()]
    assert [start.after for start in second.begins] == [(0,), (0,)]


def test_rounds_of_several_tensors_find_their_own_pulls() -> None:
    sizes = (4000, 400, 4000)
    items = [message("push", worker, 1, nbytes=nbytes) for nbytes in sizes for worker in (0, 2)]
    items += [
        message("pull", 1, worker, 2 * n, 2 * n + 1, nbytes=nbytes)
        for n, nbytes in enumerate(sizes)
        for worker in (0, 2)
    ]
    made = with_allreduces(job(*items)).workload
    assert [item.nbytes for item in made.items if isinstance(item, Collective)] == list(sizes)
    assert len(made.items) == 3


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (
            (*ONE_ROUND[:4], message("pull", 1, 0, 1), message("pull", 1, 2, 3)),
            "2 of 2 pushes to rank 1 stay messages: it goes on before all workers have pushed",
        ),
        (
            (*ONE_ROUND[:6], message("pull", 1, 2, 5, nbytes=40)),
            "1 of 1 sums: not every worker pulls as many bytes",
        ),
        ((*ONE_ROUND, message("other", 0, 1)), "there are 1 other messages, from rank 0 to 1"),
        ((*ONE_ROUND, message("push", 0, 1)), "1 of 3 pushes to rank 1 stay messages: not every worker"),
    ],
)
def test_what_is_not_an_allreduce_stays_and_says_why(items: tuple[Item, ...], reason: str) -> None:
    workload = job(*items)
    made, notes = with_allreduces(workload)
    assert made is workload
    assert len(notes) == 1
    assert notes[0].startswith(f"pushes and pulls stay messages: {reason}")


def test_a_job_without_pushes_stays_and_needs_no_words() -> None:
    workload = job(message("other", 0, 1))
    assert with_allreduces(workload) == (workload, ())


@pytest.mark.parametrize("staleness", [0, 1, 2, None])
def test_servers_that_answer_before_all_have_pushed_stay(staleness: int | None) -> None:
    """Also in the middle of a job, where each pull has as many pushes before it as with others."""
    workload = parameter_servers(
        1, 3, nbytes=4000, staleness=staleness, compute_ns=10**6, n_parts=2, n_iterations=6
    )
    assert (with_allreduces(workload).workload is workload) == (staleness != 0)
    assert (with_allreduces(workload, (3, 4)).workload is workload) == (staleness != 0)


@pytest.mark.parametrize("algorithm", ["ring", "ps:central", "hierarchical:grid"])
def test_a_captured_server_can_be_done_by_any_algorithm(algorithm: str) -> None:
    """The sample's job: four workers, three iterations of 340,008 bytes."""
    workload, _ = read_captured([SAMPLES / "ps_1srv_4wk"])
    cell = Cell(parse_fabric("star:hosts=6"), algorithm, "linear", "ecmp")
    plan = plan_of(cell, Experiment(workload, "test"))
    assert [op.nbytes for op in plan.schedule.ops if op.kind == "allreduce"] == [340_008] * 3
    assert plan.n_ranks == 4 + (algorithm == "ps:central")
    assert plan.assumptions[0].startswith("the pushes and pulls of 4 workers became 3 allreduces")


def test_its_own_servers_take_as_long_as_the_captured_messages() -> None:
    """Two servers that answer when all have pushed: the same sends, found in two ways."""
    workload, _ = read_captured([SAMPLES / "slow_ps_2srv_4wk_star20M"])
    fabric = parse_fabric("star:hosts=6,rate=20M")
    captured, made = (
        plan_of(Cell(fabric, name, "linear", "ecmp"), Experiment(workload, "test")).prediction.iteration_s
        for name in ("as-captured", "ps:servers=2,chunk=off")
    )
    assert captured is not None
    assert made == pytest.approx(captured, rel=0.02)
