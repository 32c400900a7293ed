"""In-network aggregation as captures show it: who contributed to each sum, its result, and retransmissions.

All arithmetic is on columns, one entry per packet; the only loops are over files, jobs and hosts, and these
are bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.aggregation import (
    ELEMENT_NBYTES,
    FIRST_PORT,
    HEADER_NBYTES,
    NO_PEAK,
    VERSION,
    PacketKind,
)
from gradwire.traces.packets.packets import UDP, Packets

MAX_JOBS = 256  # those with most packets
MAX_HOSTS = 512  # of a job
Column = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AggregationKind:
    """Packets of one kind; `payload_nbytes` is what they carried above UDP, the header included."""

    kind: str
    packets: int
    payload_nbytes: int


@dataclass(frozen=True)
class AggregationHost:
    """What one host contributed, as in the file that has most of it: `again` are packets with a chunk of an
    epoch that it had contributed already, `nbytes` the elements of the others.
    """

    address: str
    contributions: int
    again: int
    nbytes: int
    first_ns: int
    last_ns: int
    goodput_bps: float | None


@dataclass(frozen=True)
class AggregationJob:
    """One tree's packets in all files, times from the trace's origin.

    `epochs` counts different ones, `last_epoch` is the largest.  `chunks` counts different ones that were
    contributed or came down, those of each epoch again; `elements` is the most that a packet had of them.  A
    `partial` is a contribution of an address from which results come as well: a switch's, on its way up.  A
    `probe` of an idle host, which only asks for the epoch, counts in `kinds` alone.
    """

    job: int
    udp_port: int
    epochs: int
    last_epoch: int
    chunks: int
    elements: int
    again: int
    first_ns: int
    last_ns: int
    kinds: tuple[AggregationKind, ...]
    hosts: tuple[AggregationHost, ...]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Aggregation packets of all files; `src` is a position in the names that go with them."""

    file: Column
    src: Column
    port: Column
    time_ns: Column
    payload_nbytes: Column
    kind: Column
    job: Column
    epoch: Column
    count: Column
    chunk: Column
    peak: Column

    def where(self, rows: npt.NDArray[np.bool_] | Column) -> "_Columns":
        return _Columns(*(getattr(self, field.name)[rows] for field in fields(self)))


def aggregations(captures: Sequence[Packets], origin_ns: int) -> tuple[AggregationJob, ...]:
    """The jobs with most packets, largest first; none if nothing was aggregated.

    A packet counts as often as it was seen: a capture of a switch's ports has those that come in and go out.
    """
    names = sorted({address for packets in captures for address in packets.addresses})
    position = {name: place for place, name in enumerate(names)}
    parts = [_read(packets, number, position) for number, packets in enumerate(captures)]
    seen = _Columns(
        *(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(_Columns))
        if parts
        else (np.empty(0, np.int64) for _ in fields(_Columns))
    )
    jobs = _largest(seen.port << 16 | seen.job, MAX_JOBS)
    return tuple(_job(seen.where(rows), names, origin_ns) for rows in jobs)


def _read(packets: Packets, number: int, position: dict[str, int]) -> _Columns:
    """The packets of one file that are of this protocol, and of which the header is there."""
    is_whole = (packets.protocol == UDP) & (packets.visible_nbytes >= HEADER_NBYTES)
    rows = np.flatnonzero(is_whole & (packets.dport >= FIRST_PORT) & (packets.dport == packets.sport))
    at = packets.payload_at[rows]
    places = np.array([position[address] for address in packets.addresses], np.int64)

    def header(offset: int, nbytes: int) -> Column:
        value = np.zeros(len(at), np.int64)
        for octet in range(offset, offset + nbytes):
            value = value << 8 | packets.data[at + octet]
        return value

    read = _Columns(
        file=np.full(len(rows), number, np.int64),
        src=places[packets.src[rows]] if len(rows) else np.empty(0, np.int64),
        port=packets.dport[rows].astype(np.int64),
        time_ns=packets.time_ns[rows],
        payload_nbytes=packets.payload_nbytes[rows].astype(np.int64),
        kind=header(1, 1),
        job=header(2, 2),
        epoch=header(4, 2),
        count=header(6, 2),
        chunk=header(8, 4),
        peak=header(12, 4).astype(np.uint32).astype(np.int32).astype(np.int64),
    )
    carries = np.isin(read.kind, (PacketKind.CONTRIBUTION, PacketKind.RESULT))
    due = HEADER_NBYTES + np.where(carries, read.count, 0) * ELEMENT_NBYTES
    known = (header(0, 1) == VERSION) & np.isin(read.kind, tuple(PacketKind))
    return read.where(known & (read.payload_nbytes == due))


