"""Turns messages into a workload: what the job communicated, in which order, and what it computed between."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from gradwire.traces.complaints import complaint
from gradwire.traces.framing.frames import UNKNOWN_OPERATION
from gradwire.traces.framing.messages import Messages
from gradwire.traces.packets.directions import own_address
from gradwire.traces.recognition.algorithms import PATTERNS, Recognised
from gradwire.traces.recognition.computing import with_computing
from gradwire.traces.recognition.departures import LEAST_NBYTES
from gradwire.traces.recognition.entered import entries
from gradwire.traces.recognition.firstcome import without_order_of_arrival
from gradwire.traces.recognition.iterations import Labels, Role, is_point_to_point, label
from gradwire.traces.recognition.lateness import late_ns
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.recognition.operations import operations
from gradwire.traces.recognition.patterns import SURE
from gradwire.traces.recognition.ports import HostPort, ports
from gradwire.traces.recognition.ranks import MOST_NAMED, BadTrace, NoTraining
from gradwire.traces.recognition.readiness import Asked, readiness, without_circles
from gradwire.traces.recognition.servers import View
from gradwire.traces.recognition.shape import JobShape, shape_of, taxonomy_of
from gradwire.traces.recognition.starts import Beginning, starts
from gradwire.traces.recognition.turnaround import turnarounds_ns
from gradwire.traces.trace import Trace
from gradwire.traces.units import show_count, show_first
from gradwire.traces.workload import (
    SCHEMA,
    Algorithm,
    CapturedConnection,
    Collective,
    Item,
    Message,
    Start,
    Workload,
)

# To the program and from it.  In six captures with logs both together took 2 to 50 turnarounds: where all
# processors compute, a thread waits its turn for longer than between two steps, and no packet shows that.
HANDOVERS = 2


@dataclass(frozen=True)
class Job:
    """What was recognised in a trace; `labels`, `starts`, `algorithms` and `ready` have an entry for each
    operation.
    """

    trace: Trace
    operations: tuple[Operation, ...]
    labels: Labels
    starts: tuple[tuple[Beginning, ...], ...]
    algorithms: tuple[Recognised, ...]
    shape: JobShape
    notes: tuple[str, ...]
    ready: tuple[Asked | None, ...] = ()


def recognise(trace: Trace) -> Workload:
    """Everything that the trace holds as items, in the order in which they began; raises as `find_job`."""
    return workload_of(find_job(trace))


def find_job(trace: Trace) -> Job:
    """Raise NoTraining if no operation is in the trace as a whole."""
    all_visible = not (trace.losses.unresolved or trace.losses.unseen_nbytes)
    found, notes = operations(trace.messages, all_visible=all_visible, seen_from=trace.seen_from)
    if not found:
        found_out = "".join(f" ({note})" for note in notes)
        raise NoTraining(
            trace.name, f"it holds no complete collective or message{found_out}: capture for longer"
        )
    labels = label(found, _view(trace))
    by_rank = _ports(trace, found)
    entered, odd = entries(trace, found)
    undated = [one for number, one in enumerate(found) if number not in entered]
    notes = [*trace.notes, *odd, *labels.notes, *notes, *_untold_ports(trace, undated, by_rank)]
    return Job(
        trace=trace,
        operations=tuple(found),
        labels=labels,
        starts=tuple(
            starts(found, labels.iterations, _turnarounds_ns(trace.messages, found), by_rank, entered)
        ),
        algorithms=tuple(map(_algorithm, found, labels.roles)),
        shape=shape_of(found, labels, trace.n_ranks),
        notes=tuple(notes),
        ready=tuple(readiness(found)),
    )


def _untold_ports(trace: Trace, found: Sequence[Operation], shown: Mapping[int, HostPort]) -> Iterator[str]:
    """Of ranks that send messages, and whose own captures do not show how fast their hosts' ports are."""
    captured = {own_address(packets) for packets in trace.captures}
    some = {o.src for o in found if o.kind == "message" and o.nbytes >= LEAST_NBYTES} - shown.keys()
    untold = [f"rank {rank}" for rank in sorted(some) if trace.addresses[rank] in captured]
    if untold:
        yield (
            f"no message of {show_first(untold, MOST_NAMED)} has two large packets, so how fast the link is "
            "does not show: time for which such messages queued counts as computing"
        )


def _view(trace: Trace) -> View:
    numbers = np.unique(trace.messages.connection).tolist()
    streams = [stream for number in numbers for stream in trace.choices[number].connection.streams]
    from_start = all(stream.opener is not None for stream in streams)
    return View(trace.n_ranks, trace.seen_from, from_start)


def _ports(trace: Trace, some: Sequence[Operation]) -> dict[int, HostPort]:
    """Where messages may have queued behind each other."""
    return ports(trace) if any(operation.kind == "message" for operation in some) else {}


def _turnarounds_ns(messages: Messages, some: Sequence[Operation]) -> dict[int, int]:
    """What each rank's host takes from the last arrival of a collective until the program has it, and from
    there until the first packet of the next one leaves: as long as from an arrival to a send, twice.

    Where exchanges take turns, what lies between an arrival and the next send is a rank's own sending.
    """
    if any(operation.turns for operation in some):
        return {}
    which = np.logical_or.reduce([messages.of(name) for name in PATTERNS])
    begun_ns: defaultdict[int, set[int]] = defaultdict(set)
    for operation in some:
        for rank, time_ns in operation.begun.items():
            begun_ns[rank].add(time_ns)
    found = turnarounds_ns(messages, which, begun_ns)
    return {rank: HANDOVERS * ns for rank, ns in found.items()}


