"""Which send a gloo slot belongs to: slots numbered as gloo does, and matched first in, first out.

gloo matches a receive to a send by slot and order on a connection; so do we, so a replay's capture reads
like a capture of gloo.
"""

from collections import defaultdict, deque
from collections.abc import Iterator

from gradwire.traces.framing.gloo import PREFIXES, pack_slot
from gradwire.traces.schedules.pacing import ALL_AHEAD, ANNOUNCED_AHEAD
from gradwire.traces.schedules.schedule import Schedule

TAG_LIMIT = 1 << 32

Key = tuple[int, int]  # peer, slot


def slots_of(schedule: Schedule, repeat: int) -> list[int]:
    """The slot of each operation in the given repeat; a collective's tag is never used twice, and what is
    computed needs none.
    """
    tags = [op.tag for op in schedule.ops if op.contract.is_collective]
    period = max(tags, default=0) + 1
    return [
        pack_slot(PREFIXES[op.kind], (op.tag + repeat * period) % TAG_LIMIT)
        if op.contract.is_collective
        else op.tag
        for op in schedule.ops
    ]


def in_order(schedule: Schedule, rank: int, slots: list[int]) -> tuple[dict[Key, list[int]], ...]:
    """(sends, receives) of `rank`: their ids in order for each (peer, slot)."""
    sends: defaultdict[Key, list[int]] = defaultdict(list)
    receives: defaultdict[Key, list[int]] = defaultdict(list)
    for number, send in schedule.sends.of_rank(rank).items():
        if send.src == rank:
            sends[send.dst, slots[send.op]].append(number)
        elif send.dst == rank:
            receives[send.src, slots[send.op]].append(number)
    return dict(sends), dict(receives)


class Matching:
    """One rank's sends and receives of a repeat: which may leave, and which one comes in.

    In each slot a send leaves after those before it, when its data are there and the receiver has announced
    it.  Receives are announced in the order of their sends, too, and those of a slot with rendezvous one for
    each send that the source has announced.  Where the rank sends nothing to the peer in the slot, not more
    than ANNOUNCED_AHEAD are announced of what has not begun to come in, and no others until half of those
    have come: a notice costs both ranks what small data would.  Where it does, as to a parameter server, a
    notice that is not out at the beginning would wait behind what the rank has queued to send there.
    """

    def __init__(self, schedule: Schedule, rank: int, repeat: int) -> None:
        self.slots = slots_of(schedule, repeat)
        self._nbytes = schedule.sends.nbytes
        sends, receives = in_order(schedule, rank, self.slots)
        self._to_send = {key: deque(numbers) for key, numbers in sends.items()}
        self._to_receive = {key: deque(numbers) for key, numbers in receives.items()}
        self._sendable: set[int] = set()
        self._credit: defaultdict[Key, int] = defaultdict(int)
        self._rendezvous = {slot for slot, op in zip(self.slots, schedule.ops, strict=True) if op.rendezvous}
        self._to_announce = {key: deque(numbers) for key, numbers in receives.items()}
        self._ahead = {key: ALL_AHEAD if key in sends else ANNOUNCED_AHEAD for key in receives}
        self._posted: set[int] = set()
        self._asked: defaultdict[Key, int] = defaultdict(int)
        self._to_ask = {key: deque(numbers) for key, numbers in receives.items()}

    def has_data(self, number: int) -> None:
        """What this send waited for is there."""
        self._sendable.add(number)

    def asked(self, key: Key) -> int | None:
        """The peer has one more send ready; returns which, None: the plan has no more."""
        self._asked[key] += 1
        waiting = self._to_ask.get(key)
        return waiting.popleft() if waiting else None

    def posted(self, number: int) -> None:
        """A receive waits for nothing more on its own side."""
        self._posted.add(number)

    def answering(self, key: Key) -> Iterator[int]:
        """Take the receives that may be announced, in their order."""
        waiting = self._to_announce.get(key)
        if key[1] not in self._rendezvous:
            self._asked[key] = len(waiting or ())
        if not waiting or self._n_ahead(key) > self._ahead[key] // 2:
            return
        while waiting and waiting[0] in self._posted and self._asked[key]:
            if self._n_ahead(key) == self._ahead[key]:
                return
            self._asked[key] -= 1
            yield waiting.popleft()

    def _n_ahead(self, key: Key) -> int:
        """How many are announced that have not begun to come in."""
        return len(self._to_receive[key]) - len(self._to_announce[key])

    def announced(self, key: Key) -> None:
        """The peer is ready for one more send."""
        self._credit[key] += 1

    def leaving(self, key: Key) -> Iterator[int]:
        """Take the sends that may leave, in their order."""
        waiting = self._to_send.get(key)
        while waiting and waiting[0] in self._sendable and self._credit[key]:
            self._credit[key] -= 1
            yield waiting.popleft()

    def arriving(self, key: Key, nbytes: int) -> int | None:
        """Take the send of which this many bytes begin to come in; None: that one is not next in the plan."""
        waiting = self._to_receive.get(key)
        if not waiting or self._nbytes[waiting[0]] != nbytes:
            return None
        return waiting.popleft()
