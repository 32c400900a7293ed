"""Families of fabrics that a few sizes describe: star, leaf-spine, fat-tree.

BiGraph and the grids have modules of their own.
"""

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size


def star(n_hosts: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """All hosts on one switch, so no inner link can be short: `switch0` with host i on port i + 1."""
    if n_hosts < 2:
        raise ValueError(f"a star needs at least 2 hosts, got {n_hosts}")
    check_size(n_hosts, n_hosts)
    return build("star", {"hosts": n_hosts}, ["switch0"], ["switch0"] * n_hosts, [], links)


def leaf_spine(n_leaves: int, n_spines: int, hosts_per_leaf: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """Every leaf has one cable to every spine; host i is on leaf i div `hosts_per_leaf`."""
    if n_leaves < 2 or n_spines < 1 or hosts_per_leaf < 1:
        raise ValueError(
            "a leaf-spine needs at least 2 leaves, 1 spine and 1 host per leaf,"
            f" got leaves={n_leaves}, spines={n_spines}, hosts={hosts_per_leaf}"
        )
    check_size(n_leaves * hosts_per_leaf, n_leaves * (hosts_per_leaf + n_spines))
    leaves = [f"leaf{i}" for i in range(n_leaves)]
    spines = [f"spine{i}" for i in range(n_spines)]
    return build(
        "leaf-spine",
        {"leaves": n_leaves, "spines": n_spines, "hosts": hosts_per_leaf},
        switches=leaves + spines,
        access=[leaf for leaf in leaves for _ in range(hosts_per_leaf)],
        between=[(leaf, spine) for leaf in leaves for spine in spines],
        links=links,
    )


def fat_tree(k: int, levels: int = 3, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """A fat-tree of k-port switches in three levels (k^3/4 hosts) or in two (k^2/2 hosts).

    k pods of k/2 edge and k/2 aggregation switches, and (k/2)^2 cores; core c is cabled to the aggregation
    switch c div k/2 of every pod (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008).  With two levels, k leaves
    under k/2 spines.  Raise ValueError unless k is even and there are two or three levels.
    """
    if k < 2 or k % 2:
        raise ValueError(f"a fat-tree needs an even k of at least 2, got {k}")
    if levels == 2:
        return _two_levels(k, links)
    if levels != 3:
        raise ValueError(f"a fat-tree has levels=2 or levels=3, got {levels}")
    return _three_levels(k, links)


def _two_levels(k: int, links: LinkSpec) -> Fabric:
    half = k // 2
    check_size(n_hosts=k * half, n_cables=2 * k * half)
    leaves = [f"leaf{i}" for i in range(k)]
    spines = [f"spine{i}" for i in range(half)]
    return build(
        "fat-tree",
        {"k": k, "levels": 2},
        switches=leaves + spines,
        access=[leaf for leaf in leaves for _ in range(half)],
        between=[(leaf, spine) for leaf in leaves for spine in spines],
        links=links,
    )


def _three_levels(k: int, links: LinkSpec) -> Fabric:
    half = k // 2
    n_hosts = k * half * half
    check_size(n_hosts, n_cables=3 * n_hosts)
    edges = [f"edge{i}" for i in range(k * half)]
    aggs = [f"agg{i}" for i in range(k * half)]
    cores = [f"core{i}" for i in range(half * half)]
    between = []
    for pod in range(k):
        mine = range(pod * half, (pod + 1) * half)
        between += [(edges[e], aggs[a]) for e in mine for a in mine]
        between += [(aggs[a], cores[a % half * half + up]) for a in mine for up in range(half)]
    return build(
        "fat-tree",
        {"k": k, "levels": 3},
        switches=edges + aggs + cores,
        access=[edge for edge in edges for _ in range(half)],
        between=between,
        links=links,
    )
