"""BiGraph: two layers of switches, completely cabled to each other, both with hosts.

The fabric of EFLOPS (Dong et al., HPCA 2020).  A host of the upper layer reaches one of the lower
layer by exactly one shortest path, so choosing the peer chooses the link; two hosts of the same
layer may meet at any switch of the other.
"""

from itertools import product

from emu.fabric import Fabric
from emu.family import DEFAULT_LINKS, LinkSpec, build, check_size


def bigraph(n_switches: int, hosts_per_switch: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """Host i is on switch i div `hosts_per_switch`, in slot i mod `hosts_per_switch`.

    Switches 0 .. n/2-1 are the upper layer, the others the lower one.
    """
    if n_switches < 2 or n_switches % 2:
        raise ValueError(f"a BiGraph needs an even n of at least 2 switches, got {n_switches}")
    if hosts_per_switch < 1:
        raise ValueError(f"a BiGraph needs at least m=1 host per switch, got {hosts_per_switch}")
    half = n_switches // 2
    n_hosts = n_switches * hosts_per_switch
    check_size(n_hosts, n_hosts + half * half)
    upper = [f"upper{i}" for i in range(half)]
    lower = [f"lower{i}" for i in range(half)]
    return build(
        "bigraph",
        {"n": n_switches, "m": hosts_per_switch},
        switches=upper + lower,
        access=[switch for switch in upper + lower for _ in range(hosts_per_switch)],
        between=list(product(upper, lower)),
        links=links,
    )
