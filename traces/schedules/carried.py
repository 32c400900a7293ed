"""How one operation of a workload is done: what ranks send, and what switches add up."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

from gradwire.traces.schedules.algorithms.gloo import (
    GLOO_MAX_SEGMENT_NBYTES,
    gloo_ring,
    gloo_ring_sends,
)
from gradwire.traces.schedules.algorithms.ina import ina, ina_leaf
from gradwire.traces.schedules.algorithms.trees import reduce_broadcast
from gradwire.traces.schedules.collectives import algorithm as algorithm_of
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.schedules.hints import Hints, as_float32
from gradwire.traces.schedules.kinds import CONTRACTS, ELEMENT_NBYTES, CollectiveKind, narrowing
from gradwire.traces.schedules.names import (
    AS_CAPTURED,
    DEFAULTS,
    EARLY,
    FAMILIES_OF_FEW,
    FEW_SENDS,
    INA,
    INA_LEAF,
    OF_HOSTS,
)
from gradwire.traces.schedules.pacing import captured, early_in_two_buffers, paced
from gradwire.traces.schedules.schedule import Aggregation, Op
from gradwire.traces.schedules.sends import MAX_SENDS, Send, Sends
from gradwire.traces.units import show_nbytes
from gradwire.traces.workload import Collective, Compute, Item, Turn, Workload

TOO_MANY_SENDS = (
    f"the schedule has more than {MAX_SENDS:,} sends, the most that fit in this machine's memory; choose "
    "fewer iterations, or another algorithm"
)


@dataclass(frozen=True, slots=True)
class How:
    """What all operations of a schedule have in common.

    `algorithm` is for collectives of one kind; `n_servers` further ranks help with allreduces.
    """

    n_ranks: int
    n_servers: int
    collective: CollectiveKind
    algorithm: str
    scale: Fraction
    hints: Hints
    wire: DType = FLOAT32
    pace: str | None = None

    def algorithm_for(self, item: Collective) -> str:
        return self.algorithm if item.kind == self.collective else AS_CAPTURED


@dataclass(frozen=True, slots=True)
class Carried:
    """What switches add up of one operation, and what ranks send, as operation 0; `room_nbytes` is what that
    needs of every buffer for data on their way.
    """

    aggregations: tuple[Aggregation, ...]
    sends: Sends
    room_nbytes: int = 0


def kind_chosen_for(workload: Workload) -> CollectiveKind:
    """The kind of collectives that an algorithm is chosen for: allreduces, if there is not one other kind and
    no message.
    """
    kinds = {item.kind for item in workload.items if not isinstance(item, Compute)}
    only = kinds.pop() if len(kinds) == 1 else "allreduce"
    return "allreduce" if only == "message" else only


def name_of(item: Collective, how: How) -> str:
    """The name of the algorithm that does it; empty for gloo's own, and for ranks that take turns."""
    chosen = how.algorithm_for(item)
    if chosen != AS_CAPTURED:
        return chosen
    if item.kind == "broadcast":
        return f"tree:{item.down or 'binomial'}"
    if item.kind == "reduce":
        return f"tree:{item.up or 'binomial'}"
    if item.kind != "allreduce":
        return item.algorithm or DEFAULTS[item.kind]
    if item.algorithm == "reduce-broadcast":
        up, down = item.up or "binomial", item.down or "binomial"
        return f"tree:{up}" if up == down else ""
    name = _textbook(item)
    return name if name in OF_HOSTS and not item.turns else ""


def _textbook(item: Collective) -> str | None:
    """A segmented ring sends the same bytes between the same ranks as a textbook one."""
    return "ring" if item.algorithm == "segmented-ring" else item.algorithm


def carried_of(items: Sequence[Item], op: Op, how: How, most_sends: int) -> Carried:
    """Raise ValueError where there would be many more sends than `most_sends`, NotServedError for what the
    algorithm cannot do.
    """
    item = items[0]
    if not isinstance(item, Collective):
        pushed = (Aggregation(0, op.givers, takers=(op.root,)),) if op.kind == "reduce" else ()
        return Carried(pushed, Sends.of(()))
    if op.kind == "allreduce" and how.algorithm == INA:
        return Carried((ina(how.n_ranks),), Sends.of(()))
    if op.kind == "allreduce" and how.algorithm == INA_LEAF:
        aggregations, listed = ina_leaf(how.n_ranks, how.hints.leaves, op.nbytes)
        return Carried(aggregations, paced(Sends.of(listed), how.pace or EARLY))
    if op.contract.adds:
        nbytes, hints = as_float32(op.nbytes, how.hints, how.wire)
        wide = _collective(item, replace(how, hints=hints), nbytes, most_sends)
        sends = wide.narrowed(narrowing(how.wire))
    else:
        with_sizes = replace(how, hints=replace(how.hints, sizes=op.sizes))
        sends = _collective(item, with_sizes, op.nbytes, most_sends)
    return Carried((), sends, max(0, _reach_nbytes(sends) - op.buffer_nbytes))


