"""A workload: what a training job communicated, in which order, and what its ranks computed in between.

It is what `extract` writes and everything else starts from: rank numbers instead of addresses,
collectives, messages and computing instead of packets.  File form: `*.workload.json`, checked by pydantic.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradwire.traces.circles import circle
from gradwire.traces.complaints import complaint, other_version
from gradwire.traces.files import write_whole
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, CollectiveKind, uneven_nbytes
from gradwire.traces.taxonomy import Taxonomy
from gradwire.traces.units import show_first

SCHEMA: Literal["gradwire.workload/2"] = "gradwire.workload/2"
MAX_RANKS = 16_384
MAX_NBYTES = 1 << 40
MAX_ITEMS = 1 << 20  # of a job that another one is made of; some 2 KB each

Nbytes = Annotated[int, Field(ge=0, le=MAX_NBYTES)]
Rank = Annotated[int, Field(ge=0, lt=MAX_RANKS)]
Id = Annotated[int, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65_535)]
MAX_GAP_NS = 86_400 * 10**9  # a day
MAX_TAG, MAX_SLOT = (1 << 32) - 1, (1 << 56) - 1  # what gloo's preamble has room for

Ns = Annotated[int, Field(ge=0, le=MAX_GAP_NS)]


class BadWorkload(Exception):
    """A workload file that cannot be used; the text says where and why."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Start(_Value):
    """`rank` begins as soon as it has completed all of `after` (ids of items)."""

    rank: Rank
    after: tuple[Id, ...] = ()


Algorithm = Literal[
    "gloo-ring",
    "ring",
    "segmented-ring",
    "recursive-doubling",
    "halving-doubling",
    "all-pairs",
    "reduce-broadcast",
    "tree",
]
EXCHANGES = ("recursive-doubling", "halving-doubling")  # ranks send each other something in each step
Shape = Literal["flat", "binomial", "in-order-binomial", "chain", "chains", "binary"]


class Turn(_Value):
    """Of an exchange in a collective the way that came second: message `number` (from 0) from rank `src` to
    rank `dst`, which could leave only when `dst` had handed over its own of that number to `src`.
    """

    src: Rank
    dst: Rank
    number: Id


MAX_TURNS = 1 << 16


class Collective(_Value):
    """One collective of all ranks, e.g. the allreduce of one DDP bucket.

    `algorithm` is how it was done when it was captured (None: gloo's own, or not known).  `up` and `down` are
    the trees by which data went to the root and from it, if it went by trees.  `turns` are the exchanges that
    did not go both ways at once.  With `rendezvous` each message was announced first, and its receiver
    answered that; of exchanges `turns` say it.  `sizes` are those of an alltoall of uneven blocks, what each
    rank has for each; then `nbytes` is the most that a rank has, or gets.
    """

    kind: CollectiveKind
    tag: Annotated[int, Field(ge=0, le=MAX_TAG)]
    nbytes: Nbytes
    root: Rank = 0
    algorithm: Algorithm | None = None
    up: Shape | None = None
    down: Shape | None = None
    turns: Annotated[tuple[Turn, ...], Field(max_length=MAX_TURNS)] = ()
    rendezvous: bool = False
    sizes: tuple[tuple[Nbytes, ...], ...] = ()
    iteration: int = 0
    starts: tuple[Start, ...] = ()

    @property
    def begins(self) -> tuple[Start, ...]:
        return self.starts


class Message(_Value):
    """One point-to-point message: a push, a pull, or what no collective explains.

    `ready` is when its destination was prepared to receive it, None: from the beginning.  What it comes after
    may be listed later in the workload.
    `lock_until` says that its destination has a lock, as an asynchronous parameter server has: of all
    messages with one it takes the first that comes, and the next only when it has completed item
    `lock_until`, e.g. its answer.  None: it takes a message whatever else it does.
    `centre` numbers the buffer of its server that a push adds to, or a pull reads; all that name it have one
    size.  None: the message has a buffer of its own.  `unordered`: a push may come while the centre is read.
    """

    kind: Literal["message"] = "message"
    tag: Annotated[int, Field(ge=0, le=MAX_SLOT)] = 0
    src: Rank
    dst: Rank
    nbytes: Nbytes
    iteration: int = 0
    role: Literal["push", "pull", "other"] = "other"
    start: Start
    ready: Start | None = None
    lock_until: Id | None = None
    centre: Id | None = None
    unordered: bool = False

    @property
    def begins(self) -> tuple[Start, ...]:
        return (self.start,)


class CapturedConnection(_Value):
    """The TCP connection by which ranks `a` and `b` sent each other most, with its port at either."""

    a: Rank
    b: Rank
    port_a: Port
    port_b: Port


