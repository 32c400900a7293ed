"""The halves of a tree allreduce as collectives of their own: a reduce to the root, a broadcast from it."""

from gradwire.traces.schedules import trees
from gradwire.traces.schedules.collectives import check_ranks
from gradwire.traces.schedules.kinds import chunk_starts
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Shape


def reduce(n_ranks: int, nbytes: int, root: int = 0, shape: Shape = "binomial") -> list[Send]:
    """The root ends with the sum: p-1 sends of the whole buffer, each rank's when it has all from below."""
    check_ranks("a tree", n_ranks)
    chunk_starts(nbytes, 1)  # refuses half an element
    made = trees.reduce_broadcast(n_ranks, nbytes, root=root, up=shape) if nbytes else []
    return [send for send in made if send.reduce]


def broadcast(n_ranks: int, nbytes: int, root: int = 0, shape: Shape = "binomial") -> list[Send]:
    """All end with the root's data: p-1 sends of the whole buffer, as `trees.broadcast` makes them."""
    check_ranks("a tree", n_ranks)
    return trees.broadcast(n_ranks, nbytes, root, shape) if nbytes else []


def binomial_s(p: int, nbytes: int, alpha: float, beta: float) -> float:
    """T = ceil(lg p) (alpha + S beta), either half of a binomial tree.

    Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience",
    Concurrency and Computation 2007 (minimum spanning tree).
    """
    return (p - 1).bit_length() * (alpha + nbytes * beta)
