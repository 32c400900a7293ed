"""The kind of a job: all ranks reduce together, or all exchange, or some are parameter servers."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradwire.traces.recognition.iterations import Labels, is_point_to_point
from gradwire.traces.recognition.operation import Operation
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.units import show_nbytes

ShapeKind = Literal["allreduce", "alltoall", "parameter-server", "point-to-point"]
SYNCHRONOUS, ASYNCHRONOUS = 0.8, 0.5  # shares of the rounds whose answers waited for all pushes


@dataclass(frozen=True)
class JobShape:
    """`servers` and `workers` are ranks; an allreduce and an alltoall have no servers.

    `synchronous`: servers answer when all have pushed.  `colocated`: some server is a worker too.  None:
    unknown, or of no parameter server.
    """

    kind: ShapeKind
    synchronous: bool | None
    servers: tuple[int, ...]
    workers: tuple[int, ...]
    colocated: bool | None
    confidence: float
    evidence: str


def taxonomy_of(shape: JobShape) -> Taxonomy:
    """What a capture shows: who waits for whom and how, not what the bytes mean, so neither the parallelism
    nor whether gradients or weights are exchanged.
    """
    if shape.kind == "allreduce" or shape.kind == "alltoall":  # noqa: PLR1714 mypy
        return Taxonomy(scheduling="synchronous", pattern=shape.kind)
    if shape.kind == "point-to-point":
        return Taxonomy()
    if shape.synchronous is None:
        return Taxonomy(pattern="ps")
    return Taxonomy(scheduling="synchronous" if shape.synchronous else "asynchronous", pattern="ps")


def shape_of(operations: Sequence[Operation], labels: Labels, n_ranks: int) -> JobShape:
    collective = [o for o in operations if o.kind != "message"]
    sends = [o for o in operations if is_point_to_point(o)]
    reduced = sum(o.nbytes for o in collective) * max(1, n_ranks - 1)
    sent = sum(o.nbytes for o in sends)
    exchanges = [o for o in operations if o.is_of_alltoall]
    exchanged = sum(o.nbytes for o in exchanges)
    if exchanged > max(reduced, sent):
        ranks = {rank for o in exchanges for rank in (o.src, o.dst)}
        evidence = f"{len(exchanges)} messages of alltoalls between {len(ranks)} ranks, "
        evidence += f"{show_nbytes(exchanged)}; {show_nbytes(reduced + sent)} of anything else"
        share = exchanged / (exchanged + reduced + sent)
        return JobShape("alltoall", None, (), tuple(sorted(ranks)), None, share, evidence)
    if reduced >= sent and collective:
        ranks = {rank for o in collective for rank in o.done}
        evidence = f"{sum(o.kind == 'allreduce' for o in collective)} allreduces of {len(ranks)} ranks, "
        evidence += f"{show_nbytes(reduced)} received in collectives, {show_nbytes(sent)} in other messages"
        share = reduced / (reduced + sent or 1)
        confidence = share if any(o.kind == "allreduce" for o in collective) else 0.5 * share
        return JobShape("allreduce", None, (), tuple(sorted(ranks)), None, confidence, evidence)
    if labels.servers:
        return _served(operations, labels, sent)
    colocated = _colocated(sends)
    if colocated:
        return colocated
    ranks = {rank for o in sends for rank in (o.src, o.dst)}
    evidence = f"{len(sends)} messages between {len(ranks)} ranks, of which none are servers to the others"
    return JobShape("point-to-point", None, (), tuple(sorted(ranks)), None, 0.5, evidence)


def _served(operations: Sequence[Operation], labels: Labels, sent_nbytes: int) -> JobShape:
    workers = set()
    between = 0
    for operation, role in zip(operations, labels.roles, strict=True):
        if role != "other":
            workers |= {operation.src, operation.dst} - set(labels.servers)
            between += operation.nbytes
    waited, rounds = _rounds(operations, labels)
    share = waited / rounds if rounds else 0.0
    synchronous = None if not rounds else share >= SYNCHRONOUS or (None if share > ASYNCHRONOUS else False)
    evidence = (
        f"{show_nbytes(between)} of {show_nbytes(sent_nbytes)} go between rank "
        f"{', '.join(map(str, labels.servers))} and {len(workers)} others, that send each other little; "
        f"in {waited} of {rounds} rounds the first answer came after the last push"
    )
    confidence = between / sent_nbytes if sent_nbytes else 0.0
    return JobShape(
        kind="parameter-server",
        synchronous=synchronous,
        servers=labels.servers,
        workers=tuple(sorted(workers)),
        colocated=False,
        confidence=round(confidence * (max(share, 1 - share) if rounds else 0.5), 3),
        evidence=evidence,
    )


def _rounds(operations: Sequence[Operation], labels: Labels) -> tuple[int, int]:
    """In how many rounds of a server with several workers the first answer waited for the last push; of how
    many.
    """
    pushed: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    answered: dict[tuple[int, int], int] = {}
    for operation, role, iteration in zip(operations, labels.roles, labels.iterations, strict=True):
        if role == "push" and iteration >= 0:
            key = (operation.dst, iteration)
            pushed[key][operation.src] = max(pushed[key].get(operation.src, 0), operation.done[operation.dst])
        elif role == "pull" and iteration >= 0:
            key = (operation.src, iteration)
            answered[key] = min(answered.get(key, operation.begin_ns), operation.begin_ns)
    n_workers = {server: max(len(p) for (s, _), p in pushed.items() if s == server) for server, _ in pushed}
    keys = [key for key, pushes in pushed.items() if len(pushes) == n_workers[key[0]] > 1 and key in answered]
    return sum(answered[key] >= max(pushed[key].values()) for key in keys), len(keys)


def _colocated(sends: Sequence[Operation]) -> JobShape | None:
    """Messages of two tags, the second one's always the other way: pushes and pulls, if few are pushed to."""
    edges: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
    for send in sends:
        edges[send.tag][send.src, send.dst] += 1
    if len(edges) != 2:
        return None
    one, other = edges.values()
    if set(one) != {(dst, src) for src, dst in other}:
        return None
    receivers, senders = {dst for _, dst in one}, {src for src, _ in one}
    servers, workers = sorted((receivers, senders), key=len)
    if not servers & workers:
        return None
    evidence = (
        f"each message of one tag is answered by one of another: between {len(servers)} ranks that serve and "
        f"{len(workers)} that work, {len(servers & workers)} of which do both"
    )
    confidence = 0.8 if len(servers) < len(workers) else 0.5
    return JobShape(
        kind="parameter-server",
        synchronous=None,
        servers=tuple(sorted(servers)),
        workers=tuple(sorted(workers)),
        colocated=True,
        confidence=confidence,
        evidence=evidence,
    )
