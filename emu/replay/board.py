"""Memory that agents share: how far each rank is, for the live view, and how many are done with a repeat."""

import ctypes
import mmap
from dataclasses import dataclass

_DONE, _ALL, _UNDER_WAY, _MOVED, _TO_MOVE, _WIDTH = 0, 1, 2, 3, 4, 5  # places of a rank, of 8 bytes each


class Place:
    """A rank's own part of the board."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    @property
    def address(self) -> int:
        """Where the rank's words begin, for C."""
        return ctypes.addressof(ctypes.c_int64.from_buffer(self._words))

    def begin(self, n_ops: int, n_to_move: int) -> None:
        """Begin a repeat in which the rank has `n_ops` operations, and `n_to_move` sends and receives."""
        self._words[_DONE], self._words[_UNDER_WAY], self._words[_MOVED] = 0, 0, 0
        self._words[_ALL], self._words[_TO_MOVE] = n_ops, n_to_move

    def write(self, n_done: int, n_under_way: int, n_moved: int) -> None:
        """Operations that are done at the rank; its sends, receives and sums that are under way; its sends
        and receives that are over.
        """
        words = self._words
        words[_DONE], words[_UNDER_WAY], words[_MOVED] = n_done, n_under_way, n_moved


class FinishLine:
    """Where the agents of a machine wait in C until the last of them is done with a repeat.

    What Python does at a rank's end takes half a millisecond, as its memory is no longer in the caches: 128
    ranks would keep the last ones from their processors for 20 ms.  To be made before the agents are forked.
    All of these have loops in C or none: that depends on the schedule alone (`cloop.is_for`).
    """

    def __init__(self, n_ranks: int) -> None:
        self._n_ranks = n_ranks
        self._words = memoryview(mmap.mmap(-1, 4 * (1 + n_ranks))).cast("i")  # how many, in all; who is there

    def place(self, number: int) -> "Finish":
        """That of one of the ranks."""
        address = ctypes.addressof(ctypes.c_int32.from_buffer(self._words))
        return Finish(self, address, address + 4 * (1 + number), self._n_ranks)

    def is_there(self, number: int) -> bool:
        """Whether a rank waits for others."""
        return bool(self._words[1 + number])


@dataclass(frozen=True, slots=True)
class Finish:
    """A rank's place at the line, for C: where it counts itself, and where it says that it waits."""

    line: FinishLine
    count_address: int
    waits_address: int
    n_ranks: int


class Board:
    """To be made before the agents are forked."""

    def __init__(self, n_ranks: int) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 * _WIDTH * n_ranks)).cast("q")

    def place(self, rank: int) -> Place:
        return Place(self._words[_WIDTH * rank : _WIDTH * (rank + 1)])

    def read(self) -> list[list[int]]:
        """By rank: operations done, of how many, what is under way, sends and receives over, of how many."""
        words = self._words.tolist()
        return [words[at : at + _WIDTH] for at in range(0, len(words), _WIDTH)]
