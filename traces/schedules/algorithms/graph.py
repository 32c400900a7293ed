"""The network for which an algorithm makes its schedule: nodes, links, and where the ranks are."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Graph:
    """`capacity[a, b]` is how many messages of one size the link from a to b carries in a step, at least 1.

    Every link leads both ways alike.  `hosts` are the nodes that send and receive; all others only pass on.
    `ranks` has the host of each rank: not every host needs to have one.  Where an algorithm has a choice it
    takes the link that comes first in `capacity`.
    """

    nodes: tuple[str, ...]
    hosts: tuple[str, ...]
    ranks: tuple[str, ...]
    capacity: Mapping[tuple[str, str], int]

    def __post_init__(self) -> None:
        known = set(self.nodes)
        for (a, b), capacity in self.capacity.items():
            if a not in known or b not in known:
                raise ValueError(f"the link from {a} to {b} joins a node that the graph does not have")
            if capacity < 1 or self.capacity.get((b, a)) != capacity:
                raise ValueError(
                    f"the link from {a} to {b} must carry at least 1 message a step, and as many back"
                )
        if not set(self.ranks) <= set(self.hosts) <= known or len(set(self.ranks)) < len(self.ranks):
            raise ValueError("every rank needs a host of its own, and every host must be a node of the graph")

    def __hash__(self) -> int:
        """Without `capacity`, which has no hash; equal graphs have equal ones all the same."""
        return hash((self.nodes, self.hosts, self.ranks))

    @property
    def n_ranks(self) -> int:
        return len(self.ranks)
