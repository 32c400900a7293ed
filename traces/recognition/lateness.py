"""How far apart the ranks of a job begin, as the capture of its beginning shows.

It is chance, but some jobs keep a rhythm for as long as they run that it decided.
"""

from collections.abc import Sequence

import numpy as np

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.starts import OTHER_RUN, Beginning
from gradwire.traces.units import show_long
from gradwire.traces.workload import EXCHANGES, MAX_GAP_NS

OWN_DATA_FIRST = ("ring", "segmented-ring", "all-pairs")  # allreduces that each rank begins by sending


def late_ns(
    operations: Sequence[Operation], starts: Sequence[Sequence[Beginning]], messages: Messages
) -> dict[int, int]:
    """By rank, how much later than the first one it began its first operation, of those that waited for
    nothing; `starts` has the starts of each operation.

    A rank that offers data or asks for some has begun, though its own may wait for a connection that a late
    rank is yet to take.  Ranks that wait for data before they send any, as in a tree, are left out: their
    late beginning is the network's.  Raise BadTrace for one that begins as late as no rank of one job.
    """
    first: dict[int, tuple[int, int, bool]] = {}  # by rank when its first one began, which, whether it waited
    for number, some in enumerate(starts):
        for start in some:
            one = (operations[number].begun[start.rank], number, bool(start.after))
            first[start.rank] = min(first.get(start.rank, one), one)
    begin_ns = min((begun_ns for begun_ns, _, _ in first.values()), default=0)
    signs_ns = {number: _first_signs_ns(operations[number], messages) for _, number, _ in first.values()}
    found = {
        rank: signs_ns[number][rank] - begin_ns
        for rank, (_, number, has_waited) in first.items()
        if not has_waited and _sends_unasked(operations[number], rank)
    }
    for rank, ns in found.items():
        if ns > MAX_GAP_NS:
            raise BadTrace(f"rank {rank} begins {show_long(ns)} after the first one, {OTHER_RUN}")
    return found


def _first_signs_ns(operation: Operation, messages: Messages) -> dict[int, int]:
    """When each rank first offered or asked for data of a collective; a message begins as it is offered."""
    if operation.kind == "message":
        return operation.begun
    said = messages.of(operation.what) & (messages.kind != MessageKind.CONTROL)
    rows = np.flatnonzero(said & (messages.first_ns >= operation.begin_ns))
    ranks, first = np.unique(messages.src[rows], return_index=True)  # rows are in order of time
    said_ns = dict(zip(ranks.tolist(), messages.first_ns[rows[first]].tolist(), strict=True))
    return {rank: min(ns, said_ns.get(rank, ns)) for rank, ns in operation.begun.items()}


def _sends_unasked(operation: Operation, rank: int) -> bool:
    """Whether it sends before anything has come to it; of an exchange that takes turns, its offer does."""
    if operation.kind != "allreduce":
        return rank == operation.src
    n_ranks = len(operation.begun)
    name = operation.recognised.name
    is_by_pairs = name in EXCHANGES and n_ranks & (n_ranks - 1) == 0  # of other numbers some wait
    return name in OWN_DATA_FIRST or is_by_pairs
