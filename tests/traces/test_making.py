"""Made-up jobs: who waits for whom, who is drawn, and what is refused."""

from collections import Counter
from itertools import product
from statistics import fmean

import pytest

from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import VARIANTS, easgd
from gradwire.traces.making.gossip import PATTERNS, gossip, pairs
from gradwire.traces.making.items import shared_out
from gradwire.traces.making.layerwise import layerwise
from gradwire.traces.making.servers import parameter_servers
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.workload import Compute, Message, Workload

ROUNDS = 1000


def messages(workload: Workload, role: str) -> list[tuple[int, Message]]:
    return [
        (number, item)
        for number, item in enumerate(workload.items)
        if isinstance(item, Message) and item.role == role
    ]


def largest_in_degree(n_ranks: int, number: int) -> int:
    return max(Counter(dst for _, dst in pairs("push", n_ranks, number, 1)).values())


def test_the_largest_in_degree_of_four_ranks_has_the_mean_of_all_their_mappings() -> None:
    mappings = product(*([rank for rank in range(4) if rank != own] for own in range(4)))
    exact = fmean(max(Counter(mapping).values()) for mapping in mappings)
    drawn = fmean(largest_in_degree(4, number) for number in range(ROUNDS))
    assert drawn == pytest.approx(exact, abs=0.06)  # three standard errors


@pytest.mark.parametrize(("n_ranks", "mean"), [(8, 2.6), (16, 3.1)])
def test_the_fullest_rank_of_a_round_is_as_full_as_the_fullest_of_as_many_bins(
    n_ranks: int, mean: float
) -> None:
    """Balls in bins; a rank does not draw itself, which makes hardly a difference."""
    drawn = fmean(largest_in_degree(n_ranks, number) for number in range(ROUNDS))
    assert drawn == pytest.approx(mean, abs=0.1)


@pytest.mark.parametrize(("pattern", "n_ranks"), [*product(PATTERNS, [2, 3, 8])])
def test_no_rank_exchanges_with_itself_and_each_draws_once(pattern: str, n_ranks: int) -> None:
    for number in range(20):
        drawn = pairs(pattern, n_ranks, number, 5)  # type: ignore[arg-type]
        assert all(src != dst for src, dst in drawn)
        draws = [dst if pattern == "pull" else src for src, dst in drawn]
        assert draws == [*range(n_ranks)]
        if pattern == "permutation":
            assert sorted(dst for _, dst in drawn) == [*range(n_ranks)]


@pytest.mark.long
def test_a_long_job_can_be_sent() -> None:
    made = gossip("pull", n_ranks=2, nbytes=4, compute_ns=5, n_rounds=2000, seed=0)
    assert len(expand(made).sends) == 4000


def test_a_pull_of_gossip_waits_for_no_other_pull_of_its_round() -> None:
    made = gossip("pull", n_ranks=8, nbytes=400, compute_ns=5, n_rounds=3, seed=0)
    for item in made.items:
        if isinstance(item, Message):
            (before,) = item.start.after
            assert isinstance(made.items[before], Compute)
            assert made.items[before].iteration == item.iteration


@pytest.mark.parametrize("staleness", [0, 1, 2, None])
def test_a_pull_waits_for_its_own_push_and_for_those_of_others_that_it_must_not_miss(
    staleness: int | None,
) -> None:
    made = parameter_servers(2, 3, nbytes=48, staleness=staleness, compute_ns=5, n_parts=2, n_iterations=4)
    pulls = messages(made, "pull")
    assert len(pulls) == 4 * 3 * 2 * 2
    for _, pull in pulls:
        waits = [made.items[other] for other in pull.start.after]
        assert all(isinstance(push, Message) and push.dst == pull.src for push in waits)
        found = Counter((push.iteration, push.src) for push in waits if isinstance(push, Message))
        own = {(pull.iteration, pull.dst): 1}
        bounded = staleness is not None and pull.iteration >= staleness
        others = {(pull.iteration - (staleness or 0), worker): 1 for worker in (2, 3, 4)} if bounded else {}
        assert found == own | others


