"""What captures kept and what they left out: files, cut packets, drops, and traffic beside the training."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traces.framing.framings import Choice
from traces.packets.packets import TCP, UDP, Packets
from traces.trace import CaptureFile, Trace


@dataclass(frozen=True)
class FileSummary:
    """What one file holds; `host` is where it was captured, None for a capture of many hosts.

    `snaplen` is the least of its interfaces' (0: unlimited); `snapped` counts packets that were not kept
    whole; `dropped` those that the capture lost by its own word (None: it does not say).  `truncated`: the
    file's end is missing.
    """

    path: Path
    host: str | None
    n_packets: int
    nbytes: int
    first_ns: int
    last_ns: int
    truncated: bool
    snaplen: int
    snapped: int
    dropped: int | None


@dataclass(frozen=True)
class Traffic:
    """Connections that were taken for the same thing.  `evidence` is that of the largest of them.

    What is no TCP has no connections; its packets are counted in every file that has them.
    """

    framing: str
    training: bool
    connections: int
    packets: int
    payload_nbytes: int
    confidence: float | None
    evidence: str


def file_summaries(trace: Trace) -> tuple[FileSummary, ...]:
    return tuple(_summary(*pair) for pair in zip(trace.files, trace.captures, strict=True))


def _summary(file: CaptureFile, packets: Packets) -> FileSummary:
    limits = [one.snaplen for one in packets.interfaces if one.snaplen]
    drops = [one.dropped for one in packets.interfaces if one.dropped is not None]
    return FileSummary(
        path=file.path,
        host=file.host,
        n_packets=file.n_packets,
        nbytes=file.nbytes,
        first_ns=file.first_ns,
        last_ns=file.last_ns,
        truncated=file.truncated,
        snaplen=min(limits, default=0),
        snapped=int(np.count_nonzero(packets.captured_nbytes < packets.wire_nbytes)),
        dropped=sum(drops) if drops else None,
    )


def traffic(trace: Trace) -> tuple[Traffic, ...]:
    """Everything in the captures by what it was taken for: training first, then the largest first."""
    groups: defaultdict[tuple[str, bool], list[Choice]] = defaultdict(list)
    for choice in trace.choices:
        known = choice.framing
        groups[known.name if known else "unknown", known is not None and known.is_training].append(choice)
    found = [_together(name, training, some) for (name, training), some in groups.items()]
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
