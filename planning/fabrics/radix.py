"""The largest fabrics of each family that switches of so many ports make, by closed forms: nothing is built.

All cables have the same rate, so capacities are counted in cables.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MIN_RADIX, MAX_RADIX = 2, 1024  # ports of a switch
OVERSUBSCRIPTIONS = (1, 3)  # of leaf-spines: hosts for each uplink


@dataclass(frozen=True, slots=True)
class Size:
    """A fabric by its spec, and its figures as `planning.fabrics.figures` would find them once it is built.

    `n_cut`: cables of the worst even cut, between two halves of the hosts.  `radix`: ports of the switch that
    uses the most.
    """

    spec: str
    n_hosts: int
    n_switches: int
    n_ports: int
    n_inner_cables: int
    radix: int
    n_cut: int
    oversubscription: float
    diameter: int
    mean_switches: float

    @property
    def family(self) -> str:
        return self.spec.partition(":")[0]

    @property
    def n_cables(self) -> int:
        return self.n_hosts + self.n_inner_cables

    @property
    def worst_ratio(self) -> float:
        """How many times what its worst even cut carries half of the hosts could send: N of N : 1."""
        return self.n_hosts // 2 / self.n_cut


def largest(radix: int) -> tuple[Size, ...]:
    """Of each family that grows with the ports of its switches, the fewest hosts first.

    Of a leaf-spine those with at most so many hosts for each uplink as `OVERSUBSCRIPTIONS` say; the first is
    what a fat-tree of two levels is, for an odd number of ports as well.  Grids are not among them: one of
    any size has switches of 5 ports at most.  Raise ValueError for a switch without ports for two hosts.
    """
    if not MIN_RADIX <= radix <= MAX_RADIX:
        raise ValueError(f"a switch has {MIN_RADIX} to {MAX_RADIX:,} ports, got {radix}")
    leaf_spines = dict.fromkeys(_spines(radix, most) for most in OVERSUBSCRIPTIONS)
    sizes = [_star(radix), _bigraph(radix // 2, radix - radix // 2), _three_levels(radix - radix % 2)]
    sizes += [_leaf_spine(radix, spines, radix - spines) for spines in leaf_spines]
    return tuple(sorted(sizes, key=lambda size: (size.n_hosts, size.n_switches)))


def _spines(radix: int, most: int) -> int:
    """The fewest that leave a leaf with no more than `most` hosts for each of them."""
    return -(-radix // (1 + most))


def _star(n_hosts: int) -> Size:
    return Size(f"star:hosts={n_hosts}", n_hosts, 1, n_hosts, 0, n_hosts, n_hosts // 2, 1.0, 1, 1.0)


def _leaf_spine(leaves: int, spines: int, m: int) -> Size:
    """`m` hosts a leaf.  Half of the leaves, or no leaf, on one side of the cut; spines on the other."""
    n_hosts, half = leaves * m, leaves * m // 2
    near = leaves // 2
    return Size(
        spec=f"leaf-spine:leaves={leaves},spines={spines},hosts={m}",
        n_hosts=n_hosts,
        n_switches=leaves + spines,
        n_ports=leaves * (m + 2 * spines),
        n_inner_cables=leaves * spines,
        radix=max(leaves, m + spines),
        n_cut=min(half, spines * near + half - m * near),
        oversubscription=m / spines,
        diameter=3,
        mean_switches=(m - 1 + 3 * (n_hosts - m)) / (n_hosts - 1),
    )


def _three_levels(k: int) -> Size:
    """Al-Fares, Loukissas, Vahdat, SIGCOMM 2008: k pods, full bisection by construction."""
    half = k // 2
    n_hosts = k * half * half
    near = half - 1 + 3 * (half * half - half) + 5 * (n_hosts - half * half)
    return Size(
        spec=f"fat-tree:k={k}",
        n_hosts=n_hosts,
        n_switches=2 * k * half + half * half,
        n_ports=5 * n_hosts,
        n_inner_cables=2 * n_hosts,
        radix=k,
        n_cut=n_hosts // 2,
        oversubscription=1.0,
        diameter=5,
        mean_switches=near / (n_hosts - 1),
    )


def _bigraph(half: int, m: int) -> Size:
    """Two layers of `half` switches with `m` hosts each (EFLOPS, Dong et al., HPCA 2020)."""
    n_hosts = 2 * half * m
    apart = half * m - m  # hosts of the same layer, below other switches
    return Size(
        spec=f"bigraph:n={2 * half},m={m}",
        n_hosts=n_hosts,
        n_switches=2 * half,
        n_ports=2 * half * (half + m),
        n_inner_cables=half * half,
        radix=half + m,
        n_cut=min(_bigraph_cuts(half, m)),
        oversubscription=m / half,
        diameter=3 if half > 1 else 2,
        mean_switches=(m - 1 + 2 * half * m + 3 * apart) / (n_hosts - 1),
    )


def _bigraph_cuts(half: int, m: int) -> Iterator[int]:
    """With so many switches on one side as have at most half of the hosts; the hosts that lack change sides.

    `upper` and `lower` of them sever upper (half - lower) + lower (half - upper) cables, which is least where
    both are as many.
    """
    for near in range(half + 1):
        upper, lower = near - near // 2, near // 2
        yield half * near - 2 * upper * lower + m * (half - near)