def _largest(keys: Column, most: int) -> list[Column]:
    """The rows of each of the keys that have most, the largest first; each key's in their order."""
    if not len(keys):
        return []
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] - 1))
    sizes = np.diff(starts, append=len(keys))
    chosen = np.argsort(-sizes, kind="stable")[:most]
    return [order[start : start + size] for start, size in zip(starts[chosen], sizes[chosen], strict=True)]


def _job(seen: _Columns, names: Sequence[str], origin_ns: int) -> AggregationJob:
    contributes = seen.kind == PacketKind.CONTRIBUTION
    # The first chunk of a stream says where to begin, by a peak that is a position.
    asks = contributes & (seen.chunk == 0) & (seen.count == 0) & (seen.peak == NO_PEAK)
    contributes &= ~asks
    is_switch = contributes & np.isin(seen.src, np.unique(seen.src[seen.kind != PacketKind.CONTRIBUTION]))
    from_hosts = seen.where(contributes & ~is_switch)
    by_host = _largest(from_hosts.src, MAX_HOSTS)
    hosts = [_host(from_hosts.where(rows), names, origin_ns) for rows in by_host]
    carries = contributes | (seen.kind == PacketKind.RESULT)
    kinds = {
        "contribution": contributes & ~is_switch,
        "partial": is_switch,
        "probe": asks,
        **{
            kind.name.lower(): seen.kind == kind
            for kind in (PacketKind.RESULT, PacketKind.STATUS, PacketKind.EPOCH)
        },
    }
    return AggregationJob(
        job=int(seen.job[0]),
        udp_port=int(seen.port[0]),
        epochs=len(np.unique(seen.epoch[~asks])),
        last_epoch=int(seen.epoch[~asks].max(initial=0)),
        chunks=len(np.unique((seen.epoch << 32 | seen.chunk)[carries])),
        elements=int(seen.count[carries].max(initial=0)),
        again=sum(host.again for host in hosts),
        first_ns=int(seen.time_ns.min()) - origin_ns,
        last_ns=int(seen.time_ns.max()) - origin_ns,
        kinds=tuple(
            AggregationKind(name, int(np.count_nonzero(rows)), int(seen.payload_nbytes[rows].sum()))
            for name, rows in kinds.items()
        ),
        hosts=tuple(sorted(hosts, key=lambda host: (-host.contributions, host.address))),
    )


def _host(sent: _Columns, names: Sequence[str], origin_ns: int) -> AggregationHost:
    """`sent` are one host's contributions in all files, each of which may have all of them."""
    sent = sent.where(sent.file == np.bincount(sent.file).argmax())
    sent = sent.where(np.argsort(sent.time_ns, kind="stable"))
    _, first = np.unique(sent.epoch << 32 | sent.chunk, return_index=True)
    nbytes = int(sent.count[first].sum()) * ELEMENT_NBYTES
    took_ns = int(sent.time_ns[-1] - sent.time_ns[0])
    return AggregationHost(
        address=names[sent.src[0]],
        contributions=len(sent.src),
        again=len(sent.src) - len(first),
        nbytes=nbytes,
        first_ns=int(sent.time_ns[0]) - origin_ns,
        last_ns=int(sent.time_ns[-1]) - origin_ns,
        goodput_bps=nbytes * 8e9 / took_ns if took_ns else None,
    )
