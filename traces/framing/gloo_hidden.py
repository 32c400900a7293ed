"""Finds out what gloo messages a capture hides, from what both ends announce.

gloo sends data only after its source has said SEND_READY and its destination RECV_READY, both with the
same slot and length (gloo/transport/tcp/pair.cc, Pair::send and Pair::recv).  So the three come in
equal numbers, and where one is hidden the other two say what is missing.  A gap in a stream is a sum of
k preambles of 48 bytes and whole payloads; what was announced and never seen leaves few ways to make
that sum.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from traces.framing.gloo_decode import Decoded, Frame, Gap, wire_nbytes
from traces.packets.directions import Direction
from traces.packets.streams import Stream

MAX_HIDDEN_NOTICES = 64  # in one gap, beyond what the other end's messages account for
MAX_TRIALS = 10_000  # combinations of payloads tried for one gap


class Transfer(NamedTuple):
    """What SEND_READY, RECV_READY and DATA of one send have in common."""

    slot: int
    length: int


@dataclass(frozen=True)
class Recovered:
    """A stream's messages, hidden ones included where they are certain; `unresolved` is what stays hidden."""

    stream: Stream
    frames: tuple[Frame, ...]
    unresolved: tuple[Gap, ...]


@dataclass
class _Missing:
    """What must be hidden somewhere in one stream; shrinks as it is found.

    `seen` are the times of each transfer's messages, to tell when a missing one is likely.
    """

    data: Counter[Transfer]
    notices: Counter[tuple[Opcode, Transfer]]
    announced_ns: Mapping[Transfer, Sequence[int]]
    data_offsets: Mapping[Transfer, Sequence[int]]
    active_ns: Mapping[int, tuple[int, int]]
    found: Counter[Transfer] = field(default_factory=Counter)

    def due(self, transfer: Transfer, offset: int, time_ns: int) -> int:
        """How many more sends of `transfer` had been announced by `time_ns` than data was seen before
        `offset`.
        """
        announced = bisect_right(self.announced_ns.get(transfer, ()), time_ns)
        begun = bisect_right(self.data_offsets.get(transfer, ()), offset) + self.found[transfer]
        return min(self.data[transfer], announced - begun)


def recover(decoded: Mapping[Direction, Decoded]) -> list[Recovered]:
    """One for each stream, in the order of `decoded`."""
    return [_recovered(forth, decoded.get(direction.reverse)) for direction, forth in decoded.items()]


def _recovered(forth: Decoded, back: Decoded | None) -> Recovered:
    frames = list(forth.frames)
    unresolved = []
    if forth.gaps:
        missing = _missing(forth, back)
        for gap in forth.gaps:
            found, rest = _explained(gap, missing, forth.stream)
            frames += found
            unresolved += rest
        frames.sort()
    return Recovered(forth.stream, tuple(frames), tuple(unresolved))


def _missing(forth: Decoded, back: Decoded | None) -> _Missing:
    """From equal numbers of SEND_READY, RECV_READY and DATA for each transfer, in both directions."""
    ours, theirs = _transfers(forth), _transfers(back) if back else defaultdict(Counter)
    data: Counter[Transfer] = Counter()
    notices: Counter[tuple[Opcode, Transfer]] = Counter()
    out = ours[Opcode.DATA] | ours[Opcode.SEND_READY] | theirs[Opcode.RECV_READY]
    for transfer, count in out.items():
        data[transfer] = count - ours[Opcode.DATA][transfer]
        notices[Opcode.SEND_READY, transfer] = count - ours[Opcode.SEND_READY][transfer]
    inward = theirs[Opcode.DATA] | theirs[Opcode.SEND_READY]
    for transfer, count in inward.items():
        notices[Opcode.RECV_READY, transfer] = max(0, count - ours[Opcode.RECV_READY][transfer])

    announced: defaultdict[Transfer, list[int]] = defaultdict(list)
    offsets: defaultdict[Transfer, list[int]] = defaultdict(list)
    times: defaultdict[int, list[int]] = defaultdict(list)
    for frame, time_ns in _timed(forth, arriving=False):
        times[frame.slot].append(time_ns)
        if frame.opcode is Opcode.DATA:
            offsets[Transfer(frame.slot, frame.length)].append(frame.offset)
    for frame, time_ns in _timed(back, arriving=True) if back else ():
        times[frame.slot].append(time_ns)
        if frame.opcode is Opcode.RECV_READY:
            announced[Transfer(frame.slot, frame.length)].append(time_ns)
    active = {slot: (min(values), max(values)) for slot, values in times.items()}
    return _Missing(+data, +notices, announced, offsets, active)


def _transfers(decoded: Decoded) -> defaultdict[Opcode, Counter[Transfer]]:
    counts: defaultdict[Opcode, Counter[Transfer]] = defaultdict(Counter)
    for frame in decoded.frames:
        counts[frame.opcode][Transfer(frame.slot, frame.length)] += 1
    return counts


