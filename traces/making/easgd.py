"""Elastic averaging SGD (EASGD): workers' own models, which a centre pulls towards each other.

You, Buluc, Demmel, Scaling deep learning on GPU and Knights Landing clusters, SC'17 (arXiv 1708.02983).
From its abstract: the original goes round by rank; there are asynchronous variants and a synchronous one with
sums along a tree, one packed message and overlap.  Who talks when in each is derived from that, and was not
compared with the paper's text.  A worker's weights move towards the centre's and the centre's towards the
worker's.  So in an exchange S bytes go each way.
"""

from dataclasses import replace
from typing import Literal, get_args

from gradwire.traces.making.items import Access, Ids, Items, cut
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

Variant = Literal["round-robin", "async", "hogwild", "sync1", "sync2", "sync3"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
WITHOUT_TURNS = ("async", "hogwild")
CENTRE_RANK = 0
PUSH, PULL = Access("push", 0), Access("pull", 0)


def easgd(
    variant: Variant, *, n_workers: int, nbytes: int, compute_ns: int, n_messages: int, n_iterations: int
) -> Workload:
    """Iterations of the variant; weights of `nbytes` go in `n_messages`, one after the other.

    With computing for T, and A for what the ranks need to add up S bytes (as made along binomial trees, in
    2 ⌈lg p⌉ steps; `--algorithm` chooses others), and n messages:

    round-robin: the centre, a rank of its own, meets one worker in an iteration, by turns: it sends its
    weights, the worker computes and sends its own.  T + 2 (n α + S β).
    async: every worker computes, sends its weights and gets the centre's, which serves one worker at a time,
    who comes first.  max(T + E, p E) from one exchange of a worker to its next, with E = 2 (n α + S β).
    hogwild: the same without a lock, so that exchanges share the centre's link.
    sync1: all workers compute; their weights are added up at the centre, and its new ones spread.  T + A.
    sync2: likewise, but the centre is on a worker, so that there is one rank less.
    sync3: as sync2, but while workers compute, the weights from before that are added up.  max(T, A).

    Raise ValueError for weights that are not whole elements, or less than one for each message.
    """
    n_ranks = n_workers + (variant not in {"sync2", "sync3"})
    exchanges = n_workers if variant in WITHOUT_TURNS else 1
    items = Items(n_ranks, n_iterations * (n_workers + 2 * n_messages * exchanges))
    sizes = cut(nbytes, n_messages)
    workers = range(n_ranks - n_workers, n_ranks)
    if variant == "round-robin":
        _add_round_robin(items, workers, sizes, compute_ns, n_iterations)
    elif variant in WITHOUT_TURNS:
        _add_without_turns(items, workers, sizes, compute_ns, n_iterations, variant == "async")
    else:
        _add_synchronous(items, n_ranks, workers, sizes, compute_ns, n_iterations, variant == "sync3")
    taxonomy = Taxonomy(
        parallelism="data",
        optimisation="decentralised",
        scheduling="asynchronous" if variant in WITHOUT_TURNS else "synchronous",
        pattern="allreduce" if variant.startswith("sync") else "ps",
    )
    return items.workload(f"easgd {variant}", taxonomy)


def _add_round_robin(
    items: Items, workers: range, sizes: list[int], compute_ns: int, n_iterations: int
) -> None:
    after: Ids = ()
    for number in range(n_iterations):
        worker = workers[number % len(workers)]
        after = items.add_messages(CENTRE_RANK, worker, sizes, after, number, PULL)
        after = (items.add_compute(worker, compute_ns, after, number),)
        after = items.add_messages(worker, CENTRE_RANK, sizes, after, number, PUSH)


def _add_without_turns(
    items: Items, workers: range, sizes: list[int], compute_ns: int, n_iterations: int, has_lock: bool
) -> None:
    after: dict[int, Ids] = dict.fromkeys(workers, ())
    for number in range(n_iterations):
        for worker in workers:
            computed = (items.add_compute(worker, compute_ns, after[worker], number),)
            freed_by = items.next_id + 2 * len(sizes) - 1  # the last message of the exchange
            until = freed_by if has_lock else None
            push, pull = (replace(access, unordered=not has_lock) for access in (PUSH, PULL))
            pushed = items.add_messages(worker, CENTRE_RANK, sizes, computed, number, push, until)
            pulled = items.add_messages(CENTRE_RANK, worker, sizes, pushed, number, pull)
            after[worker] = computed + pulled


def _add_synchronous(
    items: Items,
    n_ranks: int,
    workers: range,
    sizes: list[int],
    compute_ns: int,
    n_iterations: int,
    is_overlapped: bool,
) -> None:
    before: list[Ids] = [()] * n_ranks
    for number in range(n_iterations):
        computed = list(before)
        for worker in workers:
            computed[worker] = (items.add_compute(worker, compute_ns, before[worker], number),)
        after = before if is_overlapped else computed
        for size in sizes:
            after = [(items.add_allreduce(size, after, number),)] * n_ranks
        before = [mine + summed for mine, summed in zip(computed, after, strict=True)]
