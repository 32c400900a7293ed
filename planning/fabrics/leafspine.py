"""Leaf-spine: every leaf has one cable to every spine, hosts hang off the leaves only."""

from planning.fabrics.fabric import Fabric
from planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size


def leaf_spine(n_leaves: int, n_spines: int, hosts_per_leaf: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """Host i is on leaf i div `hosts_per_leaf`."""
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
