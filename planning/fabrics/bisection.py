"""The worst even cut of a fabric: the smallest capacity, one way, between two halves of its hosts.

A cut puts some switches on one side, and their hosts with them.  If these are not half of the hosts, as
many as are too many change sides, those with the slowest cables first, and each adds its own cable to the
cut.  By max-flow, min-cut the least over all sets of switches is the least over all halves of the hosts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.grids import least_cuts
from gradwire.planning.fabrics.paths import access_port

MAX_CHOSEN = 18  # switches whose side is tried both ways: 2^17 cuts take a tenth of a second
MAX_PASSES = 50
MAX_SPECTRAL = 600  # switches; the eigenvectors of more take seconds

Numbers = npt.NDArray[np.int64]
Side = npt.NDArray[np.bool_]  # of each switch, whether it is near


@dataclass(frozen=True, slots=True)
class Cut:
    """`bps` crosses it, one way; an upper bound of the least unless `is_exact`.

    `near` are the switches of one side, the one with fewer hosts.
    """

    bps: int
    near: tuple[str, ...]
    is_exact: bool = True


def worst_even_cut(fabric: Fabric) -> Cut:
    """Exact for every built-in family without rates of single cables, and for all fabrics of which few
    switches need to be tried.
    """
    known = _known(fabric)
    if known is not None:
        return known
    weights = _Weights(fabric)
    chosen = weights.chosen
    if len(chosen) <= MAX_CHOSEN:
        bps, near = weights.least(chosen)
        return Cut(bps, near)
    bps, near = min(weights.improved(start) for start in weights.starts())
    return Cut(bps, near, is_exact=False)


def full_bps(fabric: Fabric) -> int:
    """What half of the hosts can send at most: their own cables, the slower half of them."""
    rates = sorted(fabric.rates[access_port(fabric, host)] for host in fabric.hosts)
    return sum(rates[: len(rates) // 2])


def _known(fabric: Fabric) -> Cut | None:
    """The least of the cuts that the symmetry of a built-in family leaves to look at."""
    if len(fabric.host_rates_bps) > 1 or len(fabric.inner_rates_bps) > 1:  # of single cables
        return None
    n_hosts = len(fabric.hosts)
    host_bps = fabric.links[0].rate_bps
    inner_bps = fabric.links[-1].rate_bps
    if fabric.family == "fat-tree" and fabric.shape["levels"] == 3:
        # Full bisection by construction (Al-Fares et al., SIGCOMM 2008) at the slower tier's rate.
        pods = fabric.switches[: len(fabric.hosts) // fabric.shape["k"]]
        return Cut(n_hosts // 2 * min(host_bps, inner_bps), pods)
    cuts = [
        (n_inner * inner_bps + abs(n_near - n_hosts // 2) * host_bps, -n_near, near)
        for n_inner, n_near, near in _cuts(fabric)
    ]
    if not cuts:
        return None
    bps, _, near = min(cuts)  # of equal ones that which moves the fewest hosts
    return Cut(bps, near)


def _cuts(fabric: Fabric) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """(cables between switches that a cut severs, hosts on switches of one side, these switches)."""
    shape, switches = fabric.shape, fabric.switches
    match fabric.family:
        case "star":
            yield 0, 0, ()
        case "bigraph":
            half, m = shape["n"] // 2, shape["m"]
            for upper in range(half + 1):
                for lower in range(half + 1 - upper):
                    severed = upper * (half - lower) + lower * (half - upper)
                    yield severed, (upper + lower) * m, switches[:upper] + switches[half : half + lower]
        case "leaf-spine" | "fat-tree":
            leaves, spines, m = _clos(shape)
            for near in range(leaves // 2 + 1):  # the spines stay with the larger side
                yield spines * near, near * m, switches[:near]
        case "torus" | "mesh":
            for severed, nodes in least_cuts(shape["x"], shape["y"], wraps=fabric.family == "torus"):
                yield severed, len(nodes), tuple(switches[number] for number in nodes)


def _clos(shape: Mapping[str, int]) -> tuple[int, int, int]:
    """Leaves, spines and hosts per leaf of a leaf-spine or a fat-tree of two levels."""
    if "k" in shape:
        return shape["k"], shape["k"] // 2, shape["k"] // 2
    return shape["leaves"], shape["spines"], shape["hosts"]


class _Weights:
    """A fabric as what a cut needs: capacities between switches, and the hosts' rates at each."""

    def __init__(self, fabric: Fabric) -> None:
        self._switches = fabric.switches
        number = {switch: i for i, switch in enumerate(fabric.switches)}
        size = len(number)
        self._capacity = np.zeros((size, size), dtype=np.int64)
        for link in fabric.links:
            if link.a in number and link.b in number:
                self._capacity[number[link.a], number[link.b]] += link.rate_bps
                self._capacity[number[link.b], number[link.a]] += link.rate_bps
        hosts: defaultdict[int, list[int]] = defaultdict(lambda: [0] * size)
        for host in fabric.hosts:
            at = access_port(fabric, host)
            hosts[fabric.rates[at]][number[at.node]] += 1
        self._rates = sorted(hosts)
        self._hosts = np.array([hosts[rate] for rate in self._rates], dtype=np.int64)  # [rate, switch]

    @cached_property
    def chosen(self) -> tuple[int, ...]:
        """The switches whose side must be tried: all but some without hosts and without cables to each
        other, which take the side that severs less.
        """
        free: list[int] = []
        candidates = [i for i in range(len(self._switches)) if not self._hosts[:, i].any()]
        for i in sorted(candidates, key=lambda i: int(np.count_nonzero(self._capacity[i, candidates]))):
            if not self._capacity[i, free].any():
                free.append(i)
        return tuple(i for i in range(len(self._switches)) if i not in free)

    def least(self, chosen: tuple[int, ...]) -> tuple[int, tuple[str, ...]]:
        """The least cut over all ways to put the chosen switches on two sides."""
        masks = np.arange(1 << (len(chosen) - 1), dtype=np.int64)  # the last one is always far
        near = np.zeros((len(self._switches), len(masks)), dtype=np.bool_)
        for position, i in enumerate(chosen[:-1]):
            near[i] = masks >> position & 1
        for i in set(range(len(self._switches))) - set(chosen):
            near[i] = 2 * (self._capacity[i] @ near) > self._capacity[i].sum()
        costs = self._severed(near) + self._moved(self._hosts @ near)
        best = int(costs.argmin())
        return int(costs[best]), self._names(near[:, best])

    def starts(self) -> Iterator[Side]:
        """Sides to improve on: the first switches in order and in the order of three eigenvectors."""
        size = len(self._switches)
        orders = [np.arange(size)]
        if size <= MAX_SPECTRAL:
            capacity = self._capacity / self._capacity.max()
            _, vectors = np.linalg.eigh(np.diag(capacity.sum(axis=0)) - capacity)
            orders += [np.argsort(vectors[:, i], kind="stable") for i in range(1, min(4, size))]
        n_hosts = self._hosts.sum(axis=0)
        for order in orders:
            before = np.cumsum(n_hosts[order]) - n_hosts[order]
            near = np.zeros(size, dtype=np.bool_)
            near[order[2 * before < n_hosts.sum()]] = True
            yield near

    def improved(self, near: Side) -> tuple[int, tuple[str, ...]]:
        """Kernighan and Lin's passes: every switch changes sides once, the cheapest first, and the pass
        ends where it was cheapest; until one finds nothing.
        """
        cost = int((self._severed(near[:, None]) + self._moved(self._hosts @ near[:, None]))[0])
        for _ in range(MAX_PASSES):
            best, best_cost = self._best_of_pass(near)
            if best_cost >= cost:
                break
            near, cost = best, best_cost
        return cost, self._names(near)

    def _best_of_pass(self, near: Side) -> tuple[Side, int]:
        trial, best, best_cost = near.copy(), near, np.iinfo(np.int64).max
        severed = int(self._severed(near[:, None])[0])
        waiting = np.ones(len(near), dtype=np.bool_)
        for _ in range(len(near)):
            sign = np.where(trial, 1, -1)
            flipped = severed + (self._capacity @ sign) * sign  # for each switch that could change sides
            costs = flipped + self._moved((self._hosts @ trial)[:, None] - self._hosts * sign)
            i = int(np.where(waiting, costs, np.iinfo(np.int64).max).argmin())
            trial[i] ^= True
            waiting[i] = False
            severed = int(flipped[i])
            if costs[i] < best_cost:
                best, best_cost = trial.copy(), int(costs[i])
        return best, best_cost

    def _severed(self, near: Side) -> Numbers:
        """Capacity between the sides, for each column of `near`."""
        total = np.zeros(near.shape[1], dtype=np.int64)
        for i, j in zip(*np.nonzero(np.triu(self._capacity)), strict=True):
            total += (near[i] != near[j]) * self._capacity[i, j]
        return total

    def _moved(self, on_near: Numbers) -> Numbers:
        """What the cables of the hosts carry that must change sides, the slowest chosen.

        `on_near` counts the hosts of the near switches [rate, column].
        """
        on_far = self._hosts.sum(axis=1)[:, None] - on_near
        n_hosts = int(self._hosts.sum())
        targets = {n_hosts // 2, n_hosts - n_hosts // 2}
        moving = [self._moving(on_near, on_far, target) for target in targets]
        return np.minimum(moving[0], moving[-1])

    def _moving(self, on_near: Numbers, on_far: Numbers, target: int) -> Numbers:
        surplus = on_near.sum(axis=0) - target
        giving = np.where(surplus > 0, on_near, on_far)
        left: Numbers = np.abs(surplus)
        total: Numbers = np.zeros_like(surplus)
        slower_bps = 0
        for rate_bps, count in zip(self._rates, giving, strict=True):
            total += left * (rate_bps - slower_bps)  # those that are left cost at least this much more
            left, slower_bps = np.maximum(left - count, 0), rate_bps
        return total

    def _names(self, near: Side) -> tuple[str, ...]:
        n_hosts = self._hosts.sum(axis=0)
        side = near if 2 * n_hosts[near].sum() <= n_hosts.sum() else ~near
        return tuple(switch for switch, is_near in zip(self._switches, side, strict=True) if is_near)
