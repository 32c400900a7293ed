"""What a job moved: its collectives and messages, iterations, and the traffic matrix."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from gradwire.traces.analysis.exposure import Exposure
from gradwire.traces.analysis.linerate import LineRate
from gradwire.traces.analysis.shares import iteration_times
from gradwire.traces.recognition.recognise import Job
from gradwire.traces.recognition.starts import Beginning
from gradwire.traces.schedules.kinds import CONTRACTS


@dataclass(frozen=True)
class Transfer:
    """A collective, or the messages that belong together: one tag's, in one iteration and role.

    `nbytes` is the buffer of a collective and the sum of messages (`count` of them).  `start_ns` counts
    from the trace's origin; `time_ns` lasts until the last byte has arrived.  The rates are bytes per second
    as NCCL defines them, None for messages, and where the bus bandwidth would be above the line rate: then
    times were misread.  `line_share` is busbw over the line rate.  `algorithm` is how it
    was done, as far as its pattern shows, with `confidence` from 0 to 1.
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
    line_share: float | None
    algorithm: str
    confidence: float


@dataclass(frozen=True)
class Iteration:
    """`time_ns` is from start to start: from the end of the iteration before to its own end, at the median
    rank.

    `start_ns` is when its first transfer begins.  `payload_nbytes` are sent by all ranks together; `gap_ns`
    is the median rank's compute before it begins.  `warm_up`: it is not like the later ones and not
    counted.
    """

    iteration: int
    start_ns: int
    time_ns: int
    transfers: int
    payload_nbytes: int
    gap_ns: int
    warm_up: bool


@dataclass(frozen=True)
class AlgorithmUse:
    """How often a kind of operation was done by one algorithm; the confidence is the least of them all, the
    evidence that of the largest.
    """

    kind: str
    algorithm: str
    count: int
    confidence: float
    evidence: str


def transfers(job: Job, origin_ns: int, line_rate: LineRate | None) -> tuple[Transfer, ...]:
    """In the order in which they began."""
    by_operation: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
    for number, operation in enumerate(job.operations):
        by_operation[job.labels.iterations[number], kind_of(job, number), operation.tag].append(number)
    found = [_transfer(job, key, numbers, origin_ns, line_rate) for key, numbers in by_operation.items()]
    return tuple(sorted(found, key=lambda transfer: transfer.start_ns))


def kind_of(job: Job, number: int) -> str:
    """An operation's name: push or pull where it is one, else what the framing calls it."""
    role = job.labels.roles[number]
    return job.operations[number].what if role == "other" else role


def _transfer(
    job: Job,
    key: tuple[int, str, int],
    numbers: Sequence[int],
    origin_ns: int,
    line_rate: LineRate | None,
) -> Transfer:
    iteration, kind, tag = key
    some = [job.operations[number] for number in numbers]
    recognised = [job.algorithms[number] for number in numbers]
    names = {one.name for one in recognised}
    start_ns = min(operation.begin_ns for operation in some)
    time_ns = max(operation.end_ns for operation in some) - start_ns
    nbytes = sum(operation.nbytes for operation in some)
    algbw = nbytes / time_ns * 1e9 if some[0].kind != "message" and time_ns > 0 else None
    busbw = algbw and algbw * CONTRACTS[some[0].kind].busbw_factor(job.trace.n_ranks)
    if line_rate and busbw and busbw * 8 > line_rate.most_bps:
        algbw = busbw = None
    return Transfer(
        iteration=iteration,
        kind=kind,
        tag=tag,
        count=len(some),
        nbytes=nbytes,
        start_ns=start_ns - origin_ns,
        time_ns=time_ns,
        algbw_Bps=algbw,
        busbw_Bps=busbw,
        line_share=min(1.0, busbw * 8 / line_rate.bps) if busbw and line_rate else None,
        algorithm=names.pop() if len(names) == 1 else "several",
        confidence=min(one.confidence for one in recognised),
    )


def algorithm_uses(job: Job) -> tuple[AlgorithmUse, ...]:
    """Every algorithm that was recognised, the one that moved most bytes first."""
    by_algorithm: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, recognised in enumerate(job.algorithms):
        by_algorithm[kind_of(job, number), recognised.name].append(number)
    moved = {key: sum(job.operations[n].nbytes for n in numbers) for key, numbers in by_algorithm.items()}
    found = []
    for kind, name in sorted(by_algorithm, key=lambda key: -moved[key]):
        numbers = by_algorithm[kind, name]
        largest = max(numbers, key=lambda n: job.operations[n].nbytes)
        found.append(
            AlgorithmUse(
                kind=kind,
                algorithm=name,
                count=len(numbers),
                confidence=min(job.algorithms[n].confidence for n in numbers),
                evidence=job.algorithms[largest].evidence,
            )
        )
    return tuple(found)


def iterations(job: Job, some: Sequence[Transfer], exposures: Sequence[Exposure]) -> tuple[Iteration, ...]:
    """The iterations that `some`, all transfers of the job, belong to; set-up is none, nor is one of which no
    rank shows how long it lasted, as where a capture begins or breaks off within it.
    """
    times = iteration_times(exposures)
    payload: defaultdict[int, int] = defaultdict(int)
    begins: defaultdict[int, dict[int, Beginning]] = defaultdict(dict)
    for operation, iteration, starts in zip(job.operations, job.labels.iterations, job.starts, strict=True):
        payload[iteration] += CONTRACTS[operation.kind].payload_nbytes(job.trace.n_ranks, operation.nbytes)
        for start in starts:
            begins[iteration].setdefault(start.rank, start)
    of: defaultdict[int, list[Transfer]] = defaultdict(list)
    for transfer in some:
        of[transfer.iteration].append(transfer)
    found = []
    for iteration in sorted(
        number for number in payload if number >= 0 and number in times and begins[number]
    ):
        start_ns = min(transfer.start_ns for transfer in of[iteration])
        found.append(
            Iteration(
                iteration=iteration,
                start_ns=start_ns,
                time_ns=times[iteration],
                transfers=len(of[iteration]),
                payload_nbytes=payload[iteration],
                gap_ns=median_low(start.computed_ns for start in begins[iteration].values()),
                warm_up=iteration < job.labels.warm_up,
            )
        )
    return tuple(found)


def matrix(job: Job) -> tuple[tuple[int, ...], ...]:
    """`[src][dst]`: payload of data messages that were seen whole."""
    messages = job.trace.messages
    rows = messages.is_data & messages.whole
    nbytes = np.zeros((job.trace.n_ranks, job.trace.n_ranks), np.int64)
    np.add.at(nbytes, (messages.src[rows], messages.dst[rows]), messages.nbytes[rows])
    return tuple(map(tuple, nbytes.tolist()))
