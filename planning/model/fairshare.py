"""Max-min fair rates: what ideal TCP flows get on the links that they share."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

COMPILED_ABOVE = 200  # flows; for fewer, to load what was compiled takes longer than it saves


def max_min_rates(paths: Mapping[int, Sequence[int]], capacity: Sequence[float]) -> dict[int, float]:
    """The rate of each flow when all send.

    `paths` names the links of each flow, at least one, and `capacity` what each link carries, in any unit
    of rate.  No rate can be raised without lowering one that is not larger.
    """
    shares = FairShares(list(paths.values()), capacity)
    rates = dict(shares.change(range(len(paths)), ()))
    return {flow: rates[number] for number, flow in enumerate(paths)}


class _Cabling(NamedTuple):
    """Lists, or arrays of the same: flow i takes `path_links[path_at[i]:path_at[i + 1]]`, and the reverse."""

    path_at: Any
    path_links: Any
    user_at: Any
    user_flows: Any
    capacity: Any


class _State(NamedTuple):
    """Lists, or arrays of the same, one value for each flow or link; see `_reach` and `_fill`."""

    active: Any
    rates: Any
    fresh: Any
    flows: Any
    flow_mark: Any
    links: Any
    link_mark: Any
    left: Any
    waiting: Any


class FairShares:
    """The rates of flows that start and stop.

    A change reaches only flows that share links with it, directly or through others, so only those are
    worked out again.
    """

    def __init__(self, paths: Sequence[Sequence[int]], capacity: Sequence[float]) -> None:
        kept = _binding(paths, capacity)
        users: list[list[int]] = [[] for _ in capacity]
        for flow, path in enumerate(kept):
            for link in path:
                users[link].append(flow)
        is_large = len(paths) > COMPILED_ABOVE
        self._column: Callable[[list[Any]], Any] = _array if is_large else list[Any]
        self._reach: Callable[..., tuple[int, int]]
        self._fill: Callable[..., int]
        self._reach, self._fill = _compiled() if is_large else (_reach, _fill)
        cabling = (*_flat(kept), *_flat(users), list(capacity))
        self._cabling = _Cabling(*(self._column(values) for values in cabling))
        flows, links = len(paths), len(capacity)
        columns = ([0] * flows, [0.0] * flows, [0.0] * flows, [0] * flows, [0] * flows)
        columns_of_links = ([0] * links, [0] * links, [0.0] * links, [0] * links)
        self._state = _State(*(self._column(values) for values in (*columns, *columns_of_links)))
        self._stamp = 0

    def change(self, started: Collection[int], stopped: Collection[int]) -> list[tuple[int, float]]:
        """Let flows start and stop; (flow, new rate) of all that now send at another rate than before."""
        state = self._state
        for flow in started:
            state.active[flow] = 1
        for flow in stopped:
            state.active[flow] = 0
            state.rates[flow] = 0.0
        self._stamp += 1
        touched = self._column([*started, *stopped])
        n_links, n_flows = self._reach(touched, self._stamp, self._cabling, state)
        n_changed = self._fill(n_links, n_flows, self._cabling, state)
        return [(int(flow), float(state.rates[flow])) for flow in state.flows[:n_changed]]


def _reach(touched: Any, stamp: int, cabling: _Cabling, state: _State) -> tuple[int, int]:
    """All links and active flows that hang together with the touched flows, into `links` and `flows`.

    Marks equal to `stamp` say what has been found.  Also fills `left` and `waiting`, what each of these
    links can carry and how many flows want it.
    """
    n_links = n_flows = done = 0
    for flow in touched:
        for at in range(cabling.path_at[flow], cabling.path_at[flow + 1]):
            link = cabling.path_links[at]
            if state.link_mark[link] != stamp:
                state.link_mark[link] = stamp
                state.links[n_links] = link
                n_links += 1
    while done < n_links:
        link = state.links[done]
        done += 1
        state.left[link] = cabling.capacity[link]
        state.waiting[link] = 0
        for user in range(cabling.user_at[link], cabling.user_at[link + 1]):
            flow = cabling.user_flows[user]
            state.waiting[link] += state.active[flow]
            if state.active[flow] and state.flow_mark[flow] != stamp:
                state.flow_mark[flow] = stamp
                state.flows[n_flows] = flow
                n_flows += 1
                for at in range(cabling.path_at[flow], cabling.path_at[flow + 1]):
                    other = cabling.path_links[at]
                    if state.link_mark[other] != stamp:
                        state.link_mark[other] = stamp
                        state.links[n_links] = other
                        n_links += 1
    return n_links, n_flows


def _fill(n_links: int, n_flows: int, cabling: _Cabling, state: _State) -> int:
    """New rates for the first `n_flows` of `flows`; those whose rate changes come first afterwards: how many.

    Progressive filling (Bertsekas, Gallager, Data Networks, 6.5.2): the link that has the least for each
    flow that waits for it fixes their rates.
    """
    for i in range(n_flows):
        state.fresh[state.flows[i]] = -1.0
    while n_links:
        least, tightest, i = inf, 0, 0
        while i < n_links:
            link = state.links[i]
            if not state.waiting[link]:  # all its flows have their rate
                n_links -= 1
                state.links[i] = state.links[n_links]
                continue
            share = state.left[link] / state.waiting[link]
            if share < least:
                least, tightest = share, link
            i += 1
        if not n_links:
            break
        for user in range(cabling.user_at[tightest], cabling.user_at[tightest + 1]):
            flow = cabling.user_flows[user]
            if state.active[flow] and state.fresh[flow] < 0:
                state.fresh[flow] = least
                for at in range(cabling.path_at[flow], cabling.path_at[flow + 1]):
                    state.left[cabling.path_links[at]] -= least
                    state.waiting[cabling.path_links[at]] -= 1
    n_changed = 0
    for i in range(n_flows):
        flow = state.flows[i]
        if state.fresh[flow] != state.rates[flow]:
            state.rates[flow] = state.fresh[flow]
            state.flows[n_changed] = flow
            n_changed += 1
    return n_changed


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


def _compiled() -> tuple[Callable[..., tuple[int, int]], Callable[..., int]]:
    from gradwire.traces.packets.jit import compiled

    return compiled(_reach), compiled(_fill)
