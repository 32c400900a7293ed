"""Expands a workload into a schedule, with a given algorithm."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from gradwire.traces.schedules.aggregating import Leaves, ina, ina_leaf
from gradwire.traces.schedules.collectives import (
    ELEMENT_NBYTES,
    GLOO_MAX_SEGMENT_NBYTES,
    NotServedError,
    all_pairs,
    gloo_ring,
    gloo_ring_sends,
    ring,
)
from gradwire.traces.schedules.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.inturn import in_turn
from gradwire.traces.schedules.kinds import CONTRACTS
from gradwire.traces.schedules.pushes import Unit, after_of, summed_pushes
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule, Send
from gradwire.traces.schedules.selection import bridged, in_order, prepared
from gradwire.traces.schedules.trees import SHAPES, broadcast, reduce_broadcast
from gradwire.traces.workload import Collective, Compute, Item, Message, Workload

Allreduce = Callable[[int, int, int, int], list[Send]]

AS_CAPTURED = "as-captured"
ALLREDUCE: dict[str, Allreduce] = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "recursive-doubling": recursive_doubling,
    "all-pairs": all_pairs,
    **{f"tree:{shape}": partial(reduce_broadcast, up=shape, down=shape) for shape in SHAPES},
}
INA, INA_LEAF = "ina", "ina:leaf"  # switches add: those of a tree over all ranks, or each rank's first alone
ALGORITHMS = (AS_CAPTURED, *ALLREDUCE, INA, INA_LEAF)
# What was captured of these is done again by the same algorithm; a segmented ring sends the same bytes
# between the same ranks as a textbook one.
CAPTURED: dict[str, Allreduce] = {**ALLREDUCE, "segmented-ring": ring}
PAIRWISE = "pairwise"  # of an alltoall: every rank's chunks to all others, all posted at once
MAX_SENDS = 1_000_000
TOO_MANY_SENDS = f"the schedule has more than {MAX_SENDS:,} sends; choose fewer iterations"
MAX_RANKS = 512  # a ring of so many has half a million sends


@dataclass(frozen=True, slots=True)
class _How:
    """What all operations of a schedule have in common."""

    n_ranks: int
    algorithm: str
    scale: Fraction
    leaves: Leaves


def expand(
    workload: Workload,
    algorithm: str = AS_CAPTURED,
    *,
    iterations: tuple[int, ...] | None = None,
    scale: Fraction = Fraction(1),
    compute: Fraction = Fraction(1),
    leaves: Leaves = (),
) -> Schedule:
    """What each rank sends when allreduces are done by `algorithm`; all else stays as captured.

    `iterations` picks items by their iteration (None: all but the set-up).  `scale` multiplies every size
    (and gloo's segment limit with it, so that the number of segments stays), `compute` what ranks compute.
    `leaves` has the ranks under each first switch, for ina:leaf.  With ina, pushes to a parameter server that
    belong together are added up too (`not_added` tells of the others).
    Raises ValueError for an unknown algorithm or an empty selection, NotServedError for an algorithm that
    cannot serve this workload.
    """
    _check(workload, algorithm, scale, compute)
    chosen = _chosen(workload, iterations)
    units = _units(workload, chosen, algorithm)
    how = _How(workload.n_ranks, algorithm, scale, leaves)
    ops = tuple(_op([chosen[number] for number in unit], how) for unit in units)
    sends: list[Send] = []
    aggregations: list[Aggregation] = []
    for number, unit in enumerate(units):
        added, more = _carried([chosen[one] for one in unit], ops[number], how, number, len(sends))
        aggregations += added
        sends += more
        if len(sends) > MAX_SENDS:
            raise ValueError(TOO_MANY_SENDS)
    gates = tuple(_gates(chosen, units, compute))
    return Schedule(workload.n_ranks, ops, tuple(sends), gates, tuple(aggregations))


def not_added(workload: Workload, *, iterations: tuple[int, ...] | None = None) -> tuple[str, ...]:
    """Which pushes stay messages with ina although a server gets them, one line for each reason."""
    return summed_pushes(workload.items, _chosen(workload, iterations)).notes


def _units(workload: Workload, chosen: Mapping[int, Item], algorithm: str) -> tuple[Unit, ...]:
    """The items of each operation; raise NotServedError if switches are to add and there is nothing to."""
    if algorithm not in (INA, INA_LEAF):
        return tuple((number,) for number in in_order(chosen))
    alone = tuple((number,) for number in chosen)
    reduces = any(CONTRACTS[item.kind].adds for item in chosen.values())
    if algorithm == INA_LEAF:
        if not reduces:
            raise NotServedError(
                "ina:leaf adds up allreduces only, whose sums the hosts of all leaves then exchange; "
                "use ina for pushes to a parameter server, which switches add up on the whole way to it"
            )
        return alone
    summed = summed_pushes(workload.items, chosen)
    if not reduces and not summed.n_sums:
        why = "; ".join(summed.notes) or "it has no allreduce and no pushes to a parameter server"
        raise NotServedError(f"switches can add up nothing in this job: {why}")
    return summed.units


def _check(workload: Workload, algorithm: str, scale: Fraction, compute: Fraction) -> None:
    if algorithm not in (*ALGORITHMS, PAIRWISE):
        raise ValueError(f"there is no algorithm {algorithm!r}; choose from {', '.join(ALGORITHMS)}")
    if scale <= 0 or compute < 0:
        raise ValueError(
            f"a scale must be above 0 and a compute factor at least 0, got {scale} and {compute}"
        )
    if workload.n_ranks > MAX_RANKS:
        raise ValueError(f"the job has {workload.n_ranks} ranks; gradwire replays at most {MAX_RANKS}")


def _chosen(workload: Workload, iterations: tuple[int, ...] | None) -> dict[int, Item]:
    """The items of these iterations by their id in the workload, in its order."""
    iterations = training_iterations(workload) if iterations is None else iterations
    chosen = {number: item for number, item in enumerate(workload.items) if item.iteration in iterations}
    if all(isinstance(item, Compute) for item in chosen.values()):
        have = ", ".join(map(str, workload.iterations)) or "none"
        asked = ", ".join(map(str, iterations))
        raise ValueError(f"nothing to send in iteration {asked}; the workload has iterations: {have}")
    return bridged(workload.items, chosen)


def _op(items: Sequence[Item], how: _How) -> Op:
    """An operation of one item, or of several pushes."""
    first = items[0]
    if isinstance(first, Compute):
        return Op(kind="compute", nbytes=0, root=first.rank, iteration=first.iteration)
    is_sum = len(items) > 1
    root = first.root if isinstance(first, Collective) else first.dst if is_sum else first.src
    return Op(
        kind="reduce" if is_sum else first.kind,
        nbytes=_scaled(first, how.scale, in_elements=is_sum or CONTRACTS[first.kind].adds),
        tag=first.tag,
        root=root,
        iteration=first.iteration,
        rendezvous=isinstance(first, Collective) and first.rendezvous and _is_as_captured(first, how),
    )


def _is_as_captured(item: Collective, how: _How) -> bool:
    return item.kind == "broadcast" or how.algorithm in (AS_CAPTURED, item.algorithm)


def _gates(chosen: Mapping[int, Item], units: Sequence[Unit], compute: Fraction) -> Iterator[Gate]:
    """What items wait for (through what was not chosen: traces.schedules.selection)."""
    waits = after_of(chosen, units)
    for op, unit in enumerate(units):
        for number in unit:
            item = chosen[number]
            if isinstance(item, Compute):
                yield _computing(op, item, waits[number, item.rank], compute)
                continue
            for start in item.begins:
                after = waits[number, start.rank]
                if after:
                    yield Gate(op, start.rank, after)
    yield from prepared(chosen, units)


def _computing(op: int, item: Compute, after: tuple[int, ...], compute: Fraction) -> Gate:
    gap_ns = int(item.duration_ns * compute)
    most_ns = gap_ns if item.most_ns is None else int(item.most_ns * compute)
    return Gate(op, item.rank, after, gap_ns, most_ns if most_ns > gap_ns else None)


def training_iterations(workload: Workload) -> tuple[int, ...]:
    """All iterations but the set-up, numbered -1; that alone if there is nothing else."""
    return tuple(number for number in workload.iterations if number >= 0) or workload.iterations


def _carried(
    items: Sequence[Item], op: Op, how: _How, number: int, first: int
) -> tuple[Sequence[Aggregation], list[Send]]:
    """What switches add up of operation `number`, and what ranks send; `first` is the first send's id."""
    pushes = [item for item in items if isinstance(item, Message)]
    if op.kind == "reduce":
        givers = tuple(sorted(push.src for push in pushes))
        return (Aggregation(number, givers, takers=(op.root,)),), []
    if op.kind == "allreduce" and how.algorithm == INA:
        return (ina(how.n_ranks, number),), []
    if op.kind == "allreduce" and how.algorithm == INA_LEAF:
        return ina_leaf(how.n_ranks, how.leaves, op.nbytes, number, first)
    return (), _sends(items[0], how, op.nbytes, number, first)


def _sends(item: Item, how: _How, nbytes: int, op: int, first: int) -> list[Send]:
    if isinstance(item, Compute):
        return []
    if isinstance(item, Message):
        return [Send(op, item.src, item.dst, 0, nbytes, reduce=False)]
    if how.algorithm == PAIRWISE:
        raise NotServedError(f"{PAIRWISE} is an algorithm for an alltoall, not for {item.kind}")
    if item.kind == "broadcast":
        return broadcast(how.n_ranks, nbytes, item.root, item.down or "binomial", op, first)
    if how.algorithm == AS_CAPTURED:
        return _as_captured(item, how, nbytes, op, first)
    return ALLREDUCE[how.algorithm](how.n_ranks, nbytes, op, first)


def _as_captured(item: Collective, how: _How, nbytes: int, op: int, first: int) -> list[Send]:
    if item.algorithm == "reduce-broadcast":
        trees = {"up": item.up or "binomial", "down": item.down or "binomial"}
        return reduce_broadcast(how.n_ranks, nbytes, op, first, root=item.root, **trees)
    if item.algorithm in CAPTURED:
        return in_turn(CAPTURED[item.algorithm](how.n_ranks, nbytes, op, first), item.turns, first)
    limit = max(ELEMENT_NBYTES, int(GLOO_MAX_SEGMENT_NBYTES * how.scale))
    if first + gloo_ring_sends(how.n_ranks, nbytes, limit) > MAX_SENDS:  # before they are made
        raise ValueError(TOO_MANY_SENDS)
    return gloo_ring(how.n_ranks, nbytes, op, first, limit)


def _scaled(item: Collective | Message, scale: Fraction, *, in_elements: bool) -> int:
    """Scaled bytes; of what is added up, whole float32 elements."""
    if not item.nbytes:
        return 0
    if in_elements:
        elements = max(1, round(Fraction(item.nbytes, ELEMENT_NBYTES) * scale))
        return elements * ELEMENT_NBYTES
    return max(1, round(item.nbytes * scale))
