"""Recovers gRPC messages that a capture does not show, from the sizes of the gaps that they left.

A job sends the same tensors again and again, so what is hidden in a gap has sizes that were read
elsewhere. If one choice of these fills a gap exactly, with no more messages than calls are missing, so
few that it hardly would by chance, and any other takes more frames, it is what was sent.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

from gradwire.traces.framing.grpc import DEFAULT_CHUNK_NBYTES, PREFIX_NBYTES, GrpcMessage, GrpcSide, Rest
from gradwire.traces.framing.http2 import HEADER_NBYTES

NO_CALL = 0
MAX_SIZES = 64  # different ones that are tried
MAX_MESSAGES = 16  # in one gap
MAX_CHANCE = 0.1  # how many choices of this many frames may be expected to fill a gap by chance
MAX_TRIALS, MAX_ALL_TRIALS = 20_000, 200_000  # choices tried for one gap, and for all of a stream
MARGIN = 2  # frames that any other choice must take more
_CONTROL_NBYTES = (13, 17)  # WINDOW_UPDATE, PING; and trailers
_MAX_CONTROL = 3  # frames of these in a gap
_MAX_TRAILERS_NBYTES = 64
# In a side's first gap, beyond what is usual: the acknowledgement of SETTINGS, and the first trailers' text.
_FIRST_NBYTES = (0, 9, len(b"\x40\x0bgrpc-status\x01"), 9 + len(b"\x40\x0bgrpc-status\x01"))


class FilledRest(NamedTuple):
    """What a rest holds: `messages`, and where what is left unknown begins (the end: nothing is)."""

    messages: tuple[GrpcMessage, ...]
    unknown_from: int


class Shape(NamedTuple):
    """Bytes that a side writes around a message, as headers and trailers, and of a DATA frame at most."""

    headers: int
    trailers: int
    chunk: int

    def wire_nbytes(self, nbytes: int) -> int:
        data = nbytes + PREFIX_NBYTES
        return self.headers + data + HEADER_NBYTES * -(-data // self.chunk) + self.trailers


class _Choice(NamedTuple):
    messages: Counter[int]
    n_frames: int


def shape_of(side: GrpcSide) -> Shape:
    """The usual sizes; trailers never captured are the least that is left of gaps behind messages."""
    left = Counter(rest.end - rest.start for rest in side.rests if rest.n_ended == 1)
    behind = [nbytes for nbytes, count in left.items() if count > 1 and nbytes <= _MAX_TRAILERS_NBYTES]
    return Shape(
        headers=_usual(side.headers),
        trailers=_usual(side.trailers) or min(behind, default=0),
        chunk=side.chunk_nbytes or DEFAULT_CHUNK_NBYTES,
    )


def _usual(counts: Counter[int]) -> int:
    return counts.most_common(1)[0][0] if counts else 0


class Filler:
    """Fills the gaps of one side; there is a limit to what is tried for all of them."""

    def __init__(self, side: GrpcSide, sizes: Sequence[Collection[int]], n_missing: int) -> None:
        """`sizes` are those of messages like the hidden ones, the likeliest set first; of these there are
        `n_missing` at most.
        """
        self._shape = shape_of(side)
        self._sizes = [sorted(some, reverse=True) for some in sizes if len(some) <= MAX_SIZES]
        self._n_missing = max(0, min(n_missing, MAX_MESSAGES))
        self._trials = MAX_ALL_TRIALS
        self._known: dict[tuple[int, ...], list[_Choice]] = {}

    def fill(self, rest: Rest) -> FilledRest:
        shape = self._shape
        trailers = rest.n_ended * shape.trailers
        room = rest.end - rest.start - trailers
        if room in _control(shape) and not rest.n_begun:
            return FilledRest((), rest.end)
        room += rest.n_begun * shape.headers
        found = self._least(tuple(room - extra for extra in (_FIRST_NBYTES if rest.is_first else (0,))))
        if not found:
            return FilledRest((), rest.start)
        certain = found[0].messages
        for other in found[1:]:
            certain = certain & other.messages
        messages, at = [], rest.start + trailers
        for nbytes in sorted(certain.elements(), reverse=True):  # in which order they were sent is not known
            end = min(rest.end, at + shape.wire_nbytes(nbytes))
            messages.append(GrpcMessage(NO_CALL, at, end, nbytes, is_read=False))
            at = end
        return FilledRest(tuple(messages), at if len(found) > 1 else rest.end)

    def _least(self, rooms: tuple[int, ...]) -> list[_Choice]:
        """The choice that takes the fewest frames, and those that take hardly more; none if too many must be
        tried.
        """
        if rooms not in self._known:
            tried = (self._choices(rooms, sizes) for sizes in self._sizes)
            self._known[rooms] = next((choices for choices in tried if choices), [])
        return self._known[rooms]

    def _choices(self, rooms: tuple[int, ...], sizes: Sequence[int]) -> list[_Choice]:
        found: list[_Choice] = []
        most = min(MAX_TRIALS, self._trials)
        trials = 0
        for room in rooms:
            for choice in _choices(room, sizes, self._shape, self._n_missing):
                trials += 1
                if trials > most:
                    self._trials -= most
                    return []
                if choice is not None:
                    found.append(choice)
        self._trials -= trials
        least = min((choice.n_frames for choice in found), default=0)
        return [choice for choice in found if choice.n_frames < least + MARGIN]


@lru_cache(maxsize=64)
def _control(shape: Shape) -> dict[int, int]:
    """The sizes that frames without messages can have together, each with the least number of them."""
    kinds = (*_CONTROL_NBYTES, shape.trailers) if shape.trailers else _CONTROL_NBYTES
    some: dict[int, int] = {}
    for count in range(_MAX_CONTROL + 1):
        for chosen in combinations_with_replacement(kinds, count):
            some.setdefault(sum(chosen), count)
    return some


def _choices(room: int, sizes: Sequence[int], shape: Shape, most: int) -> Iterator[_Choice | None]:
    """Every choice of up to `most` messages that fills `room`, and hardly would by chance; None for others.

    Of n messages in k sizes there are C(n + k, k) choices, each with its own sums of control frames.
    """
    wire = [shape.wire_nbytes(nbytes) for nbytes in sizes]
    control = _control(shape)
    chance = [comb(n + len(sizes), n) / max(1, room) for n in range(most + 1)]
    most = max((n for n in range(most + 1) if chance[n] <= MAX_CHANCE), default=0)
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(room, 0, ())]
    while waiting:
        left, first, chosen = waiting.pop()
        n_control = control.get(left) if chosen else None
        if n_control is not None:
            n_sums = sum(count <= n_control for count in control.values())
            n_control = n_control if chance[len(chosen)] * n_sums <= MAX_CHANCE else None
        yield None if n_control is None else _Choice(Counter(chosen), len(chosen) + n_control)
        if len(chosen) == most:
            continue
        for number in range(first, len(sizes)):
            after = left - wire[number]
            if 0 <= after <= (most - len(chosen) - 1) * wire[number] + max(control):
                waiting.append((after, number, (*chosen, sizes[number])))
