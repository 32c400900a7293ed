"""How all traffic of the captures was classified: as training, or as something else."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradwire.traces.framing.framings import Choice
from gradwire.traces.packets.packets import TCP, UDP
from gradwire.traces.trace import Trace


@dataclass(frozen=True)
class Traffic:
    """Connections that were taken for the same thing.  `evidence` is the largest one's.

    What is not TCP has no connections; its packets are counted in every file that has them.
    """

    framing: str
    training: bool
    connections: int
    packets: int
    payload_nbytes: int
    confidence: float | None
    evidence: str


def traffic(trace: Trace) -> tuple[Traffic, ...]:
    """Everything in the captures by what it was taken for: training first, then the largest first."""
    by_framing: defaultdict[tuple[str, bool], list[Choice]] = defaultdict(list)
    for choice in trace.choices:
        known = choice.framing
        by_framing[known.name if known else "unknown", known is not None and known.is_training].append(choice)
    found = [_together(name, training, some) for (name, training), some in by_framing.items()]
    found += _not_tcp(trace)
    return tuple(sorted(found, key=lambda one: (not one.training, -one.payload_nbytes)))


def _together(name: str, training: bool, some: list[Choice]) -> Traffic:
    streams = [stream for choice in some for stream in choice.connection.streams]
    largest = max(some, key=lambda choice: sum(stream.nbytes for stream in choice.connection.streams))
    return Traffic(
        framing=name,
        training=training,
        connections=len(some),
        packets=sum(stream.n_packets for stream in streams),
        payload_nbytes=sum(stream.nbytes - stream.unseen_nbytes for stream in streams),
        confidence=min(choice.fit.confidence for choice in some) if name != "unknown" else None,
        evidence=largest.fit.evidence,
    )


def _not_tcp(trace: Trace) -> Iterator[Traffic]:
    of_udp = [(p, p.protocol == UDP) for p in trace.captures]
    others = [(p, (p.protocol != UDP) & (p.protocol != TCP)) for p in trace.captures]
    for name, some in (("UDP", of_udp), ("neither TCP nor UDP", others)):
        count = sum(int(np.count_nonzero(rows)) for _, rows in some)
        if count:
            nbytes = sum(int(p.payload_nbytes[rows].sum(dtype=np.int64)) for p, rows in some)
            yield Traffic(
                name,
                training=False,
                connections=0,
                packets=count,
                payload_nbytes=nbytes,
                confidence=None,
                evidence="by the IP header's protocol",
            )
