"""A star: all hosts on one switch, the fabric that has no inner link to be short of."""

from planning.fabrics.fabric import Fabric
from planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size


def star(n_hosts: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """`switch0` with host i on port i + 1."""
    if n_hosts < 2:
        raise ValueError(f"a star needs at least 2 hosts, got {n_hosts}")
    check_size(n_hosts, n_hosts)
    return build("star", {"hosts": n_hosts}, ["switch0"], ["switch0"] * n_hosts, [], links)
