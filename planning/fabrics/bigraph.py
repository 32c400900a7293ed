"""BiGraph: two layers of switches with hosts, each switch cabled to every switch of the other layer.

The fabric of EFLOPS (Dong et al., HPCA 2020).  A host of the upper layer reaches one of the lower
layer by exactly one shortest path, so choosing the peer chooses the link; two hosts of the same
layer may meet at any switch of the other.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.family import DEFAULT_LINKS, LinkSpec, build, check_size
from gradwire.planning.fabrics.paths import access_switch


@dataclass(frozen=True, slots=True)
class BiGraph:
    """The layers of a fabric that is cabled as a BiGraph; switches and hosts in the fabric's order."""

    upper: tuple[str, ...]
    lower: tuple[str, ...]
    hosts_at: Mapping[str, tuple[str, ...]]  # by switch; its index there is a host's position

    @property
    def hosts_per_switch(self) -> int:
        return len(self.hosts_at[self.upper[0]])

    @property
    def positions(self) -> dict[str, int]:
        """The position of every host at its switch, from 0."""
        return {host: i for hosts in self.hosts_at.values() for i, host in enumerate(hosts)}


def bigraph_of(fabric: Fabric) -> BiGraph | None:
    """Its layers, whatever its names and ports are; None if it is cabled otherwise.

    The upper layer is that of the first switch.  A fabric of this family stays one when cables of it fail.
    """
    if fabric.family == "bigraph":
        return _by_family(fabric)
    facing: defaultdict[str, list[str]] = defaultdict(list)
    for link in fabric.inner_links:
        facing[link.a].append(link.b)
        facing[link.b].append(link.a)
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for host in fabric.hosts:
        hosts[access_switch(fabric, host)].append(host)
    below = set(facing[fabric.switches[0]])
    upper = tuple(switch for switch in fabric.switches if switch not in below)
    lower = tuple(switch for switch in fabric.switches if switch in below)
    is_complete = len(upper) == len(lower) and all(
        sorted(facing[switch]) == sorted(others)
        for switches, others in ((upper, lower), (lower, upper))
        for switch in switches
    )
    if not is_complete or len({len(hosts[switch]) for switch in fabric.switches}) != 1:
        return None
    return BiGraph(upper, lower, {switch: tuple(hosts[switch]) for switch in (*upper, *lower)})


def _by_family(fabric: Fabric) -> BiGraph:
    half, m = fabric.shape["n"] // 2, fabric.shape["m"]
    hosts_at = {
        switch: fabric.hosts[number * m : (number + 1) * m] for number, switch in enumerate(fabric.switches)
    }
    return BiGraph(fabric.switches[:half], fabric.switches[half:], hosts_at)


def kind_of(fabric: Fabric) -> str:
    """What to call a fabric that is not a BiGraph."""
    return "fabric from a file that is cabled otherwise" if fabric.family == "file" else fabric.family


def bigraph(n_switches: int, hosts_per_switch: int, links: LinkSpec = DEFAULT_LINKS) -> Fabric:
    """Host i is on switch i div `hosts_per_switch`, at position i mod `hosts_per_switch`.

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
