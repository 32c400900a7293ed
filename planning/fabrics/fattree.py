"""Fat-trees of k-port switches, in three levels (k^3/4 hosts) or in two (k^2/2 hosts).

Al-Fares, Loukissas, Vahdat, SIGCOMM 2008: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2
cores; core c is cabled to the aggregation switch c div k/2 of every pod.  With two levels, k leaves
under k/2 spines.
"""

from planning.fabrics.fabric import Fabric
from planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size


def fat_tree(k: int, levels: int = 3, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """Raise ValueError unless k is even and there are two or three levels."""
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
