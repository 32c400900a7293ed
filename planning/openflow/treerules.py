"""The flow entries of aggregation trees.  `planning.openflow.rules` makes rules of them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from planning.openflow.entries import Aggregate
from planning.openflow.match import ETH_TYPE_IPV4, PROTO_UDP, Match
from planning.trees.tree import Tree, aggregate


class Sum(NamedTuple):
    """One flow entry of a tree."""

    switch: str
    match: Match
    aggregate: Aggregate


def sums(trees: Iterable[Tree]) -> Iterator[Sum]:
    """One entry for each child of each node, and one for what its parent sends down."""
    for tree in trees:
        for node in tree.nodes:
            for index, child in enumerate(node.children):
                yield Sum(node.switch, _match(child.port, tree), aggregate(tree, node, index))
            if node.parent_port is not None:
                yield Sum(node.switch, _match(node.parent_port, tree), aggregate(tree, node))


def _match(in_port: int, tree: Tree) -> Match:
    return Match(eth_type=ETH_TYPE_IPV4, ip_proto=PROTO_UDP, dport=tree.udp_port, in_port=in_port)