def _reach_nbytes(sends: Sends) -> int:
    """Where the last byte that is read or written lies."""
    ends = sends.offset + sends.nbytes
    return int(max(ends.max(initial=0), (ends + sends.shift).max(initial=0)))


def _collective(item: Collective, how: How, nbytes: int, most_sends: int) -> Sends:
    if item.kind == "allreduce" and how.algorithm_for(item) == AS_CAPTURED:
        return Sends.of(_allreduce_as_captured(item, how, nbytes, most_sends))
    found = algorithm_of(name_of(item, how), item.kind)
    sends = Sends.of(found.sends(how.n_ranks, nbytes, how.hints))
    if CONTRACTS[item.kind].is_rooted:
        sends = _from_root(sends, item.root, how.n_ranks)
    if how.algorithm_for(item) == AS_CAPTURED:
        is_early = CONTRACTS[item.kind].is_rooted or found.pace == EARLY
        return early_in_two_buffers(sends) if is_early else paced(sends, found.pace)
    return paced(sends, how.pace or found.pace)


def _from_root(sends: Sends, root: int, n_ranks: int) -> Sends:
    """The same with this rank in the place of rank 0, and the next ones in those that follow."""
    first, n = np.int32(root), np.int32(n_ranks)
    return replace(sends, src=(sends.src + first) % n, dst=(sends.dst + first) % n)


def _allreduce_as_captured(item: Collective, how: How, nbytes: int, most_sends: int) -> Sequence[Send]:
    if item.algorithm == "reduce-broadcast":
        trees = {"up": item.up or "binomial", "down": item.down or "binomial"}
        made = reduce_broadcast(how.n_ranks, nbytes, root=item.root, **trees)
        return early_in_two_buffers(Sends.of(made))
    name = _textbook(item)
    if name in OF_HOSTS:
        sends = Sends.of(algorithm_of(name).sends(how.n_ranks, nbytes, how.hints))
        return in_turn(captured(name, sends), item.turns)
    limit = max(ELEMENT_NBYTES, int(GLOO_MAX_SEGMENT_NBYTES * narrowing(how.wire) * how.scale))
    n_sends = gloo_ring_sends(how.n_ranks, nbytes, limit)  # before they are made
    if n_sends > MAX_SENDS:
        raise ValueError(
            f"one allreduce of {show_nbytes(nbytes)} as captured has {n_sends:,} sends, and a schedule may "
            f"have {MAX_SENDS:,}: choose another algorithm, such as ring"
        )
    if n_sends > most_sends:
        raise ValueError(TOO_MANY_SENDS)
    return gloo_ring(how.n_ranks, nbytes, limit)


def check_size(name: str, n_ranks: int, collective: CollectiveKind) -> None:
    """Raise ValueError, before any is made, where each rank may send something to each other one."""
    n_sends = n_ranks * (n_ranks - 1) * (2 if collective == "allreduce" else 1)
    kind = name.partition(":")[0]
    has_few = (
        name in FEW_SENDS or kind in FAMILIES_OF_FEW or (name == "hierarchical" and collective == "allreduce")
    )
    if n_sends > MAX_SENDS and not has_few:
        fits = isqrt(MAX_SENDS * n_ranks**2 // n_sends)
        raise ValueError(
            f"{name} among {n_ranks:,} ranks has up to {n_sends:,} sends, and {MAX_SENDS:,} fit in this "
            f"machine's memory: choose at most {fits:,} ranks, or another algorithm"
        )


def in_turn(sends: Sequence[Send], turns: Sequence[Turn]) -> list[Send]:
    """The sends of one operation, in the order of their steps.

    The receiver of a send that a turn names announces it after handing its own send of that number to TCP.
    So the announcement waits behind that data on their connection.  In its step the named send comes last.
    Raise ValueError for a turn that the operation has no exchange for.
    """
    if not turns:
        return list(sends)
    by_pair: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, send in enumerate(sends):
        by_pair[send.src, send.dst].append(number)
    behind: dict[int, int] = {}
    for turn in turns:
        ways = by_pair.get((turn.src, turn.dst), []), by_pair.get((turn.dst, turn.src), [])
        if turn.number >= min(map(len, ways)):
            raise ValueError(f"ranks {turn.src} and {turn.dst} have no exchange number {turn.number}")
        second, other = (way[turn.number] for way in ways)
        if sends[other].step > sends[second].step:
            raise ValueError(
                f"exchange {turn.number} of ranks {turn.src} and {turn.dst} begins before its turn"
            )
        behind[second] = other
    order = sorted(range(len(sends)), key=lambda number: (sends[number].step, number in behind))
    new = {old: place for place, old in enumerate(order)}
    made = []
    for number in order:
        send = sends[number]
        ready = {*send.ready, *((behind[number],) if number in behind else ())}
        made.append(
            replace(
                send,
                needs=tuple(new[other] for other in send.needs),
                ready=tuple(sorted(new[other] for other in ready)),
            )
        )
    return made
