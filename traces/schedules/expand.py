"""A workload and an algorithm make a schedule."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from traces.schedules.collectives import (
    ELEMENT_NBYTES,
    GLOO_MAX_SEGMENT_NBYTES,
    NotServedError,
    binomial_broadcast,
    gloo_ring,
    halving_doubling,
    ring,
)
from traces.schedules.doubling import rabenseifner, recursive_doubling
from traces.schedules.pairs import all_pairs
from traces.schedules.schedule import Gate, Op, Schedule, Send
from traces.schedules.trees import broadcast, reduce_broadcast
from traces.workload import Collective, Item, Message, Workload

Allreduce = Callable[[int, int, int, int], list[Send]]

AS_CAPTURED = "as-captured"
ALLREDUCE: dict[str, Allreduce] = {"ring": ring, "halving-doubling": halving_doubling}
ALGORITHMS = (AS_CAPTURED, *ALLREDUCE)
# What was captured of these is done again by the same algorithm; a segmented ring sends the same bytes
# between the same ranks as a textbook one.
CAPTURED: dict[str, Allreduce] = {
    "ring": ring,
    "segmented-ring": ring,
    "recursive-doubling": recursive_doubling,
    "halving-doubling": rabenseifner,
    "all-pairs": all_pairs,
}
PAIRWISE = "pairwise"  # of an alltoall: every rank's chunks to all others, all posted at once
MAX_SENDS = 1_000_000
MAX_RANKS = 512  # a ring of so many has half a million sends


def expand(
    workload: Workload,
    algorithm: str = AS_CAPTURED,
    *,
    iterations: tuple[int, ...] | None = None,
    scale: Fraction = Fraction(1),
    compute: Fraction = Fraction(1),
) -> Schedule:
    """What each rank sends when allreduces are done by `algorithm`; all else stays as captured.

    `iterations` picks items by their iteration (None: all but the set-up).  `scale` multiplies every size
    (and gloo's segment limit with it, so that the number of segments stays), `compute` every compute gap.
    Raises ValueError for an unknown algorithm, one that cannot serve this number of ranks, or an empty
    selection.
    """
    _check(workload, algorithm, scale, compute)
    chosen = _chosen(workload, training_iterations(workload) if iterations is None else iterations)
    ops = tuple(_op(item, scale) for item in chosen.values())
    sends: list[Send] = []
    for op, item in enumerate(chosen.values()):
        sends += _sends(item, workload.n_ranks, ops[op].nbytes, algorithm, scale, op, len(sends))
        if len(sends) > MAX_SENDS:
            raise ValueError(f"more than {MAX_SENDS:,} sends; choose fewer iterations")
    return Schedule(workload.n_ranks, ops, tuple(sends), tuple(_gates(chosen, compute)))


def _check(workload: Workload, algorithm: str, scale: Fraction, compute: Fraction) -> None:
    if algorithm not in (*ALGORITHMS, PAIRWISE):
        raise ValueError(f"no algorithm {algorithm!r}; known: {', '.join(ALGORITHMS)}")
    if scale <= 0 or compute < 0:
        raise ValueError(f"a scale must be above 0 and a compute factor not below: got {scale}, {compute}")
    if workload.n_ranks > MAX_RANKS:
        raise ValueError(f"{workload.n_ranks} ranks; gradwire replays at most {MAX_RANKS}")


def _chosen(workload: Workload, iterations: tuple[int, ...]) -> dict[int, Item]:
    """The items of these iterations by their id in the workload, in its order."""
    chosen = {number: item for number, item in enumerate(workload.items) if item.iteration in iterations}
    if not chosen:
        have = ", ".join(map(str, workload.iterations)) or "none"
        raise ValueError(f"nothing to send in iteration {iterations}; the workload has: {have}")
    return chosen


def _op(item: Item, scale: Fraction) -> Op:
    return Op(
        kind=item.kind,
        nbytes=_scaled(item, scale),
        tag=item.tag,
        root=item.src if isinstance(item, Message) else item.root,
        iteration=item.iteration,
    )


def _gates(chosen: Mapping[int, Item], compute: Fraction) -> Iterator[Gate]:
    """What items wait for; what was not chosen is not waited for."""
    op_of = {number: op for op, number in enumerate(chosen)}
    for number, item in chosen.items():
        for start in (item.start,) if isinstance(item, Message) else item.starts:
            after = tuple(op_of[other] for other in start.after if other in op_of)
            gap_ns = int(start.gap_ns * compute)
            if after or gap_ns:
                yield Gate(op_of[number], start.rank, after, gap_ns)


def training_iterations(workload: Workload) -> tuple[int, ...]:
    """All iterations but the set-up, numbered -1; that alone if there is nothing else."""
    return tuple(number for number in workload.iterations if number >= 0) or workload.iterations


def _sends(
    item: Item, n_ranks: int, nbytes: int, algorithm: str, scale: Fraction, op: int, first: int
) -> list[Send]:
    if isinstance(item, Message):
        return [Send(op, item.src, item.dst, 0, nbytes, reduce=False)]
    if algorithm == PAIRWISE:
        raise NotServedError(f"pairwise is how an alltoall is done, not {item.kind}")
    if item.kind == "broadcast":
        if item.down:
            return broadcast(n_ranks, nbytes, item.root, item.down, op, first)
        return binomial_broadcast(n_ranks, nbytes, item.root, op, first)
    if algorithm == AS_CAPTURED:
        return _as_captured(item, n_ranks, nbytes, scale, op, first)
    return ALLREDUCE[algorithm](n_ranks, nbytes, op, first)


def _as_captured(
    item: Collective, n_ranks: int, nbytes: int, scale: Fraction, op: int, first: int
) -> list[Send]:
    if item.algorithm == "reduce-broadcast":
        trees = {"up": item.up or "binomial", "down": item.down or "binomial"}
        return reduce_broadcast(n_ranks, nbytes, op, first, root=item.root, **trees)
    if item.algorithm in CAPTURED:
        return CAPTURED[item.algorithm](n_ranks, nbytes, op, first)
    limit = max(ELEMENT_NBYTES, int(GLOO_MAX_SEGMENT_NBYTES * scale))
    return gloo_ring(n_ranks, nbytes, op, first, limit)


def _scaled(item: Item, scale: Fraction) -> int:
    """Scaled bytes; of an allreduce, whole float32 elements."""
    if not item.nbytes:
        return 0
    if isinstance(item, Collective) and item.kind == "allreduce":
        elements = max(1, round(Fraction(item.nbytes, ELEMENT_NBYTES) * scale))
        return elements * ELEMENT_NBYTES
    return max(1, round(item.nbytes * scale))
