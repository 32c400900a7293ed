"""From messages to a workload: what the job communicated, in which order, with which compute gaps."""

from dataclasses import dataclass

from traces.recognition.iterations import Labels, label
from traces.recognition.operations import Operation, operations
from traces.recognition.ranks import BadTrace
from traces.recognition.starts import starts
from traces.trace import Trace
from traces.workload import SCHEMA, Collective, Item, Message, Start, Workload


@dataclass(frozen=True)
class Job:
    """What was recognised in a trace; `labels` and `starts` have an entry for each operation."""

    trace: Trace
    operations: tuple[Operation, ...]
    labels: Labels
    starts: tuple[tuple[Start, ...], ...]
    notes: tuple[str, ...]


def recognise(trace: Trace) -> Workload:
    """Everything that the trace holds as items, in the order in which they began; raises as `find_job`."""
    return workload_of(find_job(trace))


def find_job(trace: Trace) -> Job:
    """Raise BadTrace if no operation is in the trace as a whole."""
    losses = trace.losses
    found, notes = operations(trace.messages, all_visible=not (losses.unresolved or losses.unseen_nbytes))
    if not found:
        raise BadTrace(f"{trace.name}: no collective and no message is in it as a whole: capture for longer")
    labels = label(found)
    notes = [*trace.notes, *labels.notes, *notes]
    return Job(trace, tuple(found), labels, tuple(starts(found)), tuple(notes))


def workload_of(job: Job) -> Workload:
    return Workload(
        schema=SCHEMA,
        framing=job.trace.framing,
        n_ranks=job.trace.n_ranks,
        addresses=job.trace.addresses,
        source=job.trace.name,
        notes=job.notes,
        items=tuple(_item(job, number) for number in range(len(job.operations))),
    )


def _item(job: Job, number: int) -> Item:
    operation, begins = job.operations[number], job.starts[number]
    iteration = job.labels.iterations[number]
    if operation.kind == "message":
        return Message(
            tag=operation.tag,
            src=operation.src,
            dst=operation.dst,
            nbytes=operation.nbytes,
            iteration=iteration,
            role=job.labels.roles[number],
            start=begins[0],
        )
    return Collective(
        kind=operation.kind,
        tag=operation.tag,
        nbytes=operation.nbytes,
        root=operation.src,
        iteration=iteration,
        starts=begins,
    )
