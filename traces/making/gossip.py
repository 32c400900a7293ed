"""Gossip: in each round every rank computes and then exchanges its model with one peer, drawn at random.

Jin, Yuan, Iandola, Keutzer, How to scale distributed deep learning?, arXiv 1611.04581 (2016): a gossip
aggregation takes the place of the allreduce.  The peers of a round are a random mapping, so a round takes
S β times its largest in-degree (of pulls, out-degree): like the fullest of p bins with p balls.
"""

from typing import Literal, get_args

from gradwire.traces.making.items import Ids, Items
from gradwire.traces.seeded import draw
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.workload import Workload

Pattern = Literal["push", "pull", "permutation"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)


def gossip(
    pattern: Pattern, *, n_ranks: int, nbytes: int, compute_ns: int, n_rounds: int, seed: int
) -> Workload:
    """`n_rounds` rounds; a rank begins the next one when it has sent and received all of its own in this one.

    push: rank i sends its `nbytes` to a drawn other rank, which averages them in.  pull: the drawn rank sends
    to i, from a snapshot of its model: it waits for nothing that it pulls itself in this round, else ranks
    would wait in chains.  permutation: as push, but every rank is drawn once.
    """
    items = Items(n_ranks, n_rounds * 2 * n_ranks)
    after: list[Ids] = [()] * n_ranks
    for number in range(n_rounds):
        after = [(items.add_compute(rank, compute_ns, after[rank], number),) for rank in range(n_ranks)]
        computed = list(after)
        for src, dst in pairs(pattern, n_ranks, number, seed):
            message = items.add_message(src, dst, nbytes, computed[src], number)
            after[src] += (message,)
            after[dst] += (message,)
    taxonomy = Taxonomy(
        parallelism="data", optimisation="decentralised", scheduling="asynchronous", pattern="gossip"
    )
    return items.workload(f"gossip {pattern}, seed {seed}", taxonomy)


def pairs(pattern: Pattern, n_ranks: int, number: int, seed: int) -> list[tuple[int, int]]:
    """Who sends to whom in round `number`, as (source, destination), in the order of the ranks that draw."""
    ranks = range(n_ranks)
    if pattern == "permutation":
        # One circle through all ranks in a drawn order: nobody is its own peer.
        order = sorted(ranks, key=lambda rank: draw(seed, "gossip", number, rank))
        return sorted((rank, order[place - n_ranks + 1]) for place, rank in enumerate(order))
    peers = [(rank + 1 + draw(seed, "gossip", number, rank) % (n_ranks - 1)) % n_ranks for rank in ranks]
    return [(peer, rank) if pattern == "pull" else (rank, peer) for rank, peer in enumerate(peers)]