class Usual(_Value):
    """How long a rank computes at the same place of `n` iterations: the median, the 10th and the 90th
    percentile.
    """

    median_ns: Ns
    low_ns: Ns
    high_ns: Ns
    n: Annotated[int, Field(ge=1)]


class Compute(_Value):
    """One rank computes for `duration_ns`: before an operation of its own, or to close an iteration.

    What its host takes besides, to the program and from it, is part of that.

    `usual` is the same over iterations, if it repeats.  Where a capture cannot show how long it was,
    `least_ns` and `most_ns` are the range: an operation that had to queue may have been ready long before it
    began.
    """

    kind: Literal["compute"] = "compute"
    start: Start
    duration_ns: Ns
    iteration: int = 0
    usual: Usual | None = None
    least_ns: Ns | None = None
    most_ns: Ns | None = None

    @property
    def begins(self) -> tuple[Start, ...]:
        return (self.start,)

    @property
    def rank(self) -> int:
        return self.start.rank


Item = Annotated[Collective | Message | Compute, Field(discriminator="kind")]


class Workload(_Value):
    """`items` are in the order in which operations began, each behind what was computed before it; an item's
    id is its position in it.

    `addresses[r]` is where rank r was in the capture (empty for a made-up workload).  An item's `iteration`
    counts from 0; -1 is what came before, between and after them.  `unread` is the share of the job's bytes
    in the captures that could not be read as messages.  `connections` has one for each pair of ranks that
    sent; by their ports ECMP chose paths when the job was captured, and does so in a replay.  `late_ns[r]` is
    how much later than the first one rank r began; it is empty where that is not known, and all begin at
    once.  `taxonomy` is empty in files from before there was one.
    """

    schema_: Literal["gradwire.workload/2"] = Field(SCHEMA, alias="schema")
    framing: str
    n_ranks: Annotated[int, Field(ge=1, le=MAX_RANKS)]
    addresses: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    unread: Annotated[float, Field(ge=0, le=1)] = 0.0
    connections: tuple[CapturedConnection, ...] = ()
    late_ns: tuple[Ns, ...] = ()
    taxonomy: Taxonomy = Taxonomy()
    items: tuple[Item, ...]

    @model_validator(mode="after")
    def _check(self) -> "Workload":
        if self.late_ns and len(self.late_ns) != self.n_ranks:
            raise ValueError(f"late_ns is of {len(self.late_ns)} ranks, and the job has {self.n_ranks}")
        for number, connection in enumerate(self.connections):
            if max(connection.a, connection.b) >= self.n_ranks:
                raise ValueError(f"connection {number}: a rank is outside 0..{self.n_ranks - 1}")
        for number, item in enumerate(self.items):
            for start in item.begins:
                self._check_start(number, start)
            if isinstance(item, Compute) and not _in_range(item):
                raise ValueError(f"item {number}: least_ns and most_ns do not make a range")
            if isinstance(item, Collective):
                self._check_collective(number, item)
            if isinstance(item, Message):
                self._check_message(number, item)
        if any(other > number for number, item in enumerate(self.items) for other in awaited(item)):
            check_no_circle(dict(enumerate(self.items)))
        return self

    def _check_start(self, number: int, start: Start) -> None:
        if start.rank >= self.n_ranks:
            raise ValueError(f"item {number}: rank {start.rank} is outside 0..{self.n_ranks - 1}")
        if any(other >= number for other in start.after):
            raise ValueError(f"item {number} waits for a later item: {start.after}")
        self._check_own_computing(number, start)

    def _check_own_computing(self, number: int, start: Start) -> None:
        for other in map(self.items.__getitem__, start.after):
            if isinstance(other, Compute) and other.rank != start.rank:
                raise ValueError(
                    f"item {number}: rank {start.rank} cannot wait for what rank {other.rank} computes"
                )

    def _check_collective(self, number: int, item: Collective) -> None:
        if item.root >= self.n_ranks:
            raise ValueError(f"item {number}: root {item.root} is outside 0..{self.n_ranks - 1}")
        starting = Counter(start.rank for start in item.starts)
        twice = next((rank for rank, count in starting.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"item {number}: rank {twice} has more than one start; give it one")
        if item.turns and item.algorithm not in EXCHANGES:
            raise ValueError(f"item {number} has turns, but {item.algorithm} has no exchanges")
        if item.rendezvous and item.algorithm in EXCHANGES:
            raise ValueError(f"item {number} has a rendezvous, but {item.algorithm} has exchanges")
        if item.sizes:
            self._check_sizes(number, item)
        second = {(turn.src, turn.dst, turn.number) for turn in item.turns}
        for turn in item.turns:
            if turn.src == turn.dst or max(turn.src, turn.dst) >= self.n_ranks:
                raise ValueError(f"item {number}: a turn cannot be between ranks {turn.src} and {turn.dst}")
            if (turn.dst, turn.src, turn.number) in second:
                raise ValueError(f"item {number}: ranks {turn.src} and {turn.dst} would wait for each other")

    def _check_sizes(self, number: int, item: Collective) -> None:
        if item.kind != "alltoall":
            raise ValueError(f"item {number} has sizes of blocks, but {item.kind} has none")
        if {len(item.sizes), *map(len, item.sizes)} != {self.n_ranks}:
            raise ValueError(f"item {number} needs sizes from each of {self.n_ranks} ranks to each")
        if item.nbytes != uneven_nbytes(item.sizes):
            raise ValueError(f"item {number}: with its sizes nbytes must be {uneven_nbytes(item.sizes)}")

    def _check_message(self, number: int, item: Message) -> None:
        if max(item.src, item.dst) >= self.n_ranks:
            raise ValueError(f"item {number}: a rank is outside 0..{self.n_ranks - 1}")
        if item.start.rank != item.src:
            raise ValueError(f"item {number}: a message must start at its source")
        self._check_lock(number, item)
        if item.centre is not None and (item.role == "other" or item.nbytes % ELEMENT_NBYTES):
            raise ValueError(
                f"item {number}: a centre has pushes and pulls, of whole {ELEMENT_NBYTES}-byte numbers"
            )
        if item.ready is None:
            return
        if item.ready.rank != item.dst:
            raise ValueError(f"item {number}: a message must be received at its destination")
        if any(other >= len(self.items) or other == number for other in item.ready.after):
            raise ValueError(f"item {number} cannot be received after these items: {item.ready.after}")
        self._check_own_computing(number, item.ready)

    def _check_lock(self, number: int, item: Message) -> None:
        if item.lock_until is None:
            return
        if not number <= item.lock_until < len(self.items):
            raise ValueError(f"item {number} cannot hold a lock until item {item.lock_until} is complete")
        last = self.items[item.lock_until]
        ranks = (last.src, last.dst) if isinstance(last, Message) else [start.rank for start in last.begins]
        if item.dst not in ranks:
            raise ValueError(
                f"item {number} holds a lock of rank {item.dst} until item {item.lock_until}, in which that "
                "rank has no part"
            )

    @property
    def iterations(self) -> tuple[int, ...]:
        return tuple(sorted({item.iteration for item in self.items}))


def has_lock(items: Iterable[Item]) -> bool:
    """Whether one of the ranks has a lock, as asynchronous parameter servers have."""
    return any(isinstance(item, Message) and item.lock_until is not None for item in items)


def awaited(item: Item) -> set[int]:
    """The items that it waits for, a message at its destination as well."""
    ready = item.ready.after if isinstance(item, Message) and item.ready else ()
    return {other for start in item.begins for other in start.after}.union(ready)


def check_no_circle(items: Mapping[int, Item]) -> None:
    """Raise ValueError if some of these, by their ids, wait for each other, so that none could begin."""
    numbers = list(items)
    place_of = {number: place for place, number in enumerate(numbers)}
    before = [{place_of[other] for other in awaited(item) if other in place_of} for item in items.values()]
    found = [numbers[place] for place in circle(before)]
    if found:
        pairs = zip(found, (*found[1:], found[0]), strict=True)
        number, other = next(pair for pair in pairs if pair[0] < pair[1])
        raise ValueError(
            f"items {show_first(found, 6)} wait for each other: item {number} is `ready` only after item "
            f"{other}, which waits for item {number}"
        )


def _in_range(item: Compute) -> bool:
    least_ns, most_ns = item.least_ns, item.most_ns
    if least_ns is None or most_ns is None:
        return least_ns is most_ns
    return least_ns <= most_ns


def save(workload: Workload, path: Path) -> None:
    """Write it whole or not at all."""
    write_whole(path, workload.model_dump_json(by_alias=True, indent=1) + "\n")


def load(path: Path) -> Workload:
    """Raise BadWorkload for a file that is not a workload, or one of another version."""
    text = path.read_bytes()
    try:
        return Workload.model_validate_json(text)
    except ValidationError as error:
        found = re.search(rb'"schema"\s*:\s*"([^"]{1,80})"', text)
        again = "make it again from its captures with `gradwire extract`"
        reason = other_version(found[1].decode(errors="replace"), SCHEMA, again) if found else ""
        raise BadWorkload(f"{path}: {reason or f'not a workload: {complaint(error)}'}") from error
