"""Which host each rank runs on.

A package adds one with an entry point in the group `gradwire.placement`; it cannot replace a built-in.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from itertools import zip_longest
from math import gcd

from gradwire.planning.fabrics.bigraph import BiGraph, bigraph_of, kind_of
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.refused import Refused
from gradwire.traces import plugins
from gradwire.traces.plugins import entry_points
from gradwire.traces.seeded import draw
from gradwire.traces.units import one_of

GROUP = "gradwire.placement"


def place(name: str, fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """The host of every rank.

    Raise ValueError for a placement that does not exist, Refused for one that makes no sense here.
    """
    if name not in PLACEMENTS:
        one_of("placement", name, placement_names())
    if n_ranks > len(fabric.hosts):
        raise Refused(f"{n_ranks} ranks need {n_ranks} hosts, but {fabric.spec} has {len(fabric.hosts)}")
    if name in PLACEMENTS:
        return PLACEMENTS[name](fabric, n_ranks, seed)
    (entry, *_) = entry_points(group=GROUP, name=name)
    return _checked(entry, plugins.loaded_with(entry, plugins.CALL)(fabric, n_ranks, seed), fabric, n_ranks)


def placement_names() -> tuple[str, ...]:
    """The names of all placements: the built-in ones, then those of installed packages by name."""
    offered = {entry.name for entry in entry_points(group=GROUP)}
    return (*PLACEMENTS, *sorted(offered - set(PLACEMENTS)))


def _checked(entry: EntryPoint, hosts: object, fabric: Fabric, n_ranks: int) -> tuple[str, ...]:
    """What a package's placement gives.  Raise BadPlugin if that is not a host of its own for each rank."""
    whose, known = plugins.plugin_name(entry), set(fabric.hosts)
    if not isinstance(hosts, Sequence):
        raise plugins.BadPlugin(f"{whose} gives a {type(hosts).__name__}, not the host of each rank")
    if len(hosts) != n_ranks:
        raise plugins.BadPlugin(f"{whose} places {len(hosts)} ranks, not {n_ranks}")
    if strange := next((host for host in hosts if host not in known), None):
        raise plugins.BadPlugin(f"{whose} names {str(strange)[:40]!r}, which is not a host of {fabric.spec}")
    if len(set(hosts)) < n_ranks:
        raise plugins.BadPlugin(f"{whose} puts two ranks on one host")
    return tuple(hosts)