def in_one_buffer(made: Workload) -> Workload:
    """With odd and even iterations in the same buffers."""
    items = [
        item.model_copy(update={"centre": item.centre % 2})
        if isinstance(item, Message) and item.centre is not None
        else item
        for item in made.items
    ]
    return made.model_copy(update={"items": tuple(items)})


def test_synchronous_servers_need_a_buffer_for_odd_and_one_for_even_iterations() -> None:
    made = parameter_servers(2, 3, nbytes=48, staleness=0, compute_ns=5, n_parts=2, n_iterations=3)
    check_correct(expand(made))
    with pytest.raises(ValueError, match="may add to centre 0 of rank 0 while operation"):
        check_correct(expand(in_one_buffer(made)))


@pytest.mark.parametrize(("staleness", "behind"), [(0, 1), (1, 2), (None, 2)])
def test_with_staleness_a_worker_computes_while_it_pulls(staleness: int | None, behind: int) -> None:
    made = parameter_servers(1, 2, nbytes=8, staleness=staleness, compute_ns=5, n_parts=1, n_iterations=5)
    for item in made.items:
        if isinstance(item, Compute) and item.iteration >= behind:
            waits = [made.items[other] for other in item.start.after]
            pulled = {pull.iteration for pull in waits if isinstance(pull, Message)}
            assert pulled == {item.iteration - behind}


def test_a_message_of_a_layer_waits_until_the_one_before_has_arrived() -> None:
    made = easgd("round-robin", n_workers=2, nbytes=12, compute_ns=5, n_messages=3, n_iterations=1)
    for role in ("pull", "push"):
        first, *others = messages(made, role)
        assert first[1].ready is None
        for (before, _), (_, message) in zip([first, *others], others, strict=False):
            assert message.start.after == (before,)
            assert message.ready is not None
            assert message.ready.after == (before,)


def test_taxonomies_are_those_of_their_papers() -> None:
    size = {"nbytes": 64, "compute_ns": 5}
    made = [
        gossip("push", n_ranks=4, n_rounds=1, seed=0, **size),
        dlrm([1], n_ranks=4, batch=1, width=1, pooling=1, n_iterations=1, **size),
        *(easgd(v, n_workers=4, n_messages=1, n_iterations=1, **size) for v in VARIANTS),
        *(parameter_servers(1, 4, staleness=n, n_parts=1, n_iterations=1, **size) for n in (0, 3, None)),
    ]
    assert [str(each.taxonomy) for each in made] == [
        "data parallel, decentralised, asynchronous, pattern gossip",
        "hybrid parallel, centralised, synchronous, pattern alltoall",
        "data parallel, decentralised, synchronous, pattern ps",
        *["data parallel, decentralised, asynchronous, pattern ps"] * 2,
        *["data parallel, decentralised, synchronous, pattern allreduce"] * 3,
        "data parallel, centralised, synchronous, pattern ps",
        "data parallel, centralised, bounded (staleness 3), pattern ps",
        "data parallel, centralised, asynchronous, pattern ps",
    ]


def test_bytes_are_shared_out_in_whole_elements_and_none_is_lost() -> None:
    assert shared_out(44, [1, 10]) == [4, 40]
    assert sum(shared_out(4000, [3, 5, 9])) == 4000
    for nbytes, shares in ((40, [1, 0]), (4, [1, 1]), (40, [0, 0])):
        with pytest.raises(ValueError, match="without an element"):
            shared_out(nbytes, shares)


def test_a_layers_forward_pass_waits_for_its_own_allreduce_and_no_other() -> None:
    items = layerwise([4, 8], n_ranks=2, compute_ns=40, n_iterations=1).items
    reduces = [number for number, item in enumerate(items) if not isinstance(item, Compute)]
    assert [item.nbytes for item in items if not isinstance(item, Compute)] == [8, 4]
    computes = [item for item in items if isinstance(item, Compute)]
    assert all(item.duration_ns == 10 for item in computes)
    forward = [set(item.start.after) & set(reduces) for item in computes[-4:]]
    assert forward == [{reduces[1]}] * 2 + [{reduces[0]}] * 2
