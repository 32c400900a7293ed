"""Max-min fair rates: what ideal TCP flows get on the links that they share."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from gradwire.planning.model import loops
from gradwire.planning.model.loops import Cabling, State

COMPILED_ABOVE = 200  # flows; for fewer, to load what was compiled takes longer than it saves


def max_min_rates(paths: Mapping[int, Sequence[int]], capacity: Sequence[float]) -> dict[int, float]:
    """The rate of each flow when all send.

    `paths` names the links of each flow, at least one, and `capacity` what each link carries, in any unit
    of rate.  No rate can be raised without lowering one that is not larger.
    """
    shares = FairShares(list(paths.values()), capacity)
    rates = dict(shares.change(range(len(paths)), ()))
    return {flow: rates[number] for number, flow in enumerate(paths)}


class FairShares:
    """The rates of flows that start and stop.

    A change reaches only flows that share links with it, directly or through others, so only those are
    worked out again.
    """

    def __init__(
        self, paths: Sequence[Sequence[int]], capacity: Sequence[float], *, is_large: bool | None = None
    ) -> None:
        """Compiled if `is_large`, by default for more than COMPILED_ABOVE paths."""
        kept = _binding(paths, capacity)
        users: list[list[int]] = [[] for _ in capacity]
        for flow, path in enumerate(kept):
            for link in path:
                users[link].append(flow)
        is_large = len(paths) > COMPILED_ABOVE if is_large is None else is_large
        self._column: Callable[[list[Any]], Any] = _array if is_large else list[Any]
        if is_large:
            loops.compile_loops()
        loop: Callable[[Any], Any] = _itself if is_large else loops.plain
        self._start, self._stop = loop(loops.start), loop(loops.stop)
        self._lower_bound, self._reach = loop(loops.lower_bound), loop(loops.reach)
        self._settle, self._fill = loop(loops.settle), loop(loops.fill)
        flows, links = len(paths), len(capacity)
        path_at, path_links = _flat(kept)
        cabling = (path_at, path_links, *_flat(users), [0] * links, [0] * len(path_links), list(capacity))
        self.cabling = Cabling(*(self._column(values) for values in cabling))
        columns = ([0.0] * flows, [0.0] * flows, [0] * flows, [0] * flows)
        columns_of_links = ([0] * links, [0] * links, [0.0] * links, [0] * links)
        self.state = State(*(self._column(values) for values in (*columns, *columns_of_links)))
        self._stamp = 0

    def change(self, started: Collection[int], stopped: Collection[int]) -> list[tuple[int, float]]:
        """Let flows start and stop; (flow, new rate) of all that now send at another rate than before."""
        state = self.state
        for flow in started:
            self._start(flow, self.cabling)
        least = min((float(state.rates[flow]) for flow in stopped), default=inf)
        for flow in stopped:
            self._stop(flow, self.cabling)
            state.rates[flow] = 0.0
        for flow in started:
            least = self._lower_bound(flow, least, self.cabling, state)
        self._stamp += 1
        touched = self._column([*started, *stopped])
        n_links, n_flows = self._reach(touched, self._stamp, self.cabling, state)
        self._settle(n_flows, least, self.cabling, state)
        n_changed = self._fill(n_links, n_flows, self.cabling, state)
        return [(int(flow), float(state.rates[flow])) for flow in state.flows[:n_changed]]


def _itself(loop: Any) -> Any:
    return loop


def _binding(paths: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[list[int]]:
    """The paths without links that never hold anybody up.

    Such a link has another one, not wider and itself kept, on the paths of all its flows.
    """
    shared: dict[int, set[int]] = {}
    for path in paths:
        for link in path:
            shared[link] = shared[link].intersection(path) if link in shared else set(path)
    spare: set[int] = set()
    for link, others in shared.items():
        if any(capacity[other] <= capacity[link] for other in others - spare - {link}):
            spare.add(link)
    return [[link for link in path if link not in spare] for path in paths]


def _flat(rows: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Where each row begins and the last ends, in all rows one after the other; and those."""
    begins: list[int] = [0]
    values: list[int] = []
    for row in rows:
        values.extend(row)
        begins.append(len(values))
    return begins, values


def _array(values: list[Any]) -> Any:
    import numpy as np

    return np.array(values, np.float64 if values and isinstance(values[0], float) else np.int64)
