"""Numbers of counters and of pools of slots, which all switches of a fabric share.  Pure."""


class TableFullError(Exception):
    """The switch has no room for one more rule or group, or for an aggregation job's slots."""


class Numbers:
    """Hands out the numbers of counters and of pools of slots, shared by all switches of a fabric."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._next = 0
        self._returned: list[int] = []

    @property
    def n_left(self) -> int:
        return self._n - self._next + len(self._returned)

    def take(self) -> tuple[int, bool]:
        """A number, and whether it is new: counters that nobody had are zero.  Raise TableFullError."""
        if self._returned:
            return self._returned.pop(), False
        if self._next == self._n:
            raise TableFullError(f"all {self._n} numbers are in use")
        self._next += 1
        return self._next - 1, True

    def take_many(self, n: int) -> tuple[list[int], list[int]]:
        """So many numbers, and those of them that are not new.  Raise TableFullError."""
        if n > self.n_left:
            raise TableFullError(f"fewer than {n} of {self._n} numbers are left")
        used = self._returned[-n:]
        del self._returned[-n:]
        first, self._next = self._next, self._next + n - len(used)
        return [*used, *range(first, self._next)], used

    def give_back(self, number: int) -> None:
        self._returned.append(number)
