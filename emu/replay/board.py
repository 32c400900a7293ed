"""How far each rank is, in memory that agents share with whoever looks: no message, no waiting."""

import mmap

_DONE, _ALL, _UNDER_WAY, _WIDTH = 0, 1, 2, 3  # places of a rank, of 8 bytes each


class Place:
    """A rank's own part of the board."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def begin(self, n_ops: int) -> None:
        """A repeat, in which the rank takes part in so many operations."""
        self._words[_DONE], self._words[_UNDER_WAY], self._words[_ALL] = 0, 0, n_ops

    def write(self, n_done: int, n_under_way: int) -> None:
        """Operations that are done at the rank; its sends, receives and sums that are under way."""
        self._words[_DONE], self._words[_UNDER_WAY] = n_done, n_under_way


class Board:
    """To be made before the agents are forked."""

    def __init__(self, n_ranks: int) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 * _WIDTH * n_ranks)).cast("q")

    def place(self, rank: int) -> Place:
        return Place(self._words[_WIDTH * rank : _WIDTH * (rank + 1)])

    def read(self) -> list[list[int]]:
        """By rank: operations done, of how many, and what is under way."""
        words = self._words.tolist()
        return [words[at : at + _WIDTH] for at in range(0, len(words), _WIDTH)]
