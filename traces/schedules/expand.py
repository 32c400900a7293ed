"""Expands a workload into a schedule, with a given algorithm."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from gradwire.traces.schedules.algorithm import Algorithm, NotServedError, StagesOf
from gradwire.traces.schedules.carried import (
    TOO_MANY_SENDS,
    Carried,
    How,
    carried_of,
    check_size,
    kind_chosen_for,
    name_of,
)
from gradwire.traces.schedules.collectives import algorithm as algorithm_of
from gradwire.traces.schedules.collectives import servers_of
from gradwire.traces.schedules.dtypes import FLOAT32, DType
from gradwire.traces.schedules.gates import gates_of
from gradwire.traces.schedules.hints import NO_HINTS, Hints
from gradwire.traces.schedules.keys import scaled
from gradwire.traces.schedules.kinds import (
    CONTRACTS,
    ELEMENT_NBYTES,
    BlockSizes,
    CollectiveKind,
    narrowing,
    uneven_nbytes,
)
from gradwire.traces.schedules.locks import Lock
from gradwire.traces.schedules.names import (
    AS_CAPTURED,
    INA,
    INA_LEAF,
    algorithm_names,
)
from gradwire.traces.schedules.pacing import paced
from gradwire.traces.schedules.pushes import Unit, summed_pushes
from gradwire.traces.schedules.schedule import Aggregation, Centre, Op, Schedule
from gradwire.traces.schedules.selection import chosen_items, in_order
from gradwire.traces.schedules.sends import MAX_SENDS, Send, Sends
from gradwire.traces.schedules.stages import in_stages
from gradwire.traces.workload import MAX_NBYTES, MAX_RANKS, Collective, Compute, Item, Message, Workload


def expand(
    workload: Workload,
    algorithm: str = AS_CAPTURED,
    *,
    iterations: tuple[int, ...] | None = None,
    scale: Fraction = Fraction(1),
    compute: Fraction = Fraction(1),
    hints: Hints = NO_HINTS,
    wire: DType = FLOAT32,
    pace: str | None = None,
) -> Schedule:
    """What each rank sends when allreduces are done by `algorithm`; all else stays as captured.

    In a workload of one other kind of collectives alone, such as `bench` makes, these are done by it.

    `iterations` picks items by their iteration (None: as `chosen_items`).  `scale` multiplies every size
    (and gloo's segment limit with it, so that the number of segments stays), `compute` what ranks compute; if
    nothing, all begin at once.
    `hints` say where the ranks are, for the algorithms that ask.  Parameter servers are further ranks, after
    the workload's.  What a job adds up as float32 is sent, and added, as `wire`; what is only copied keeps
    its bytes.  With ina, pushes to a parameter server that belong together are added up too (`not_added`
    tells of the others).  `pace` says when the sends of an algorithm go on (traces.schedules.pacing; None: as
    is best for it).
    Raises ValueError for an unknown algorithm or an empty selection, NotServedError for an algorithm that
    cannot serve this workload.
    """
    _check(workload, scale, compute)
    collective = kind_chosen_for(workload)
    in_ranks = _checked_algorithm(algorithm, collective, pace)
    stages = in_ranks.stages if in_ranks else None
    check_size(algorithm, workload.n_ranks, collective)
    chosen = chosen_items(workload, iterations)
    _check_wire(chosen.values(), algorithm, wire, has_pairs=stages is not None)
    units = _units(workload, chosen, algorithm)
    hints = replace(hints, keys=scaled(hints.keys, scale))
    n_servers = _n_servers(workload, algorithm, hints)
    how = How(workload.n_ranks, n_servers, collective, algorithm, scale, hints, wire, pace)
    ops = [_op([chosen[number] for number in unit], how) for unit in units]
    sends = _Growing()
    aggregations: list[Aggregation] = []
    collectives: dict[Item, Carried] = {}  # those alike but for tag, iteration and starts have the same sends
    for number, unit in enumerate(units):
        item = chosen[unit[0]]
        if isinstance(item, Message) and len(unit) == 1:
            adds = item.centre is not None and item.role == "push"
            sends.add_message(Send(number, item.src, item.dst, 0, ops[number].nbytes, reduce=adds))
            continue
        if isinstance(item, Compute):
            continue
        items = [chosen[one] for one in unit]
        if not isinstance(item, Collective):
            carried = carried_of(items, ops[number], how, MAX_SENDS - len(sends))
        elif (key := item.model_copy(update={"tag": 0, "iteration": 0, "starts": ()})) in collectives:
            carried = collectives[key]
        else:
            carried = collectives[key] = carried_of(items, ops[number], how, MAX_SENDS - len(sends))
        aggregations += (replace(each, op=number) for each in carried.aggregations)
        sends.add(carried.sends, number)
        ops[number] = replace(ops[number], room_nbytes=carried.room_nbytes)
    gates = tuple(gates_of(workload, chosen, units, compute))
    locks = tuple(_locks(chosen, units))
    placed, centres = _with_centres(ops, [chosen[unit[0]] for unit in units])
    n_ranks = workload.n_ranks + how.n_servers
    schedule = Schedule(n_ranks, placed, sends.joined(), gates, tuple(aggregations), locks, centres)
    return _compressed(schedule, how, in_ranks.pace, stages) if in_ranks and stages else schedule


def _compressed(schedule: Schedule, how: How, pace: str | None, stages_of: StagesOf) -> Schedule:
    """With the stages of compressed allreduces; raise NotServedError if there is no allreduce."""
    allreduces = [number for number, op in enumerate(schedule.ops) if op.kind == "allreduce"]
    if not allreduces:
        raise NotServedError(f"{how.algorithm} compresses allreduces, and this job has none")
    stages = {
        nbytes: [
            replace(stage, sends=paced(stage.sends, how.pace or pace))
            for stage in stages_of(how.n_ranks, nbytes, how.hints)
        ]
        for nbytes in sorted({schedule.ops[number].nbytes for number in allreduces})
    }
    n_sends = {nbytes: sum(len(each.sends) for each in some) for nbytes, some in stages.items()}
    if sum(n_sends[schedule.ops[number].nbytes] for number in allreduces) + len(schedule.sends) > MAX_SENDS:
        raise ValueError(TOO_MANY_SENDS)
    return in_stages(schedule, {number: stages[schedule.ops[number].nbytes] for number in allreduces})


class _Growing:
    """The sends of operations, one after the other; at most MAX_SENDS."""

    def __init__(self) -> None:
        self._parts: list[Sends] = []
        self._messages: list[Send] = []  # since the last part
        self._n_sends = 0

    def __len__(self) -> int:
        return self._n_sends

    def add_message(self, send: Send) -> None:
        self._count(1)
        self._messages.append(send)

    def add(self, sends: Sends, op: int) -> None:
        self._count(len(sends))
        if len(sends):
            self._end_messages()
            self._parts.append(sends.moved(op=op))

    def joined(self) -> Sends:
        self._end_messages()
        return Sends.joined(self._parts)

    def _count(self, more: int) -> None:
        self._n_sends += more
        if self._n_sends > MAX_SENDS:
            raise ValueError(TOO_MANY_SENDS)

    def _end_messages(self) -> None:
        if self._messages:
            self._parts.append(Sends.of(self._messages))
            self._messages = []


def not_added(workload: Workload, *, iterations: tuple[int, ...] | None = None) -> tuple[str, ...]:
    """Which pushes stay messages with ina although a server gets them, one line for each reason."""
    return summed_pushes(workload.items, chosen_items(workload, iterations)).notes


def _units(workload: Workload, chosen: Mapping[int, Item], algorithm: str) -> tuple[Unit, ...]:
    """The items of each operation; raise NotServedError if switches are to add and there is nothing to."""
    if algorithm not in (INA, INA_LEAF):
        return tuple((number,) for number in in_order(chosen))
    reduces = any(item.kind == "allreduce" for item in chosen.values())
    if algorithm == INA_LEAF:
        if not reduces:
            raise NotServedError(
                "ina:leaf adds up allreduces only: hosts of different leaves then exchange the sums; use ina "
                "for pushes to a parameter server, which switches add up all the way"
            )
        return tuple((number,) for number in in_order(chosen))
    if workload.taxonomy.scheduling == "bounded":
        raise NotServedError(
            "switches add up what all workers push in an iteration, and servers of this job answer a worker "
            f"before all have pushed (staleness {workload.taxonomy.staleness})"
        )
    summed = summed_pushes(workload.items, chosen)
    if not reduces and not summed.n_sums:
        why = "; ".join(summed.notes) or "it has no allreduce and no pushes to a parameter server"
        raise NotServedError(f"switches can add up nothing in this job: {why}")
    return summed.units


def _check(workload: Workload, scale: Fraction, compute: Fraction) -> None:
    if scale <= 0 or compute < 0:
        raise ValueError(
            f"a scale must be above 0 and a compute factor at least 0, got {scale} and {compute}"
        )
    if workload.n_ranks > MAX_RANKS:
        raise ValueError(f"the job has {workload.n_ranks:,} ranks; gradwire plans at most {MAX_RANKS:,}")


def _checked_algorithm(name: str, collective: CollectiveKind, pace: str | None) -> Algorithm | None:
    """None where it is done as captured, or by switches."""
    if pace is not None and name in (AS_CAPTURED, INA):
        raise NotServedError(f"{name} has a pace of its own; leave --pace out, or choose another algorithm")
    if name in (INA, INA_LEAF) and collective != "allreduce":
        choices = ", ".join(algorithm_names(collective))
        raise NotServedError(f"{name} does allreduce, not {collective}; choose from {choices}")
    return None if name in (AS_CAPTURED, INA, INA_LEAF) else algorithm_of(name, collective)


def _n_servers(workload: Workload, algorithm: str, hints: Hints) -> int:
    servers = servers_of(algorithm)
    n_servers = max(0, sum(map(len, hints.leaves)) - workload.n_ranks) if servers == "leaf" else servers
    if workload.n_ranks + n_servers > MAX_RANKS:
        raise NotServedError(
            f"{workload.n_ranks:,} ranks and {n_servers:,} servers are too many; gradwire plans at most "
            f"{MAX_RANKS:,}"
        )
    return n_servers


def _check_wire(items: Iterable[Item], algorithm: str, wire: DType, *, has_pairs: bool) -> None:
    """Raise NotServedError where another type than float32 cannot be added, or nothing is."""
    if wire == FLOAT32:
        return
    if algorithm in (INA, INA_LEAF):
        raise NotServedError(
            f"switches add up float32 as whole numbers, not {wire}: leave --wire out, or choose ring"
        )
    if has_pairs:
        raise NotServedError(
            f"{algorithm} sends pairs of a float32 and an index, not {wire}: leave --wire out, or choose ring"
        )
    if not any(CONTRACTS[item.kind].adds for item in items):
        raise NotServedError(
            f"nothing is added up in this job, so --wire {wire} would change nothing: leave it out"
        )


def _op(items: Sequence[Item], how: How) -> Op:
    """An operation of one item, or of several pushes."""
    first = items[0]
    if isinstance(first, Compute):
        return Op(kind="compute", nbytes=0, root=first.rank, iteration=first.iteration)
    is_sum = len(items) > 1
    root = first.root if isinstance(first, Collective) else first.dst if is_sum else first.src
    givers: tuple[int, ...] = ()
    if isinstance(first, Collective):
        members = tuple(range(how.n_ranks))
        if first.kind == "allreduce" and how.n_servers:
            givers, members = members, tuple(range(how.n_ranks + how.n_servers))
    elif is_sum:
        givers = tuple(sorted(push.src for push in items if isinstance(push, Message)))
        members = tuple(sorted((*givers, root)))
    else:
        members = tuple(sorted((first.src, first.dst)))
    kind = "reduce" if is_sum else first.kind
    adds = CONTRACTS[kind].adds
    in_elements = adds or (isinstance(first, Message) and first.centre is not None)
    nbytes = _scaled(first, how.scale, in_elements=in_elements) // (narrowing(how.wire) if adds else 1)
    sizes = _scaled_sizes(first, how.scale) if isinstance(first, Collective) else ()
    return Op(
        kind=kind,
        nbytes=uneven_nbytes(sizes) if sizes else nbytes,
        tag=first.tag,
        root=root,
        iteration=first.iteration,
        rendezvous=isinstance(first, Collective) and first.rendezvous and _is_as_captured(first, how),
        members=members,
        givers=givers,
        dtype=how.wire if adds else FLOAT32,
        algorithm=name_of(first, how) if isinstance(first, Collective) else "",
        sizes=sizes,
    )


def _is_as_captured(item: Collective, how: How) -> bool:
    return how.algorithm_for(item) in (AS_CAPTURED, item.algorithm)


def _locks(chosen: Mapping[int, Item], units: Sequence[Unit]) -> Iterator[Lock]:
    """The locks of all messages that are sent as such; one whose last item is left out ends with itself."""
    sections: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    op_of = {number: op for op, unit in enumerate(units) for number in unit}
    for op, unit in enumerate(units):
        item = chosen[unit[0]]
        if len(unit) == 1 and isinstance(item, Message) and item.lock_until is not None:
            sections[item.dst].append((op, op_of.get(item.lock_until, op)))
    for rank, some in sorted(sections.items()):
        yield Lock(rank, tuple(some))


def _with_centres(ops: Sequence[Op], items: Sequence[Item]) -> tuple[tuple[Op, ...], tuple[Centre, ...]]:
    """The operations with their centres; one is unordered if any of its messages says so."""
    numbers: dict[tuple[int, int], int] = {}  # by server and what the workload calls it
    centres: list[Centre] = []
    found = list(ops)
    for op, item in enumerate(items):
        if not isinstance(item, Message) or item.centre is None or ops[op].kind != "message":
            continue
        rank = item.dst if item.role == "push" else item.src
        number = numbers.setdefault((rank, item.centre), len(centres))
        if number == len(centres):
            centres.append(Centre(rank, ops[op].nbytes))
        if item.unordered:
            centres[number] = replace(centres[number], unordered=True)
        found[op] = replace(ops[op], centre=number)
    return tuple(found), tuple(centres)


def _scaled(item: Collective | Message, scale: Fraction, *, in_elements: bool) -> int:
    """Scaled bytes; of what is added up, whole float32 elements."""
    if in_elements:
        return _scaled_nbytes(item.nbytes, scale, ELEMENT_NBYTES)
    return _scaled_nbytes(item.nbytes, scale)


def _scaled_sizes(item: Collective, scale: Fraction) -> BlockSizes:
    return tuple(tuple(_scaled_nbytes(nbytes, scale) for nbytes in row) for row in item.sizes)


def _scaled_nbytes(nbytes: int, scale: Fraction, unit: int = 1) -> int:
    """Whole units, at least one unless there are no bytes.  Raise ValueError for more than MAX_NBYTES."""
    scaled_nbytes = max(1, round(nbytes * scale / unit)) * unit if nbytes else 0
    if scaled_nbytes > MAX_NBYTES:
        raise ValueError(
            f"--scale-bytes makes more of {nbytes:,} bytes than the {MAX_NBYTES:,} that are possible: "
            "choose a smaller factor"
        )
    return scaled_nbytes
