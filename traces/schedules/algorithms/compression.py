"""Compressed allreduces: of a rank's numbers only the largest are sent, as pairs of an index and a value.

Shi et al., "Towards Scalable Distributed Training of Deep Learning on Public Cloud Clusters" (MSTopK and
HiTopKComm), arXiv 2010.10458.  A pair has 4 bytes of each.  The result is not the sum of all numbers, but
that of those that were sent:

- top-k: every rank gets the pairs of all others, and adds them up;
- gTop-k (Shi et al., "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low
  Bandwidth Networks", ICDCS 2019): pairs are added up along a tree, and wherever two ranks' have been added
  only the k largest are kept; what is left at the root goes to all;
- HiTopK: the ranks of each first switch first add up one shard each, dense; then the ranks that have the same
  shard under all switches do a top-k of it, and each gives its sum to its own switch's ranks.

What is largest is decided by the size of numbers, of equal ones the first.  A share RHO of them is kept, k of
d, rounded down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from gradwire.traces.schedules.algorithm import Algorithm, NotServedError, Stage, check_ranks
from gradwire.traces.schedules.algorithms.ring import all_gather, half_s, reduce_scatter
from gradwire.traces.schedules.algorithms.trees import binomial_s, reduce_broadcast
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, PAIR_NBYTES, chunk_starts
from gradwire.traces.schedules.names import EARLY, STEP
from gradwire.traces.schedules.networks import even_leaves
from gradwire.traces.schedules.schedule import Op
from gradwire.traces.schedules.sends import Sends
from gradwire.traces.units import parse_share


@dataclass(frozen=True, slots=True)
class Share:
    """Of the numbers that are kept by the algorithm `FAMILY:TEXT`."""

    family: str
    text: str
    share: Fraction

    @property
    def name(self) -> str:
        return f"{self.family}:{self.text}"

    def kept(self, n_numbers: int) -> int:
        """How many of this many.  Raise NotServedError for none, and for more than all."""
        if not 0 < self.share <= 1:
            raise NotServedError(
                f"{self.name}: a share of the numbers is above 0 and at most 1; {self.family}:0.01 keeps "
                "one in a hundred"
            )
        if not (k := int(self.share * n_numbers)):
            least = f"{self.family}:1/{n_numbers} or more" if n_numbers else "ring"
            raise NotServedError(
                f"{self.name} keeps less than one of {n_numbers:,} numbers: choose {least}, or larger buffers"
            )
        return k


def compressed(family: str, text: str) -> Algorithm:
    """The algorithm `FAMILY:RHO`.  Raise ValueError for what is not a number."""
    name = f"{family}:{text}"
    try:
        share = Share(family, text, parse_share(text))
    except ValueError as error:
        raise ValueError(f"algorithm {name!r}: {error}") from None
    stages, time_s, closed_form, pace = COMPRESSIONS[family]
    return Algorithm(
        name,
        time_s=partial(time_s, share),
        closed_form=closed_form,
        pace=pace,
        stages=partial(stages, share),
        any_pace=family == "topk",  # round a ring
    )


def topk_stages(share: Share, n_ranks: int, nbytes: int, hints: Hints) -> tuple[Stage, ...]:
    """An all-gather of pairs round a ring: each rank sends (p-1) 8k bytes."""
    del hints
    check_ranks("top-k", n_ranks)
    pairs_nbytes = n_ranks * PAIR_NBYTES * share.kept(_n_numbers(nbytes))
    members = tuple(range(n_ranks))
    op = Op("topk", pairs_nbytes, members=members, algorithm=share.name, dense_nbytes=nbytes)
    return (Stage(op, all_gather(n_ranks, pairs_nbytes)),)


def topk_s(share: Share, p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    """T = (p-1) alpha + (p-1) 8k beta; that of a ring is 2(p-1)/p 4d beta, so they meet at k/d = 1/p."""
    del hints
    return (p - 1) * (alpha + PAIR_NBYTES * share.kept(_n_numbers(nbytes)) * beta)


def gtopk_stages(share: Share, n_ranks: int, nbytes: int, hints: Hints) -> tuple[Stage, ...]:
    """Up a binomial tree to the first rank and down again, 8k bytes a send.

    The result depends on the order of merges, so a rank is ready for a child's pairs when it has merged those
    of the child before.
    """
    del hints
    check_ranks("gTop-k", n_ranks)
    pairs_nbytes = PAIR_NBYTES * share.kept(_n_numbers(nbytes))
    sends = reduce_broadcast(n_ranks, pairs_nbytes)
    merged: dict[int, tuple[int, ...]] = {}
    for number, send in enumerate(sends):
        if send.reduce:
            sends[number] = replace(send, ready=merged.get(send.dst, ()))
            merged[send.dst] = (number,)
    members = tuple(range(n_ranks))
    op = Op("gtopk", pairs_nbytes, members=members, algorithm=share.name, dense_nbytes=nbytes)
    return (Stage(op, Sends.of(sends)),)


def gtopk_s(share: Share, p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    """T = 2 ceil(lg p) (alpha + 8k beta): the authors' lg p (alpha + 8k beta) up, and as much down."""
    del hints
    return 2 * binomial_s(p, PAIR_NBYTES * share.kept(_n_numbers(nbytes)), alpha, beta)


