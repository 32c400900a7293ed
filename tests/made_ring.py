"""gloo's ring allreduce on slow links, as a simulation that knows what was sent where."""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.traces.framing.gloo import HELLO_NBYTES, Opcode, pack_slot
from gradwire.traces.packets.directions import Direction
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from tests.made_captures import ACK, HEADERS_NBYTES, SYN, Record, pcap, stream
from tests.made_gloo import Sent

SEGMENT_NBYTES = 4096  # at most; gloo's own are up to 1 MiB
Pair = tuple[int, int]


@dataclass(frozen=True)
class Links:
    """Each ordered pair of ranks has a link of its own; a packet takes up to `packet_nbytes`."""

    n_ranks: int
    bytes_per_s: int
    delay_ns: int
    buffer_nbytes: int
    packet_nbytes: int


class Ring:
    """Buckets, each with the times at which the ranks begin it, reduced at the same time."""

    def __init__(self, links: Links, buckets: Sequence[tuple[int, Sequence[int]]]) -> None:
        self.links = links
        self.parts: dict[tuple[int, int], _Part] = {}
        self.written: defaultdict[Pair, list[Sent]] = defaultdict(list)
        self.packets: defaultdict[Pair, list[tuple[int, int]]] = defaultdict(list)  # time, bytes
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._queued: Counter[Pair] = Counter()
        self._left: Counter[Pair] = Counter()
        self._busy: set[Pair] = set()
        self._arrivals: defaultdict[Pair, deque[tuple[int, Callable[[int], None]]]] = defaultdict(deque)
        self._writes: defaultdict[Pair, deque[tuple[int, Callable[[int], None]]]] = defaultdict(deque)
        for tag, (nbytes, begins) in enumerate(buckets):
            sends = gloo_ring(links.n_ranks, nbytes, max_segment_nbytes=SEGMENT_NBYTES)
            for rank, ns in enumerate(begins):
                self._at(ns, _Part(self, tag, rank, [s.nbytes for s in sends if s.src == rank]).go_on)
        while self._events:
            ns, _, act = heapq.heappop(self._events)
            act(ns)

    def _at(self, ns: int, act: Callable[[int], None]) -> None:
        self._count = getattr(self, "_count", 0) + 1
        heapq.heappush(self._events, (ns, self._count, act))

    def write(
        self, ns: int, pair: Pair, sent: Sent, *, out: Callable[[int], None], there: Callable[[int], None]
    ) -> None:
        """Queue a message; `out` is called when the socket has taken it, `there` when it has arrived."""
        self.written[pair].append(sent)
        self._queued[pair] += len(sent.wire)
        self._writes[pair].append((self._queued[pair], out))
        self._arrivals[pair].append((self._queued[pair], there))
        self._go_on(ns, pair)

    def _go_on(self, ns: int, pair: Pair) -> None:
        writes = self._writes[pair]
        while writes and writes[0][0] <= self._left[pair] + self.links.buffer_nbytes:
            self._at(ns + 20_000, writes.popleft()[1])
        nbytes = min(self._queued[pair] - self._left[pair], self.links.packet_nbytes)
        if pair in self._busy or not nbytes:
            return
        self._busy.add(pair)
        self.packets[pair].append((ns, nbytes))
        self._left[pair] += nbytes
        end_ns = ns + nbytes * 10**9 // self.links.bytes_per_s
        upto = self._left[pair]
        self._at(end_ns, lambda now: self._is_free(now, pair))
        self._at(end_ns + self.links.delay_ns, lambda now: self._arrive(now, pair, upto))

    def _is_free(self, ns: int, pair: Pair) -> None:
        self._busy.discard(pair)
        self._go_on(ns, pair)

    def _arrive(self, ns: int, pair: Pair, upto: int) -> None:
        arrivals = self._arrivals[pair]
        while arrivals and arrivals[0][0] <= upto:
            self._at(ns + 20_000, arrivals.popleft()[1])

    def captured(self, path: Path, visible: int) -> Path:
        """A capture at a point that all packets pass as they leave; each keeps `visible` bytes of payload."""
        records: list[Record] = []
        for (src, dst), sizes in self.packets.items():
            wire, parts = b"".join(sent.wire for sent in self.written[src, dst]), []
            is_opener = src > dst
            if is_opener:
                parts.append((1, b"h" * HELLO_NBYTES))
            at = 0
            for ns, nbytes in sizes:
                parts.append((ns, wire[at : at + nbytes]))
                at += nbytes
            one = direction(src, dst)
            ends = (one.src, one.sport), (one.dst, one.dport)
            records += stream(*ends, parts, 1, SYN if is_opener else SYN | ACK)
        records.sort(key=lambda record: record.time_ns)
        cut = [Record(r.time_ns, r.frame[: HEADERS_NBYTES + visible], len(r.frame)) for r in records]
        path.write_bytes(pcap(cut))
        return path


def direction(src: int, dst: int) -> Direction:
    ports = (4000 + dst, 5000 + src) if src < dst else (5000 + dst, 4000 + src)
    return Direction(f"10.0.0.{src + 1}", ports[0], f"10.0.0.{dst + 1}", ports[1])


class _Part:
    """One rank's part in one allreduce: gloo/allreduce.cc, `ring`, two sends and receives in flight."""

    def __init__(self, ring: Ring, tag: int, rank: int, lengths: Sequence[int]) -> None:
        self.ring, self.tag, self.rank, self.lengths = ring, tag, rank, lengths
        self.posted = self.sent = self.received = self.asked = self.queued = 0
        self.begun = False
        ring.parts[tag, rank] = self

    def _other(self, step: int) -> "_Part":
        return self.ring.parts[self.tag, (self.rank + step) % self.ring.links.n_ranks]

    def go_on(self, ns: int) -> None:
        self.begun = True
        half = len(self.lengths) // 2
        while self.posted < len(self.lengths):
            needed = half if half <= self.posted < half + 2 else max(0, self.posted - 1)
            if min(self.sent, self.received) < min(needed, self.posted):
                return
            self._post(ns)

    def _post(self, ns: int) -> None:
        before, after = self._other(1), self._other(-1)
        slot, number = pack_slot(4, self.tag), self.posted
        self.posted += 1
        ready = Sent(Opcode.RECV_READY, slot, before.lengths[number])
        self.ring.write(ns, (self.rank, before.rank), ready, out=_nothing, there=before._is_asked)
        announced = Sent(Opcode.SEND_READY, slot, self.lengths[number])
        self.ring.write(ns, (self.rank, after.rank), announced, out=_nothing, there=_nothing)
        self._send(ns)

    def _is_asked(self, ns: int) -> None:
        self.asked += 1
        self._send(ns)

    def _send(self, ns: int) -> None:
        after = self._other(-1)
        while self.queued < min(self.asked, self.posted):
            data = Sent(Opcode.DATA, pack_slot(4, self.tag), self.lengths[self.queued])
            self.queued += 1
            self.ring.write(ns, (self.rank, after.rank), data, out=self._is_out, there=after._has_come)

    def _is_out(self, ns: int) -> None:
        self.sent += 1
        self.go_on(ns)

    def _has_come(self, ns: int) -> None:
        self.received += 1
        self.go_on(ns)


def _nothing(_: int) -> None:
    pass