def linear(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """Rank r on host r."""
    del seed
    return fabric.hosts[:n_ranks]


def shuffled(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """Ranks on hosts drawn without order, as a scheduler that does not know the fabric leaves them."""
    return tuple(sorted(fabric.hosts, key=lambda host: draw(seed, "place", host))[:n_ranks])


def hdrm(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """EFLOPS' rank map, with which every exchange of halving-doubling has a link of its own.

    Partners differ in one bit of their ranks, so in the parity of the bits that are set, and parity
    chooses the side; hence partners have exactly one shortest path.  Closed form of the map in the
    MultiTree authors' simulator (Huang et al., ISCA 2021), for n and m powers of two.
    """
    del seed
    cabled = bigraph_of(fabric)
    if cabled is None:
        raise Refused(f"placement hdrm works only on a BiGraph, not on a {kind_of(fabric)}")
    n, m = len(fabric.switches), cabled.hosts_per_switch
    if n & (n - 1) or m & (m - 1):
        raise Refused(f"placement hdrm needs n and m to be powers of two, got n={n}, m={m}")
    if n_ranks != n * m:
        raise Refused(f"placement hdrm needs a rank on each of the {n * m} hosts, got {n_ranks} ranks")
    hosts = _hosts(cabled)
    return tuple(hosts[_hdrm_host(rank, n, m)] for rank in range(n_ranks))


def _hosts(cabled: BiGraph) -> list[str]:
    """Switch after switch, the upper layer first."""
    return [host for switch in (*cabled.upper, *cabled.lower) for host in cabled.hosts_at[switch]]


def _hdrm_host(rank: int, n: int, m: int) -> int:
    position, q = divmod(rank, n)
    index = q // 2
    on_lower_side = rank.bit_count() % 2
    switch = n // 2 + index if on_lower_side else (index + position) % (n // 2)
    return switch * m + position


def snake(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """Row after row of a torus or a mesh, every other one backwards, so that a ring's ranks are neighbours.

    On a torus with an even number of rows the ring's end is its beginning's neighbour, too.
    """
    del seed
    if fabric.family not in ("torus", "mesh"):
        raise Refused(
            f"placement snake works only on a torus or a mesh, not on a {kind_of(fabric)}; by-leaf puts a "
            "ring's ranks side by side there"
        )
    columns = fabric.shape["y"]
    rows = [fabric.hosts[start : start + columns] for start in range(0, len(fabric.hosts), columns)]
    hosts = [host for number, row in enumerate(rows) for host in (row[::-1] if number % 2 else row)]
    return tuple(hosts[:n_ranks])


def alternating(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """The ring in which ranks that follow each other are on opposite layers of a BiGraph.

    So each of its flows has exactly one shortest path, of one link, and no two have the same link up to n/2
    hosts at a switch; beyond that, no link has more of them than it must.
    """
    del seed
    cabled = bigraph_of(fabric)
    if cabled is None:
        raise Refused(
            f"placement alternating works only on a BiGraph, not on a {kind_of(fabric)}; "
            "by-leaf puts a ring's ranks side by side there"
        )
    n, m = len(fabric.switches), cabled.hosts_per_switch
    if n_ranks % n:
        some = f"{n}, {2 * n}, ..., {n * m}" if m > 2 else " or ".join(str(n * i) for i in range(1, m + 1))
        raise Refused(
            f"placement alternating goes round all {n} switches once or several times: "
            f"it needs {some} ranks, got {n_ranks}"
        )
    hosts = _hosts(cabled)
    return tuple(hosts[switch * m + slot] for switch, slot in _alternating(n, n_ranks // n))


def _alternating(n: int, n_rounds: int) -> Iterator[tuple[int, int]]:
    """The switch and the slot of each rank.  Round i takes slot i of every switch.

    It goes down from upper u to lower u + i and up from lower l to upper l + i + 1, modulo n/2: no other
    round takes these links.  That is the ring of the MultiTree authors' simulator (Huang et al., ISCA 2021).
    It comes round all switches where 2i + 1 and n/2 have no common factor.  Where some round would not, all
    rounds go up from l to l + 1 - i, so from each upper switch to the next.
    """
    half = n // 2
    comes_round = all(gcd(2 * slot + 1, half) == 1 for slot in range(n_rounds))
    for slot in range(n_rounds):
        upper = 0
        for _ in range(half):
            yield upper, slot
            lower = (upper + slot) % half
            yield half + lower, slot
            upper = (lower + (1 + slot if comes_round else 1 - slot)) % half


def by_leaf(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """Ranks that follow each other share a leaf, and leaf after leaf is filled, both in the fabric's order.

    A ring then has one flow out of each leaf and one into it, so on a tree no two of its flows share a link,
    whatever the routes.  Where hosts are numbered leaf after leaf, as in every family, it is `linear`.
    """
    del seed
    number = {switch: i for i, switch in enumerate(fabric.switches)}
    return tuple(sorted(fabric.hosts, key=lambda host: number[access_switch(fabric, host)])[:n_ranks])


def cyclic(fabric: Fabric, n_ranks: int, seed: int) -> tuple[str, ...]:
    """One rank on each leaf in turn, in the fabric's order, as SLURM's `--distribution=cyclic` has nodes.

    Ranks that follow each other never share a leaf while there is another one with a free host.
    """
    del seed
    leaves: dict[str, list[str]] = {switch: [] for switch in fabric.switches}
    for host in fabric.hosts:
        leaves[access_switch(fabric, host)].append(host)
    rounds = zip_longest(*leaves.values())
    return tuple(host for some in rounds for host in some if host is not None)[:n_ranks]


PLACEMENTS: dict[str, Callable[[Fabric, int, int], tuple[str, ...]]] = {
    "linear": linear,
    "random": shuffled,
    "hdrm": hdrm,
    "alternating": alternating,
    "by-leaf": by_leaf,
    "cyclic": cyclic,
    "snake": snake,
}