def hitopk_stages(share: Share, n_ranks: int, nbytes: int, hints: Hints) -> tuple[Stage, ...]:
    """Of m switches with n ranks each a switch's links upwards carry (m-1) RHO d 8 bytes, each way."""
    leaves = _leaves(n_ranks, hints)
    size = len(leaves[0])
    pairs_nbytes = len(leaves) * PAIR_NBYTES * share.kept(_n_numbers(nbytes) // size)
    lines = tuple(tuple(sorted(line)) for line in zip(*leaves, strict=True))
    whole = Op("topk", pairs_nbytes, members=tuple(range(n_ranks)), groups=lines, dense_nbytes=nbytes)
    across = Stage(whole, _in_each(lines, all_gather(len(leaves), pairs_nbytes)))
    if size == 1:
        return (replace(across, op=replace(whole, algorithm=share.name)),)
    inside = replace(whole, nbytes=nbytes, groups=leaves, dense_nbytes=0)
    return (
        Stage(
            replace(inside, kind="reducescatter", algorithm=share.name),
            _in_each(leaves, reduce_scatter(size, nbytes)),
        ),
        replace(across, op=replace(whole, source=0)),
        Stage(replace(inside, kind="allgather", source=1), _in_each(leaves, all_gather(size, nbytes))),
    )


def hitopk_s(share: Share, p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    """T = 2 (n-1) (alpha + S/n beta) + (m-1) (alpha + 8 RHO d/n beta), if all links are as fast."""
    leaves = _leaves(p, hints)
    size = len(leaves[0])
    pairs_nbytes = PAIR_NBYTES * share.kept(_n_numbers(nbytes) // size)
    return 2 * half_s(size, nbytes, alpha, beta) + (len(leaves) - 1) * (alpha + pairs_nbytes * beta)


def _n_numbers(nbytes: int) -> int:
    return chunk_starts(nbytes, 1)[-1] // ELEMENT_NBYTES


def _leaves(n_ranks: int, hints: Hints) -> tuple[tuple[int, ...], ...]:
    """The ranks under each first switch, ascending."""
    return tuple(tuple(sorted(leaf)) for leaf in even_leaves("hitopk", n_ranks, hints, "topk"))


def _in_each(groups: Sequence[Sequence[int]], sends: Sends) -> Sends:
    """What ranks 0, 1, ... send, done by the ranks of each group."""
    ranks = [np.array(group, np.int32) for group in groups]
    return Sends.joined([replace(sends, src=place[sends.src], dst=place[sends.dst]) for place in ranks])


_Stages = Callable[[Share, int, int, Hints], tuple[Stage, ...]]
_Time = Callable[[Share, int, int, float, float, Hints], float]
COMPRESSIONS: dict[str, tuple[_Stages, _Time, str, str]] = {
    "topk": (topk_stages, topk_s, "(p−1)(α + 8k·β) (Shi et al. 2020)", EARLY),
    "gtopk": (gtopk_stages, gtopk_s, "2⌈lg p⌉(α + 8k·β) (Shi et al. 2019)", STEP),
    "hitopk": (
        hitopk_stages,
        hitopk_s,
        "2(n−1)(α + S/n·β) + (m−1)(α + 8k/n·β), p = mn (Shi et al. 2020, derived)",
        EARLY,
    ),
}
