"""Incast: several ranks send to one rank at the same time, over one link."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.traces.analysis.flows import origin
from gradwire.traces.trace import Trace

MIN_SENDERS = 2
MIN_MESSAGE_NBYTES = 1500  # what fits into one packet fills no queue
_END, _BEGIN = 0, 1  # at the same instant, what ends comes first


@dataclass(frozen=True)
class Incast:
    """A period in which messages of at least MIN_SENDERS ranks were under way to one.

    `senders` are all that took part in it, `nbytes` the whole messages that were under way in it, `mean_bps`
    those over its duration: more than the link carries if they began long before or ended long after.
    """

    dst: str
    dst_rank: int
    start_ns: int
    duration_ns: int
    senders: tuple[int, ...]
    nbytes: int
    mean_bps: float | None


def incasts(trace: Trace) -> tuple[Incast, ...]:
    """Episodes in the order of time; a message is under way from its first byte until its last arrives."""
    messages = trace.messages
    data = messages.where(messages.is_data & (messages.nbytes >= MIN_MESSAGE_NBYTES))
    origin_ns = origin(trace)
    arriving: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (data.src, data.dst, data.nbytes, data.first_ns, data.received_ns)
    sizes = []
    for number, (src, dst, nbytes, first, received) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        sizes.append((src, nbytes))
        arriving[dst] += [
            (first - origin_ns, _BEGIN, number),
            (max(first, received) - origin_ns, _END, number),
        ]
    found = [
        episode
        for dst, events in arriving.items()
        for episode in _episodes(trace.addresses[dst], dst, sorted(events), sizes)
    ]
    return tuple(sorted(found, key=lambda episode: episode.start_ns))


def _episodes(
    address: str, dst: int, events: Sequence[tuple[int, int, int]], sizes: Sequence[tuple[int, int]]
) -> list[Incast]:
    found: list[Incast] = []
    under_way: Counter[int] = Counter()
    open_messages: set[int] = set()
    taking_part: set[int] = set()
    start_ns: int | None = None
    for time_ns, what, number in events:
        src = sizes[number][0]
        if what == _BEGIN:
            under_way[src] += 1
            open_messages.add(number)
            if start_ns is not None:
                taking_part.add(number)
            elif len(under_way) >= MIN_SENDERS:
                start_ns, taking_part = time_ns, set(open_messages)
            continue
        under_way[src] -= 1
        if not under_way[src]:
            del under_way[src]
        open_messages.discard(number)
        if start_ns is not None and len(under_way) < MIN_SENDERS:
            found.append(_incast(address, dst, start_ns, time_ns, [sizes[n] for n in taking_part]))
            start_ns = None
    return found


def _incast(
    address: str, dst: int, start_ns: int, end_ns: int, messages: Sequence[tuple[int, int]]
) -> Incast:
    nbytes = sum(size for _, size in messages)
    duration_ns = end_ns - start_ns
    return Incast(
        dst=address,
        dst_rank=dst,
        start_ns=start_ns,
        duration_ns=duration_ns,
        senders=tuple(sorted({src for src, _ in messages})),
        nbytes=nbytes,
        mean_bps=nbytes * 8e9 / duration_ns if duration_ns else None,
    )
