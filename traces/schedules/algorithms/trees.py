"""Trees over ranks: a reduction up, a broadcast down, and an allreduce as one after the other.

Shapes as in ompi/mca/coll/base/coll_base_topo.c (Open MPI 4.1) and gloo/broadcast.cc, by the rank's distance
from the root, which is number 0.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Shape

CHAINS_FANOUT = 4


def _binomial(number: int, _: int) -> int:
    return number - (1 << (number.bit_length() - 1))


def _in_order_binomial(number: int, _: int) -> int:
    return number & (number - 1)


def _chain(number: int, _: int) -> int:
    return number - 1


def _flat(_: int, __: int) -> int:
    return 0


def _binary(number: int, _: int) -> int:
    """Level after level, each from left to right under all parents in turn."""
    width = 1 << ((number + 1).bit_length() - 1)  # of the number's own level, which begins at width - 1
    return (number - (width - 1)) % max(1, width // 2) + width // 2 - 1


def _chains(number: int, n_ranks: int) -> int:
    """Up to four chains from the root, the longer ones first."""
    fanout = min(CHAINS_FANOUT, n_ranks - 1)
    length, longer = divmod(n_ranks - 1, fanout)
    heads = [1 + i * length + min(i, longer) for i in range(fanout)]
    return 0 if number in heads else number - 1


_PARENT: dict[Shape, Callable[[int, int], int]] = {
    "flat": _flat,
    "binomial": _binomial,
    "in-order-binomial": _in_order_binomial,
    "chain": _chain,
    "binary": _binary,
    "chains": _chains,
}
SHAPES: tuple[Shape, ...] = tuple(_PARENT)


def parents(shape: Shape, n_ranks: int, root: int = 0) -> dict[int, int]:
    """The parent of each rank but the root's, nearer ones to the root first."""
    parent = {number: _PARENT[shape](number, n_ranks) for number in range(1, n_ranks)}
    return {(n + root) % n_ranks: (up + root) % n_ranks for n, up in parent.items()}


def broadcast(n_ranks: int, nbytes: int, root: int = 0, shape: Shape = "binomial") -> list[Send]:
    """From the root to all others, each from its parent; whole, in one send an edge.

    In a step a rank sends to one child, from the step after it got the data itself: along a binomial tree,
    which is gloo's broadcast (gloo/broadcast.cc), ceil(lg n) steps of 1, 2, 4, ... sends.
    """
    check_ranks("a tree", n_ranks)
    sends: list[Send] = []
    arrived: dict[int, int] = {}
    next_step = {root: 0}
    for child, parent in parents(shape, n_ranks, root).items():
        arrived[child] = len(sends)
        needs = (arrived[parent],) if parent != root else ()
        step = next_step[parent]
        next_step[parent] = next_step[child] = step + 1
        sends.append(Send(0, parent, child, 0, nbytes, reduce=False, needs=needs, step=step))
    return sends


def reduce(n_ranks: int, nbytes: int, root: int = 0, shape: Shape = "binomial") -> list[Send]:
    """The root ends with the sum: n-1 sends of the whole buffer, each rank's when it has all from below.

    So in a step all children of a rank may meet at it.
    """
    check_ranks("a tree", n_ranks)
    chunk_starts(nbytes, 1)  # refuses half an element
    sends: list[Send] = []
    into: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
    complete: defaultdict[int, int] = defaultdict(int)  # the step in which a rank has its own sum
    for child, parent in reversed(parents(shape, n_ranks, root).items()):
        step = complete[child]
        complete[parent] = max(complete[parent], step + 1)
        into[parent] = (*into[parent], len(sends))
        sends.append(Send(0, child, parent, 0, nbytes, reduce=True, needs=into[child], step=step))
    return sends


def reduce_broadcast(
    n_ranks: int,
    nbytes: int,
    *,
    root: int = 0,
    up: Shape = "binomial",
    down: Shape = "binomial",
) -> list[Send]:
    """2(n-1) sends of the whole buffer: added up towards the root along one tree, then spread along another.

    Open MPI's `allreduce_intra_nonoverlapping` and `..._basic_linear` (coll_base_allreduce.c).
    """
    sends = reduce(n_ranks, nbytes, root, up)
    n_up = len(sends)
    first_down = max(send.step for send in sends) + 1
    at_root = tuple(number for number, send in enumerate(sends) if send.dst == root)
    for send in broadcast(n_ranks, nbytes, root, down):
        needs = tuple(n_up + other for other in send.needs) or at_root
        sends.append(replace(send, needs=needs, step=first_down + send.step))
    return sends


def binomial_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = ceil(lg p) (alpha + S beta), a reduction or a broadcast along a binomial tree.

    Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience",
    Concurrency and Computation 2007 (minimum spanning tree).
    """
    return (p - 1).bit_length() * (alpha + nbytes * beta)


def chain_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = (p-1) (alpha + S beta), a reduction or a broadcast from rank to rank."""
    return (p - 1) * (alpha + nbytes * beta)


def flat_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = alpha + (p-1) S beta: all meet on the root's link; derived."""
    return alpha + (p - 1) * nbytes * beta
