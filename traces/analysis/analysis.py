"""What a job did to the network, as values: what `inspect` prints and writes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import Any, Literal

import numpy as np

from traces.recognition.operations import Operation
from traces.recognition.recognise import Job
from traces.schedules.collectives import busbw_factor
from traces.trace import CaptureFile, Losses
from traces.workload import Start

SCHEMA: Literal["gradwire.inspect/1"] = "gradwire.inspect/1"


@dataclass(frozen=True)
class Transfer:
    """A collective, or the messages that belong together: one tag's, in one iteration and role.

    `nbytes` is the buffer of a collective and the sum of messages (`count` of them).  `start_ns` counts
    from the trace's first gloo byte; `time_ns` lasts until the last byte has arrived.  The rates are
    bytes per second as NCCL defines them, None for messages.
    """

    iteration: int
    kind: str
    tag: int
    count: int
    nbytes: int
    start_ns: int
    time_ns: int
    algbw_Bps: float | None  # noqa: N815  (the name is the file's)
    busbw_Bps: float | None  # noqa: N815


@dataclass(frozen=True)
class Iteration:
    """`payload_nbytes` are sent by all ranks together; `gap_ns` is the median rank's compute before it
    begins.
    """

    iteration: int
    start_ns: int
    time_ns: int
    transfers: int
    payload_nbytes: int
    gap_ns: int


@dataclass(frozen=True)
class Analysis:
    """`matrix_nbytes[src][dst]` is the payload that one rank sent to another, each byte once."""

    name: str
    framing: str
    addresses: tuple[str, ...]
    files: tuple[CaptureFile, ...]
    matrix_nbytes: tuple[tuple[int, ...], ...]
    transfers: tuple[Transfer, ...]
    iterations: tuple[Iteration, ...]
    losses: Losses
    rendezvous_packets: int
    notes: tuple[str, ...]


def analyse(job: Job) -> Analysis:
    transfers = _transfers(job)
    return Analysis(
        name=job.trace.name,
        framing=job.trace.framing,
        addresses=job.trace.addresses,
        files=job.trace.files,
        matrix_nbytes=_matrix(job),
        transfers=transfers,
        iterations=_iterations(job, transfers),
        losses=job.trace.losses,
        rendezvous_packets=job.trace.rendezvous_packets,
        notes=job.notes,
    )


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The value that `inspect --json` prints (docs/schemas.md)."""
    value = asdict(analysis)
    for file in value["files"]:
        file["path"] = str(file["path"])
    return {"schema": SCHEMA, **value}


def _matrix(job: Job) -> tuple[tuple[int, ...], ...]:
    messages = job.trace.messages
    rows = messages.is_data & messages.whole
    matrix = np.zeros((job.trace.n_ranks, job.trace.n_ranks), np.int64)
    np.add.at(matrix, (messages.src[rows], messages.dst[rows]), messages.nbytes[rows])
    return tuple(map(tuple, matrix.tolist()))


def _transfers(job: Job) -> tuple[Transfer, ...]:
    groups: defaultdict[tuple[int, str, int], list[Operation]] = defaultdict(list)
    for operation, iteration, role in zip(
        job.operations, job.labels.iterations, job.labels.roles, strict=True
    ):
        kind = operation.what if role == "other" else role
        groups[iteration, kind, operation.tag].append(operation)
    origin_ns = _origin_ns(job)
    found = [_transfer(key, operations, job.trace.n_ranks, origin_ns) for key, operations in groups.items()]
    return tuple(sorted(found, key=lambda transfer: transfer.start_ns))


def _transfer(
    key: tuple[int, str, int], operations: Sequence[Operation], n_ranks: int, origin_ns: int
) -> Transfer:
    iteration, kind, tag = key
    start_ns = min(operation.begin_ns for operation in operations)
    time_ns = max(operation.end_ns for operation in operations) - start_ns
    nbytes = sum(operation.nbytes for operation in operations)
    algbw = None
    if operations[0].kind != "message" and time_ns > 0:
        algbw = nbytes / time_ns * 1e9
    busbw = algbw and algbw * busbw_factor(kind, n_ranks)
    return Transfer(
        iteration, kind, tag, len(operations), nbytes, start_ns - origin_ns, time_ns, algbw, busbw
    )


def _iterations(job: Job, transfers: Sequence[Transfer]) -> tuple[Iteration, ...]:
    payload: defaultdict[int, int] = defaultdict(int)
    begins: defaultdict[int, dict[int, Start]] = defaultdict(dict)
    for operation, iteration, starts in zip(job.operations, job.labels.iterations, job.starts, strict=True):
        payload[iteration] += _payload_nbytes(operation, job.trace.n_ranks)
        for start in starts:
            begins[iteration].setdefault(start.rank, start)
    found = []
    for iteration in sorted(number for number in payload if number >= 0):
        some = [transfer for transfer in transfers if transfer.iteration == iteration]
        start_ns = min(transfer.start_ns for transfer in some)
        found.append(
            Iteration(
                iteration=iteration,
                start_ns=start_ns,
                time_ns=max(transfer.start_ns + transfer.time_ns for transfer in some) - start_ns,
                transfers=len(some),
                payload_nbytes=payload[iteration],
                gap_ns=median_low(start.gap_ns for start in begins[iteration].values()),
            )
        )
    return tuple(found)


def _payload_nbytes(operation: Operation, n_ranks: int) -> int:
    match operation.kind:
        case "allreduce":
            return operation.nbytes * 2 * (n_ranks - 1)
        case "broadcast":
            return operation.nbytes * (n_ranks - 1)
        case "message":
            return operation.nbytes


def _origin_ns(job: Job) -> int:
    return min(operation.begin_ns for operation in job.operations)
