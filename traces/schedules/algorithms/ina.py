"""Allreduces that switches add up: on one tree over all ranks, or only at each rank's first switch."""

from dataclasses import replace
from itertools import pairwise

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.hints import Leaves
from gradwire.traces.schedules.kinds import chunk_starts
from gradwire.traces.schedules.schedule import Aggregation
from gradwire.traces.schedules.sends import Send


def ina(n_ranks: int) -> Aggregation:
    """All ranks give and take: each host sends S and receives S, and so does each link of the tree."""
    check_ranks("adding up in switches", n_ranks)
    ranks = tuple(range(n_ranks))
    return Aggregation(0, givers=ranks, takers=ranks)


def ina_leaf(n_ranks: int, leaves: Leaves, nbytes: int) -> tuple[tuple[Aggregation, ...], list[Send]]:
    """First switches add up what is below them, hosts do the rest: shard by shard round a ring of the leaves.

    `leaves` has the ranks under each first switch.  The vector of S bytes has as many shards as the smallest
    leaf has ranks, m.  Shard j of it goes round a textbook ring of the leaves' j-th ranks, then from those to
    the others of their leaf.  With L leaves, and k ranks in one:

    - the leaf's uplinks carry 2(L-1)/L S, each way, whatever k is;
    - its first m ranks each send S + 2(L-1)/L S/m + (k-1) S/m, and receive S + 2(L-1)/L S/m + (m-1) S/m;
    - its others send S and receive 2 S.

    A rank alone under its switch adds nothing up there: its S in each of these is gone.  One leaf: that is
    `ina`, and S each way.  Raises NotServedError for fewer than 2 ranks, ValueError if the leaves do not
    have each rank once.
    """
    check_ranks("adding up in switches", n_ranks)
    some = [tuple(leaf) for leaf in leaves if leaf]
    if sorted(rank for leaf in some for rank in leaf) != list(range(n_ranks)):
        raise ValueError(
            f"ina:leaf needs the ranks under each leaf switch, each of {n_ranks} ranks once; got {some}"
        )
    given = [tuple(sorted(leaf)) for leaf in some if len(leaf) > 1]
    added = tuple(Aggregation(0, givers=leaf, takers=leaf) for leaf in given)
    if len(some) == 1:
        return added, []
    sends: list[Send] = []
    cuts = chunk_starts(nbytes, min(map(len, some)))
    for shard, (start, end) in enumerate(pairwise(cuts)):
        sends += _shard(some, shard, start, end - start, first=len(sends))
    return added, sends


def _shard(leaves: Leaves, shard: int, offset: int, nbytes: int, first: int) -> list[Send]:
    """`nbytes` from `offset` on, round the ring of those that own the shard and then inside each leaf."""
    owners = [leaf[shard] for leaf in leaves]
    sends = [
        replace(
            send,
            src=owners[send.src],
            dst=owners[send.dst],
            offset=offset + send.offset,
            needs=tuple(first + other for other in send.needs),
        )
        for send in ring(len(owners), nbytes)
    ]
    # The last step of the reduce-scatter and all of the all-gather bring an owner the L sums of its shard.
    last = len(leaves) - 2
    complete = {
        owner: tuple(first + i for i, s in enumerate(sends) if s.dst == owner and s.step >= last)
        for owner in owners
    }
    for leaf, owner in zip(leaves, owners, strict=True):
        for rank in leaf:
            if rank != owner:
                needs = complete[owner]
                step = 2 * (len(leaves) - 1)
                sends.append(Send(0, owner, rank, offset, nbytes, reduce=False, needs=needs, step=step))
    return sends