def _algorithm(operation: Operation, role: Role) -> Recognised:
    if operation.kind != "message":
        return operation.recognised
    if role != "other":
        return Recognised("parameter-server", SURE, f"a {role}: one message of {operation.nbytes} bytes")
    if operation.is_of_alltoall:
        return Recognised("all-pairs", SURE, f"one message of {operation.nbytes} bytes to each other rank")
    if operation.what == UNKNOWN_OPERATION:
        return Recognised("unknown", 0.0, f"{operation.nbytes} bytes whose header was not captured")
    if not is_point_to_point(operation):
        return Recognised("unknown", 0.0, f"one message of a collective: {operation.what}")
    return Recognised("point-to-point", SURE, f"one message of {operation.nbytes} bytes")


def workload_of(job: Job) -> Workload:
    """Raise BadTrace for a job of which the captures show some hosts' part only, or contradict each other."""
    if job.trace.seen_from:
        raise BadTrace(f"{job.trace.name}: {job.trace.partly}; a workload needs what all ranks did")
    begun = with_computing(
        [_item(job, number) for number in range(len(job.operations))],
        job.starts,
        {
            number: each.together_with
            for number, each in enumerate(job.ready)
            if each and each.together_with is not None
        },
    )
    items, n_changed = without_circles(without_order_of_arrival(begun))
    try:
        return _workload(job, items, n_changed)
    except ValidationError as error:
        raise BadTrace(f"{job.trace.name}: its captures contradict each other: {complaint(error)}") from error


def _workload(job: Job, items: Sequence[Item], n_changed: int) -> Workload:
    return Workload(
        schema=SCHEMA,
        framing=job.trace.framing,
        n_ranks=job.trace.n_ranks,
        addresses=job.trace.addresses,
        source=job.trace.name,
        notes=(*job.notes, *_circles_note(n_changed)),
        unread=min(1.0, job.trace.losses.unread),
        connections=connections(job.trace),
        late_ns=_late_ns(job),
        taxonomy=taxonomy_of(job.shape),
        items=tuple(items),
    )


def _late_ns(job: Job) -> tuple[int, ...]:
    """Empty where the clocks cannot be compared, or the capture has not seen how the job began."""
    trace = job.trace
    if not trace.clocks.comparable or not _view(trace).from_start:
        return ()
    found = late_ns(job.operations, job.starts, trace.messages)
    return tuple(found.get(rank, 0) for rank in range(trace.n_ranks))


def _circles_note(n_changed: int) -> tuple[str, ...]:
    note = (
        f"by the clocks of the captures {show_count(n_changed, 'message')} would wait for what comes after "
        "them: when their destinations were ready is left out of these"
    )
    return (note,) if n_changed else ()


def connections(trace: Trace) -> tuple[CapturedConnection, ...]:
    """Of every pair of ranks the connection with the most data; pairs in ascending order."""
    data = trace.messages.where(trace.messages.is_data)
    nbytes = np.zeros(len(trace.choices), dtype=np.int64)
    np.add.at(nbytes, data.connection, data.nbytes)
    rank_of = {address: rank for rank, address in enumerate(trace.addresses)}
    most: dict[tuple[int, int], tuple[int, CapturedConnection]] = {}
    for number in np.flatnonzero(nbytes):
        direction = trace.choices[number].connection.streams[0].direction
        ends = sorted(((rank_of[direction.src], direction.sport), (rank_of[direction.dst], direction.dport)))
        (a, port_a), (b, port_b) = ends
        if nbytes[number] > most.get((a, b), (0,))[0]:
            most[a, b] = int(nbytes[number]), CapturedConnection(a=a, b=b, port_a=port_a, port_b=port_b)
    return tuple(connection for _, (_, connection) in sorted(most.items()))


def _captured(operation: Operation) -> Algorithm | None:
    """The algorithm by which it can be done again as it was captured."""
    name = operation.recognised.name
    if operation.is_usual:
        return "gloo-ring" if operation.kind == "allreduce" else "tree"
    if name == "unknown" or name == "parameter-server" or name == "point-to-point":  # noqa: PLR1714 mypy
        return None
    return name


def _item(job: Job, number: int) -> Collective | Message:
    """Without what it waits for."""
    operation = job.operations[number]
    iteration = job.labels.iterations[number]
    ready = job.ready[number]
    if operation.kind == "message":
        return Message(
            tag=operation.tag,
            src=operation.src,
            dst=operation.dst,
            nbytes=operation.nbytes,
            iteration=iteration,
            role=job.labels.roles[number],
            start=Start(rank=operation.src),
            ready=ready and ready.start,
        )
    up, down = operation.trees or (None, None)
    return Collective(
        kind=operation.kind,
        tag=operation.tag,
        nbytes=operation.nbytes,
        root=operation.src,
        algorithm=_captured(operation),
        up=up,
        down=down,
        turns=operation.turns,
        rendezvous=operation.rendezvous,
        iteration=iteration,
    )