def _timed(decoded: Decoded, arriving: bool) -> Iterator[tuple[Frame, int]]:
    """Frames with the time at which they began to be seen, at their source or (arriving) destination."""
    timeline = decoded.stream.received if arriving else decoded.stream.sent
    times = timeline.first_seen_ns([frame.offset for frame in decoded.frames])
    return zip(decoded.frames, times.tolist(), strict=True)


def _explained(gap: Gap, missing: _Missing, stream: Stream) -> tuple[list[Frame], list[Gap]]:
    """The hidden messages of a gap, and what of it stays unexplained."""
    time_ns = int(stream.sent.first_seen_ns(gap.end - 1))
    payloads = _payloads(gap, missing, time_ns)
    if payloads is None:
        return [], [gap]
    size = gap.end - gap.start - sum(wire_nbytes(Opcode.DATA, t.length) for t in payloads)
    for transfer in payloads:
        missing.data[transfer] -= 1
        missing.found[transfer] += 1
    wanted = [gap.opcode] if gap.opcode in (Opcode.SEND_READY, Opcode.RECV_READY) else []
    notices = list(_notices(size // PREAMBLE_NBYTES, missing, time_ns, {t.slot for t in payloads}, wanted))
    known = [*notices, *((Opcode.DATA, transfer) for transfer in payloads)]
    unknown_nbytes = size - PREAMBLE_NBYTES * len(notices)
    offset = gap.start + unknown_nbytes  # what stays unknown are notices; they come before the data
    frames = []
    for opcode, transfer in known:
        frames.append(Frame(offset, opcode, transfer.slot, transfer.length, recovered=True))
        offset += frames[-1].nbytes
    return frames, [Gap(gap.start, gap.start + unknown_nbytes)] if unknown_nbytes else []


def _payloads(gap: Gap, missing: _Missing, time_ns: int) -> list[Transfer] | None:
    """The data messages in the gap; None if there is no way to fill it, or several that differ.

    All that is missing anywhere in the stream may be here; where that leaves a choice, only what had been
    announced and not yet sent at that time.
    """
    if gap.opcode is not None and not gap.opcode.has_payload:
        return []
    n_notices = sum(missing.notices.values())
    sums = _sums(gap, missing.data, n_notices) or _sums(gap, missing.data, MAX_HIDDEN_NOTICES)
    due = +Counter({t: missing.due(t, gap.start, time_ns) for t in missing.data})
    if len(sums) > 1:
        sums = sums & _sums(gap, due, n_notices)
    if len(sums) != 1:
        return None
    return _transfers_of(sums.pop(), due, missing)


def _sums(gap: Gap, candidates: Counter[Transfer], max_notices: int) -> set[tuple[int, ...]]:
    """Ways to fill the gap: the lengths of the data in it, the rest being up to `max_notices` preambles.

    Empty as well if there are too many to try.
    """
    available: Counter[int] = Counter()
    for transfer, count in candidates.items():
        available[transfer.length] += count
    lengths = sorted(available, reverse=True)
    found: set[tuple[int, ...]] = set()
    stack: list[tuple[int, int, tuple[int, ...]]] = [(0, gap.end - gap.start, ())]
    for _ in range(MAX_TRIALS):
        if not stack:
            return found
        index, left, chosen = stack.pop()
        notices, odd = divmod(left, PREAMBLE_NBYTES)
        if not odd and notices <= max_notices and (not gap.is_one or notices + len(chosen) == 1):
            found.add(chosen)
        for later in range(index, len(lengths)):
            size = wire_nbytes(Opcode.DATA, lengths[later])
            if size <= left and chosen.count(lengths[later]) < available[lengths[later]]:
                stack.append((later, left - size, (*chosen, lengths[later])))
    return set()


def _transfers_of(lengths: Iterable[int], due: Counter[Transfer], missing: _Missing) -> list[Transfer]:
    """Name the slot of each length: one that is due if there is one, of these the one active first."""
    left = missing.data.copy()

    def rank(transfer: Transfer) -> tuple[bool, tuple[int, int]]:
        return due[transfer] <= 0, missing.active_ns.get(transfer.slot, (0, 0))

    chosen = []
    for length in lengths:
        transfer = min((t for t in +left if t.length == length), key=rank)
        left[transfer] -= 1
        chosen.append(transfer)
    return sorted(chosen, key=rank)


def _notices(
    count: int, missing: _Missing, time_ns: int, slots: set[int], opcodes: Sequence[Opcode | None]
) -> Iterator[tuple[Opcode, Transfer]]:
    """Up to `count` missing notices: first of the slots whose data is beside them, then of what was
    active.
    """

    def distance(item: tuple[Opcode, Transfer]) -> tuple[bool, int, int]:
        first, last = missing.active_ns.get(item[1].slot, (0, 0))
        return item[1].slot not in slots, max(0, first - time_ns, time_ns - last), first

    for _ in range(count):
        fitting = [item for item in +missing.notices if not opcodes or item[0] in opcodes]
        if not fitting:
            return
        chosen = min(fitting, key=distance)
        missing.notices[chosen] -= 1
        yield chosen
