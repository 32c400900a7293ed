"""A pure Python model of one tree's aggregation slots at one switch: what the switch's program must do.

`job` is the tree's number.

The program (emu/switch/aggregate.h) is tested against this, packet by packet.  The rules are SwitchML's
(Sapio et al., NSDI 2021, algorithm 3) for any number of levels:

- Chunk c belongs to slot c mod n, and to the slot's version (c div n) mod 2.  A child sends chunk c only
  after it has the result of c - n; so who sends c + n needs c no longer, and when all have, nobody does.
- The first packet of each child for a chunk is added, and no other: a bitmap says whose are in.
- When all are in, the root sends the sum to all children; another switch sends it to its parent, as *one*
  child's contribution, and holds a *partial* sum until the result comes down.
- What is done is kept until the version is needed again, two rounds later.  A retransmission is answered with
  the result if there is one; with a STATUS, if children are missing; else the partial sum goes up again.
- Nothing is taken on trust: a chunk that is not the next one of its version is refused, so a packet that was
  under way for long, a restarted worker or a switch that has lost its slots can spoil no sum.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.traces.framing.aggregation import NO_PEAK, VERSION, Header, PacketKind

LEAST, MOST = -(1 << 31), (1 << 31) - 1  # of an int32

Elements = tuple[int, ...]
Event = Literal[
    "contributions",  # came in from children, whatever became of them
    "added",  # of them: the first of its child for its chunk
    "completed",  # chunks of which all children's were in
    "results",  # packets with a result, sent down
    "partials",  # packets with a partial sum, sent up
    "duplicates",  # contributions that were in already
    "statuses",  # sent or passed down
    "stale",  # of a chunk that is over; also results of one
    "early",  # of a chunk whose turn has not come
    "other_epoch",
    "malformed",  # no contribution of this job, or not with the elements that are due
    "saturated",  # elements, not packets: sums that an int32 cannot hold
]
EVENTS: tuple[Event, ...] = Event.__args__  # type: ignore[attr-defined]


class Sent(NamedTuple):
    """A packet that the switch sends through `port`."""

    port: int
    header: Header
    elements: Elements = ()


@dataclass
class Version:
    """One of the two versions of a slot; `chunk` None: never used.

    `count` is how many elements each giver's packet has, None before the first one.
    """

    chunk: int | None = None
    seen: int = 0
    count: int | None = None
    peak: int = NO_PEAK
    values: Elements = ()
    is_done: bool = False


@dataclass
class Pool:
    """`rule` is any of the job's rules at this switch; `n` slots of two versions each."""

    rule: Aggregate
    counted: Counter[Event] = field(default_factory=Counter)
    slots: list[tuple[Version, Version]] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = [(Version(), Version()) for _ in range(self.rule.slots)]

    @property
    def all_seen(self) -> int:
        return (1 << len(self.rule.ports)) - 1

    @property
    def is_root(self) -> bool:
        return self.rule.parent_port is None

    def receive(self, child: int, header: Header, elements: Elements) -> list[Sent]:
        """A packet that the rule of `child` (or FROM_PARENT) has matched; what is sent for it, in order."""
        from_parent = child == FROM_PARENT
        if not from_parent:
            self.counted["contributions"] += 1
        if not self._is_well_formed(child, header, elements):
            self.counted["malformed"] += 1
            return []
        if header.epoch != self.rule.epoch:
            self.counted["other_epoch"] += 1
            if from_parent:
                return []
            answer = Header(PacketKind.EPOCH, self.rule.job, self.rule.epoch, 0, header.chunk)
            return [Sent(self.rule.ports[child], answer)]
        if from_parent:
            return list(self._from_parent(header, elements))
        return list(self._from_child(child, header, elements))

    def _is_well_formed(self, child: int, header: Header, elements: Elements) -> bool:
        """As many elements as announced, and none from who does not give, or to where nobody takes."""
        if header.version != VERSION or header.job != self.rule.job:
            return False
        if header.n_elements != len(elements) or header.n_elements > self.rule.elements:
            return False
        if child == FROM_PARENT:
            return header.kind in (PacketKind.RESULT, PacketKind.STATUS, PacketKind.EPOCH) and (
                bool(self.rule.takes) or not header.n_elements
            )
        gives = bool(self.rule.gives >> child & 1)
        return header.kind == PacketKind.CONTRIBUTION and (gives or not header.count)

    def _from_child(self, child: int, header: Header, elements: Elements) -> Iterator[Sent]:
        version = self._version(header.chunk)
        if version.chunk != header.chunk and not self._begins(version, header.chunk):
            return
        if version.seen >> child & 1:
            self.counted["duplicates"] += 1
            yield from self._answer(child, version)
            return
        gives = self.rule.gives >> child & 1
        if gives and version.count is not None and version.count != header.count:
            self.counted["malformed"] += 1
            return
        self.counted["added"] += 1
        version.seen |= 1 << child
        version.peak = max(version.peak, header.peak)
        if gives:
            version.values = elements if version.count is None else self._sum(version.values, elements)
            version.count = header.count
        if version.seen == self.all_seen:
            self.counted["completed"] += 1
            if self.is_root:
                version.is_done = True
                yield from self._results(version)
            else:
                yield self._partial(version)

    def _begins(self, version: Version, chunk: int) -> bool:
        """Give the version to its next chunk; False (counted) if this is not it, or its turn not yet.

        The version's first chunk is one of the first 2n.  The other version holds chunk - n: that has to be
        done, because who sends `chunk` has its result.
        """
        n = self.rule.slots
        if version.chunk is not None and chunk < version.chunk:
            self.counted["stale"] += 1
            return False
        is_next = chunk < 2 * n if version.chunk is None else chunk == version.chunk + 2 * n
        other = self._version(chunk - n) if chunk >= n else None
        if not is_next or (other is not None and not (other.chunk == chunk - n and other.is_done)):
            self.counted["early"] += 1
            return False
        version.chunk, version.seen, version.count = chunk, 0, None
        version.peak, version.values, version.is_done = NO_PEAK, (), False
        return True

    def _from_parent(self, header: Header, elements: Elements) -> Iterator[Sent]:
        version = self._version(header.chunk)
        waits = version.chunk == header.chunk and version.seen == self.all_seen and not version.is_done
        if header.kind == PacketKind.EPOCH or not waits:
            self.counted["stale"] += 1
            return
        if header.kind == PacketKind.STATUS:
            passed = Header(
                PacketKind.STATUS, header.job, header.epoch, header.count + 1, header.chunk, seen=header.seen
            )
            for port in self.rule.ports:
                self.counted["statuses"] += 1
                yield Sent(port, passed)
            return
        version.values, version.count, version.peak = elements, header.count, header.peak
        version.is_done = True
        yield from self._results(version)

    def _answer(self, child: int, version: Version) -> Iterator[Sent]:
        """What a child hears that has sent again."""
        assert version.chunk is not None
        if version.is_done:
            yield self._result(child, version)
        elif version.seen == self.all_seen:
            yield self._partial(version)
        else:
            self.counted["statuses"] += 1
            header = Header(
                PacketKind.STATUS, self.rule.job, self.rule.epoch, 0, version.chunk, seen=version.seen
            )
            yield Sent(self.rule.ports[child], header)

    def _results(self, version: Version) -> Iterator[Sent]:
        """To all children; those that take the elements first, because the program then cuts them off."""
        takers = [i for i in range(len(self.rule.ports)) if self.rule.takes >> i & 1]
        others = [i for i in range(len(self.rule.ports)) if not self.rule.takes >> i & 1]
        for child in (*takers, *others):
            yield self._result(child, version)

    def _result(self, child: int, version: Version) -> Sent:
        self.counted["results"] += 1
        elements = version.values if self.rule.takes >> child & 1 else ()
        return self._packet(PacketKind.RESULT, self.rule.ports[child], version, elements)

    def _partial(self, version: Version) -> Sent:
        """The sum so far, as the parent's child; bare if nobody below gives."""
        self.counted["partials"] += 1
        assert self.rule.parent_port is not None
        return self._packet(PacketKind.CONTRIBUTION, self.rule.parent_port, version, version.values)

    def _packet(self, kind: PacketKind, port: int, version: Version, elements: Elements) -> Sent:
        assert version.chunk is not None
        rule = self.rule
        return Sent(
            port, Header(kind, rule.job, rule.epoch, len(elements), version.chunk, version.peak), elements
        )

    def _version(self, chunk: int) -> Version:
        n = self.rule.slots
        return self.slots[chunk % n][chunk // n % 2]

    def _sum(self, held: Elements, more: Elements) -> Elements:
        sums = [a + b for a, b in zip(held, more, strict=True)]
        self.counted["saturated"] += sum(not LEAST <= value <= MOST for value in sums)
        return tuple(min(max(value, LEAST), MOST) for value in sums)
