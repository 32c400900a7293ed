"""Incast: several ranks send to one rank at the same time, over one link."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.traces.analysis.flows import origin
from gradwire.traces.trace import Trace

MIN_SENDERS = 2
MIN_MESSAGE_NBYTES = 1500  # what fits into one packet fills no queue
_END, _BEGIN = 0, 1  # at the same instant, what ends comes first


@dataclass(frozen=True)
class Incast:
    """A period in which messages of at least MIN_SENDERS ranks were under way to one.

    `senders` are all that took part in it, `nbytes` the whole messages that were under way in it.  `mean_bps`
    is the rate of what came during it: of a message that began before or ended after, the part of its time
    that lies within, as if its bytes came evenly.
    """

    dst: str
    dst_rank: int
    start_ns: int
    duration_ns: int
    senders: tuple[int, ...]
    nbytes: int
    mean_bps: float | None


class _Transfer(NamedTuple):
    src: int
    nbytes: int
    begin_ns: int
    end_ns: int

    def nbytes_within(self, start_ns: int, end_ns: int) -> float:
        if self.begin_ns == self.end_ns:
            return self.nbytes
        within_ns = min(self.end_ns, end_ns) - max(self.begin_ns, start_ns)
        return self.nbytes * within_ns / (self.end_ns - self.begin_ns)


def incasts(trace: Trace) -> tuple[Incast, ...]:
    """Episodes in the order of time; a message is under way from its first byte until its last arrives."""
    messages = trace.messages
    data = messages.where(messages.is_data & (messages.nbytes >= MIN_MESSAGE_NBYTES))
    origin_ns = origin(trace)
    arriving: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (data.src, data.dst, data.nbytes, data.first_ns, data.received_ns)
    transfers = []
    for number, (src, dst, nbytes, first, received) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        transfer = _Transfer(src, nbytes, first - origin_ns, max(first, received) - origin_ns)
        transfers.append(transfer)
        arriving[dst] += [(transfer.begin_ns, _BEGIN, number), (transfer.end_ns, _END, number)]
    found = [
        episode
        for dst, events in arriving.items()
        for episode in _episodes(trace.addresses[dst], dst, sorted(events), transfers)
    ]
    return tuple(sorted(found, key=lambda episode: episode.start_ns))


def _episodes(
    address: str, dst: int, events: Sequence[tuple[int, int, int]], transfers: Sequence[_Transfer]
) -> list[Incast]:
    found: list[Incast] = []
    under_way: Counter[int] = Counter()
    open_messages: set[int] = set()
    taking_part: set[int] = set()
    start_ns: int | None = None
    for time_ns, what, number in events:
        src = transfers[number].src
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
            found.append(_incast(address, dst, start_ns, time_ns, [transfers[n] for n in taking_part]))
            start_ns = None
    return found


def _incast(address: str, dst: int, start_ns: int, end_ns: int, transfers: Sequence[_Transfer]) -> Incast:
    duration_ns = end_ns - start_ns
    came_nbytes = sum(transfer.nbytes_within(start_ns, end_ns) for transfer in transfers)
    return Incast(
        dst=address,
        dst_rank=dst,
        start_ns=start_ns,
        duration_ns=duration_ns,
        senders=tuple(sorted({transfer.src for transfer in transfers})),
        nbytes=sum(transfer.nbytes for transfer in transfers),
        mean_bps=came_nbytes * 8e9 / duration_ns if duration_ns else None,
    )
